"""Batches: requests that a provider answers within a day, at half the price.

Anthropic takes requests as they are, OpenAI as a file. Here a batch has one request. Its texts stay at the
provider until it is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

from autonomy_ctx.errors import InvalidModelReply, ModelError
from autonomy_ctx.formats.base import ANTHROPIC, Format, ModelReply, WireRequest
from autonomy_ctx.formats.outgoing import encode_request
from autonomy_ctx.models.client import ModelClient, RequestBuilder
from autonomy_ctx.models.retry import parse_body

# The providers that have batches, by name.
BATCH_PROVIDERS = frozenset({"anthropic", "openai", "openai-responses"})
CLAUDE_BATCHES, GPT_BATCHES, GPT_FILES = "/messages/batches", "/batches", "/files"
CLAUDE_RUNNING = frozenset({"in_progress", "canceling"})
GPT_RUNNING = frozenset({"validating", "in_progress", "finalizing", "cancelling"})
BEING_CANCELLED = frozenset({"canceling", "cancelling"})
REQUEST_ID = "summary"


class BatchClient:
    """Sends, reads and drops the batches of one model."""

    def __init__(self, name: str, model_format: Format, builder: RequestBuilder, client: ModelClient) -> None:
        self._name, self._format, self._builder, self._client = name, model_format, builder, client
        self._is_claude = model_format.name == ANTHROPIC
        self._path = CLAUDE_BATCHES if self._is_claude else GPT_BATCHES

    async def send(self, request: WireRequest) -> str:
        """Send a request as a batch; its id."""
        if self._is_claude:
            body: Any = {"requests": [{"custom_id": REQUEST_ID, "params": request.body}]}
            return str((await self._call("POST", self._path, body, request.betas))["id"])
        url = f"/v1/{request.path.lstrip('/').removeprefix('v1/')}"
        line = {"custom_id": REQUEST_ID, "method": "POST", "url": url, "body": request.body}
        file = await self._upload(encode_request(line).encode())
        body = {"input_file_id": file, "endpoint": url, "completion_window": "24h"}
        return str((await self._call("POST", self._path, body))["id"])

    async def read(self, batch: str) -> ModelReply | None:
        """The reply; None while there is none. Raises `ModelError` if there will be none."""
        state = await self._call("GET", f"{self._path}/{batch}")
        if self._is_running(state):
            return None
        if self._is_claude:
            lines = await self._fetch("GET", f"{self._path}/{batch}/results")
            result = _first_line(lines).get("result") or {}
            if result.get("type") != "succeeded":
                raise ModelError(self._name, f"did not answer a batch: it was {result.get('type')}")
            return self._format.reply(result["message"])
        file = state.get("output_file_id")
        response = _first_line(await self._fetch("GET", f"{GPT_FILES}/{file}/content")) if file else {}
        response = response.get("response") or {}
        if response.get("status_code") != 200:
            raise ModelError(self._name, f"did not answer a batch: it is {state.get('status')}")
        return self._format.reply(response["body"])

    async def drop(self, batch: str) -> bool:
        """Cancel a batch, and delete its texts once it has ended. Returns whether it is gone."""
        try:
            state = await self._call("GET", f"{self._path}/{batch}")
            if self._is_running(state):
                if state.get("processing_status", state.get("status")) not in BEING_CANCELLED:
                    await self._call("POST", f"{self._path}/{batch}/cancel")
                return False
            if self._is_claude:
                await self._call("DELETE", f"{self._path}/{batch}")
                return True
            for name in ("input_file_id", "output_file_id", "error_file_id"):
                if state.get(name):
                    await self._call("DELETE", f"{GPT_FILES}/{state[name]}")
        except ModelError as error:
            if error.status_code != 404:
                raise
        return True

    def _is_running(self, state: Mapping[str, Any]) -> bool:
        if self._is_claude:
            return state.get("processing_status") in CLAUDE_RUNNING
        return state.get("status") in GPT_RUNNING

    async def _upload(self, content: bytes) -> str:
        """Upload a file of requests; its id."""
        mark = uuid4().hex
        fields = f'--{mark}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
        head = f'--{mark}\r\nContent-Disposition: form-data; name="file"; filename="summary.jsonl"\r\n\r\n'
        form = f"{fields}{head}".encode() + content + f"\r\n--{mark}--\r\n".encode()
        request = self._builder.build_request(WireRequest(path=GPT_FILES, body={}))
        headers = {**request.headers, "content-type": f"multipart/form-data; boundary={mark}"}
        return str(
            self._read(await self._client.fetch(replace(request, headers=headers, content=form)))["id"]
        )

    async def _call(
        self, method: str, path: str, body: Any = None, betas: tuple[str, ...] = ()
    ) -> Mapping[str, Any]:
        return self._read(await self._fetch(method, path, body, betas))

    async def _fetch(self, method: str, path: str, body: Any = None, betas: tuple[str, ...] = ()) -> bytes:
        request = self._builder.build_request(WireRequest(path=path, body=body or {}, betas=betas))
        content = b"" if body is None else request.content
        return await self._client.fetch(replace(request, method=method, content=content))

    def _read(self, content: bytes) -> Mapping[str, Any]:
        found = parse_body(content)
        if not isinstance(found, dict):
            raise InvalidModelReply(self._name, "is not a JSON object")
        return found


def _first_line(content: bytes) -> Mapping[str, Any]:
    """The first line of a file of results."""
    found = parse_body(content.strip().partition(b"\n")[0])
    return found if isinstance(found, dict) else {}
