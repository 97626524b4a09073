"""Broken builds of what faces the world outside: tools, files, HTTP and the formats of providers."""

from __future__ import annotations

from mutants.mutant import Mutant

ACCESS = "tests/server/test_http_access.py"
FILES = "tests/tools/test_files.py"
PREPARED = "tests/items/formats/test_prepared.py"
MUTANTS = [
    Mutant(
        "True is no number",
        "validation.py",
        "    return isinstance(value, kind) and not isinstance(value, bool)\n",
        "    return isinstance(value, kind)\n",
        "tests/test_validation.py",
    ),
    Mutant(
        "a tool is given what its annotations say",
        "tools/arguments.py",
        "    elif type(value) is kind.type:\n",
        "    elif True:\n",
        "tests/tools/test_arguments.py",
    ),
    Mutant(
        "an argument that nobody asked for is refused",
        "tools/arguments.py",
        "    if record.rest is None and (unknown := [",
        "    if False and (unknown := [",
        "tests/tools/test_arguments.py",
    ),
    Mutant(
        "a missing argument is named",
        "tools/arguments.py",
        "        if field.required and field.name not in given:",
        "        if False:",
        "tests/tools/test_arguments.py",
    ),
    Mutant(
        "no folder is entered through a link",
        "tools/builtin/sandbox.py",
        '"O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC"',
        '"O_DIRECTORY", "O_CLOEXEC"',
        FILES,
    ),
    Mutant(
        "a file with a second name is not touched",
        "tools/builtin/sandbox.py",
        "    if info.st_nlink > 1:",
        "    if False:",
        FILES,
    ),
    Mutant(
        "no path leads up",
        "tools/builtin/sandbox.py",
        '    if ".." in parts:',
        "    if False:",
        FILES,
    ),
    Mutant(
        "at the greatest depth there are no tools for sub-agents",
        "tools/builtin/subagents.py",
        "        if self._configs and depth < max_depth:",
        "        if self._configs:",
        "tests/tools/test_subagents.py",
    ),
    Mutant(
        "an error of one call is its answer",
        "tools/run.py",
        "        except (Exception, SystemExit) as error:",
        "        except SystemExit as error:",
        "tests/tools/test_run.py",
    ),
    Mutant(
        "on loopback the Host must name this machine",
        "server/auth.py",
        "        if self.loopback and not (",
        "        if False and not (",
        ACCESS,
    ),
    Mutant(
        "pages of other sites are refused",
        "server/auth.py",
        "        if any(origin.lower() not in own for origin",
        "        if any(not origin for origin",
        ACCESS,
    ),
    Mutant(
        "every route but health needs the token",
        "server/auth.py",
        "path != HEALTH_PATH and",
        'path not in (HEALTH_PATH, "/metrics") and',
        ACCESS,
    ),
    Mutant(
        "a post that a form could send is refused",
        "server/app.py",
        '.strip().lower() != "application/json":',
        '.strip().lower() == "never":',
        ACCESS,
    ),
    Mutant(
        "a body over the limit is refused",
        "server/app.py",
        "        if len(body) > BODY_LIMIT:",
        "        if False:",
        "tests/server/test_http.py",
    ),
    Mutant(
        "a client that hangs up ends its turn",
        "server/events.py",
        "                group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)\n",
        "",
        "tests/server/test_http_streams.py",
    ),
    Mutant(
        "a turn that is underway may end when the server closes",
        "server/app.py",
        "            while self._scopes:",
        "            while False:",
        "tests/server/test_http_closing.py",
    ),
    Mutant(
        "a signature goes to its owner alone",
        "items/formats/base.py",
        "    return own or None if name == owner else None",
        "    return own or None",
        "tests/items/formats/test_signatures.py",
    ),
    Mutant(
        "an id of a call is used once in a request",
        "items/formats/outgoing.py",
        "        self._taken.add(free)\n",
        "",
        PREPARED,
    ),
    Mutant(
        "tools whose names look alike stay apart",
        "items/formats/outgoing.py",
        "        self._taken.add(name)\n",
        "",
        "tests/items/formats/test_openai.py",
    ),
    Mutant(
        "a call that has no result is answered as interrupted",
        "items/formats/outgoing.py",
        " or _missing_result(call, own, answered, repairs)\n",
        "\n            if found is None:\n                continue\n",
        PREPARED,
    ),
    Mutant(
        "a result without its call is left out",
        "items/formats/outgoing.py",
        "        if message.role is ChatRole.TOOL:\n            continue\n",
        "        if message.role is ChatRole.TOOL:\n            if message.tool_call_id not in "
        "[call.id for one in messages for call in one.tool_calls]:\n"
        "                out.append(message)\n            continue\n",
        PREPARED,
    ),
    Mutant(
        "a summary has no authority of a rule",
        "items/formats/outgoing.py",
        "    return Message(summary.display_role, parts, id=summary.id",
        '    return Message("system", parts, id=summary.id',
        PREPARED,
    ),
    Mutant(
        "a summary has no authority of a rule for a model of the user's own",
        "completion/call.py",
        "    return model_dict(message) if isinstance(message, Message)",
        '    return {**model_dict(message), "role": message.role.value} if isinstance(message, Message)',
        "tests/sections/test_summarized.py",
    ),
    Mutant(
        "what would be refused again is not asked again",
        "models/client.py",
        "            if not found.again or tries",
        "            if tries",
        "tests/models/test_client.py",
    ),
    Mutant(
        "a model that computes has one call at a time",
        "knowledge/embedders.py",
        "abandon_on_cancel=True, limiter=limiter",
        "abandon_on_cancel=True",
        "tests/knowledge/test_embedders.py",
    ),
    Mutant(
        "an object that is no embedder is refused at once",
        "knowledge/embedders.py",
        "isinstance(value, type | str) or ",
        "",
        "tests/knowledge/test_embedders.py",
    ),
]
