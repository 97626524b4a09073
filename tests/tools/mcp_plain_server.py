"""An MCP server of the older protocol, written with nothing but the standard library: it starts at once.

Its first argument is what is odd about it.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

VERSION = "2025-06-18"
ODD = sys.argv[1] if len(sys.argv) > 1 else ""
TOOLS = [
    {"name": "greet", "description": "Greet somebody.", "inputSchema": {"type": "object"}},
    {"name": "die", "inputSchema": {"type": "object"}},
]


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    match request["method"]:
        case "initialize":
            capabilities = {"tools": {"listChanged": True}}
            info = {"name": "plain", "version": "1"}
            return {"protocolVersion": VERSION, "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            if ODD == "pages":
                at = int((request.get("params") or {}).get("cursor", 0))
                page = {"name": f"tool-{at}", "inputSchema": {"type": "object"}}
                return {"tools": [page], **({"nextCursor": str(at + 1)} if at < 4 else {})}
            if ODD.startswith("many"):
                _, total, size = ODD.split(":")
                at = int((request.get("params") or {}).get("cursor", 0))
                end = min(at + int(size), int(total))
                schema = {"type": "object", "properties": {"city": {"type": "string"}}}
                tools = [{"name": f"tool-{number}", "inputSchema": schema} for number in range(at, end)]
                return {"tools": tools, **({"nextCursor": str(end)} if end < int(total) else {})}
            if ODD == "bad-schema":
                bad = {"type": "object", "allOf": [{"required": [{}]}]}
                return {"tools": [{"name": "bad", "inputSchema": bad}, *TOOLS]}
            return {"tools": TOOLS}
        case "tools/call":
            return call(request["params"]["name"])
    raise LookupError(request["method"])


def call(name: str) -> dict[str, Any]:
    if name == "die":
        os._exit(3)
    if ODD == "learns" and len(TOOLS) == 2:
        TOOLS.append({"name": "wave", "inputSchema": {"type": "object"}})
        send({"method": "notifications/tools/list_changed"})
    if ODD == "broken-result":
        return {"content": "not a list"}
    text = "line\n" * 20_000 if ODD == "long" else f"hello from {os.getpid()}"
    return {"content": [{"type": "text", "text": text}]}


def main() -> None:
    """Answer requests until stdin ends."""
    if ODD == "fails":
        print("cannot find the token s3cr3t-t0ken", file=sys.stderr, flush=True)
        sys.exit(1)
    if ODD == "silent":
        time.sleep(600)
    for line in sys.stdin:
        request = json.loads(line)
        if "id" not in request:
            continue
        try:
            send({"id": request["id"], "result": answer(request)})
        except LookupError:
            error = {"code": -32601, "message": "Method not found"}
            send({"id": request["id"], "error": error})
    if ODD == "stays":
        time.sleep(600)


if __name__ == "__main__":
    main()
