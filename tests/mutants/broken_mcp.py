"""Broken builds of MCP: what servers of tools are given, and what a memory serves."""

from __future__ import annotations

from mutants.mutant import Mutant

CLIENT = "tests/tools/test_mcp.py"
TOOLS = "tests/cli/test_memory_tools.py"
COMMAND = "tests/cli/test_mcp_command.py"
MUTANTS = [
    Mutant(
        "a server with thousands of tools is refused before they are read",
        "tools/mcp_connection.py",
        "            if self._listed > MAX_TOOLS:\n",
        "            if False:\n",
        CLIENT,
    ),
    Mutant(
        "schemas of a server's tools are read outside the event loop",
        "tools/mcp_connection.py",
        "        await anyio.to_thread.run_sync(self._on_tools, found)\n",
        "        self._on_tools(found)\n",
        CLIENT,
    ),
    Mutant(
        "headers for one server do not follow a redirect to another",
        "tools/mcp_connection.py",
        "        if _origin(request.url) != origin:\n",
        "        if False:\n",
        CLIENT,
    ),
    Mutant(
        "what a server is given as secret is in no log and no error",
        "tools/mcp.py",
        "            if len(value) >= MIN_SECRET:\n",
        "            if False:\n",
        CLIENT,
    ),
    Mutant(
        "a server ends with its last agent",
        "tools/mcp.py",
        "        if not self._users:\n            await self.close()\n",
        "",
        CLIENT,
    ),
    Mutant(
        "a server is not closed while another agent uses it",
        "tools/mcp.py",
        "        if not self._users:\n            await self.close()\n",
        "        await self.close()\n",
        CLIENT,
    ),
    Mutant(
        "a server that fails is left alone for longer each time",
        "tools/mcp.py",
        "        self._failures = 0 if connection.was_used else self._failures + 1\n",
        "        self._failures = 0\n",
        CLIENT,
    ),
    Mutant(
        "an image that no provider takes does not get into the log",
        "tools/mcp_content.py",
        "    if found is None:\n",
        "    if False:\n",
        CLIENT,
    ),
    Mutant(
        "a turn has the tools that it began with, and the next one those that there are then",
        "agents/agent_tools.py",
        "        if any(now is not before for now, before in zip(listed, self._seen, strict=True)):\n",
        "        if not self._names:\n",
        CLIENT,
    ),
    Mutant(
        "a name that one tool has no other gets",
        "agents/agent_tools.py",
        "            taken = {*self.fixed, *self._names.values()}\n",
        "            taken = {*self.fixed}\n",
        CLIENT,
    ),
    Mutant(
        "what is fixed when a memory is served is no argument of a client",
        "server/mcp/memory_tools.py",
        "        fields = tuple(field for field in kind.fields if field.name not in fixed)\n",
        "        fields = kind.fields\n",
        TOOLS,
    ),
    Mutant(
        "a memory that is served is changed only with --write",
        "server/mcp/memory_tools.py",
        "        if write:\n",
        "        if True:\n",
        TOOLS,
    ),
    Mutant(
        "a profile that is served with one conversation tells nothing of others",
        "server/mcp/memory_tools.py",
        '            rows = [row for row in rows if row["conversation"] == self._conversation]\n',
        "            pass\n",
        TOOLS,
    ),
    Mutant(
        "a memory is served over HTTP only to those with the token",
        "server/mcp/server.py",
        "    access = AccessPolicy(loopback=is_loopback(host), token=token)\n",
        "    access = AccessPolicy(loopback=is_loopback(host), token=None)\n",
        COMMAND,
    ),
]
