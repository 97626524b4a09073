"""The batch APIs of Anthropic and OpenAI: requests that are answered later, at half the price.

A batch ends when it is asked for, unless `holds_batches` is set. Its requests are in `requests`, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from autonomy_ctx.testing.providers.state import Body, ProviderRefusal, ProviderRequest, ProviderState

CLAUDE, GPT, FILES = "/v1/messages/batches", "/v1/batches", "/v1/files"
# Answers one request of a batch.
AnswerRequest = Callable[[ProviderRequest], Body]


@dataclass(slots=True, kw_only=True)
class ProviderBatch:
    """A batch: its requests with their ids, and its results once it has ended."""

    id: str
    requests: list[tuple[str, ProviderRequest]]
    status: str = "in_progress"
    results: list[Body] = field(default_factory=list)
    # Of OpenAI: the files of requests and results.
    input_file: str = ""
    output_file: str | None = None


def read_form(content: bytes, kind: str) -> Body:
    """The fields of a form, as the upload of a file has them."""
    mark = b"--" + kind.partition("boundary=")[2].strip('"').encode()
    fields: Body = {}
    for part in content.split(mark)[1:-1]:
        head, _, value = part.strip(b"\r\n").partition(b"\r\n\r\n")
        fields[head.partition(b'name="')[2].partition(b'"')[0].decode()] = value.decode()
    return fields


def answer_batch(state: ProviderState, seen: ProviderRequest, answer: AnswerRequest) -> Body | list[Body]:
    """Answer a request of a batch API; a list for a file of results."""
    if seen.path.startswith(FILES):
        return _answer_file(state, seen)
    base = CLAUDE if seen.path.startswith(CLAUDE) else GPT
    name, _, verb = seen.path.removeprefix(base).strip("/").partition("/")
    if not name:
        return _describe(_create(state, seen, base), base)
    batch = state.batches.get(name)
    if batch is None:
        raise ProviderRefusal(f"there is no batch {name}", status=404)
    if seen.method == "DELETE":
        if batch.status == "in_progress":
            raise ProviderRefusal("a batch that is being processed cannot be deleted")
        del state.batches[name]
        return {"id": name, "type": "message_batch_deleted"}
    if verb == "cancel":
        batch.status = "cancelled" if batch.status == "in_progress" else batch.status
    elif batch.status == "in_progress" and not state.holds_batches:
        _finish(state, batch, base, answer)
    return batch.results if verb == "results" else _describe(batch, base)


def _create(state: ProviderState, seen: ProviderRequest, base: str) -> ProviderBatch:
    state.count += 1
    if base == CLAUDE:
        name, path = f"msgbatch_{state.count:04}", "/v1/messages"
        made = [(one["custom_id"], one["params"]) for one in seen.body["requests"]]
    else:
        name, path = f"batch_{state.count:04}", str(seen.body["endpoint"])
        lines = [json.loads(line) for line in state.files[seen.body["input_file_id"]].splitlines()]
        if any(line["url"] != path or line["method"] != "POST" for line in lines):
            raise ProviderRefusal("a line of the file is for another endpoint")
        made = [(line["custom_id"], line["body"]) for line in lines]
    requests = [
        (one, ProviderRequest(path=path, headers=seen.headers, body=body, model=body["model"], is_batch=True))
        for one, body in made
    ]
    batch = ProviderBatch(id=name, requests=requests, input_file=str(seen.body.get("input_file_id", "")))
    state.batches[name] = batch
    return batch


def _finish(state: ProviderState, batch: ProviderBatch, base: str, answer: AnswerRequest) -> None:
    for name, request in batch.requests:
        try:
            made, error = answer(request), None
        except ProviderRefusal as refused:
            request.status, request.error = refused.status, str(refused)
            made, error = {"error": {"message": request.error}}, refused
        if base == CLAUDE:
            result = {"type": "errored", **made} if error else {"type": "succeeded", "message": made}
            batch.results.append({"custom_id": name, "result": result})
        else:
            response = {"status_code": request.status, "body": made}
            batch.results.append({"custom_id": name, "response": response, "error": None})
    batch.status = "completed"
    if base == GPT:
        batch.output_file = f"file-{batch.id}"
        state.files[batch.output_file] = "\n".join(map(json.dumps, batch.results))


def _describe(batch: ProviderBatch, base: str) -> Body:
    if base == CLAUDE:
        status = "in_progress" if batch.status == "in_progress" else "ended"
        return {"id": batch.id, "type": "message_batch", "processing_status": status}
    files = {"input_file_id": batch.input_file, "output_file_id": batch.output_file, "error_file_id": None}
    return {"id": batch.id, "object": "batch", "status": batch.status, **files}


def _answer_file(state: ProviderState, seen: ProviderRequest) -> Body | list[Body]:
    name, _, _ = seen.path.removeprefix(FILES).strip("/").partition("/")
    if not name:
        if seen.body.get("purpose") != "batch":
            raise ProviderRefusal("this server takes files of batches", param="purpose")
        state.count += 1
        name = f"file-{state.count:04}"
        state.files[name] = str(seen.body["file"])
        return {"id": name, "object": "file", "purpose": "batch"}
    if name not in state.files:
        raise ProviderRefusal(f"there is no file {name}", status=404)
    if seen.method == "DELETE":
        del state.files[name]
        return {"id": name, "object": "file", "deleted": True}
    found: list[Any] = [json.loads(line) for line in state.files[name].splitlines()]
    return found
