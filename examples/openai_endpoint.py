"""The OpenAI API in front of a model, with memory: `python examples/openai_endpoint.py`.

Here the model is an application of this process, so that it runs offline. With an address, it is served:
`python examples/openai_endpoint.py https://api.openai.com/v1 8000`.
"""

import sys
from typing import Any

import anyio
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from autonomy_ctx.server import endpoint_app

# An application has these in its database.
TENANTS = {"Bearer key-of-acme": "acme", "Bearer key-of-zen": "zen"}


def authenticate(request: Request) -> str | None:
    """The tenant that a request is from; nobody else's conversations are found."""
    return TENANTS.get(request.headers.get("authorization", ""))


async def answer(request: Request) -> JSONResponse:
    """A model that says how much it was shown."""
    shown = (await request.json())["messages"]
    text = f"I was shown {len(shown)} messages; the last one is {shown[-1]['content']!r}."
    message = {"role": "assistant", "content": text}
    return JSONResponse(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": "local",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }
    )


async def show() -> None:
    """Three clients: one sends everything each time, one only what is new, one takes back what it said."""
    model = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
    upstream = httpx.AsyncClient(transport=httpx.ASGITransport(app=model))
    app = endpoint_app("http://model.example/v1", authenticate=authenticate, http_client=upstream)

    async with app, upstream, httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:

        async def ask(key: str, messages: list[Any], **headers: str) -> httpx.Response:
            response = await client.post(
                "http://endpoint.example/v1/chat/completions",
                headers={"authorization": f"Bearer {key}", **headers},
                json={"model": "local", "messages": messages},
            )
            return response.raise_for_status()

        print("A client that sends its whole history:")
        history: list[Any] = []
        for text in ("Our code word is heron.", "What is our code word?"):
            history.append({"role": "user", "content": text})
            response = await ask("key-of-acme", history)
            history.append(response.json()["choices"][0]["message"])
            print(f"  {history[-1]['content']}")
        conversation = response.headers["x-conversation-id"]
        print(f"  stored: {await app.memory.get_message_count('acme', conversation)} messages")

        print("A client that sends only what is new, and names the conversation:")
        for text in ("The ferry leaves at nine.", "When does it leave?"):
            named = {"x-conversation-id": "trip"}
            response = await ask("key-of-zen", [{"role": "user", "content": text}], **named)
            print(f"  {response.json()['choices'][0]['message']['content']}")

        print("An edited history is a conversation of its own; the first one stays:")
        history[2:] = [{"role": "user", "content": "Forget it. Who are you?"}]
        response = await ask("key-of-acme", history)
        print(f"  {response.json()['choices'][0]['message']['content']}")
        for one in await app.memory.conversations("acme"):
            print(
                f"  {one.messages} messages: {'as it was' if one.conversation == conversation else 'edited'}"
            )


if __name__ == "__main__":
    if len(sys.argv) < 2:
        anyio.run(show)
    else:
        served = endpoint_app(sys.argv[1], scope="me", memory="sqlite:///conversations.db")
        uvicorn.run(served, host="127.0.0.1", port=int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
