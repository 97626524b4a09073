"""Broken builds of the command line: what it makes, shows, stores and sends."""

from __future__ import annotations

from mutants.mutant import Mutant

COMMAND = "tests/cli/test_command_line.py"
OUTPUT = "tests/cli/test_command_output.py"
TRANSFER = "tests/cli/test_export_import.py"
CHECKS = "tests/cli/test_checks.py"
CHAT = "tests/cli/test_chat_command.py"
MUTANTS = [
    Mutant(
        "an escape sequence that a model sends in pieces is removed whole",
        "cli/chat.py",
        "        if at >= 0 and _OPEN_ESCAPE.fullmatch(text, at):\n",
        "        if False:\n",
        CHAT,
    ),
    Mutant(
        "options of a chat that cannot be make no database",
        "cli/chat.py",
        "            limits=TurnLimits(context_tokens=self.budget),\n",
        '            limits={"context_tokens": self.budget},\n',
        CHAT,
    ),
    Mutant(
        "a chat names what fails, and its exit code says so in a pipe",
        "cli/chat.py",
        "            self._failed = True\n",
        "",
        CHAT,
    ),
    Mutant(
        "a token that was given to a server is not printed",
        "cli/serve.py",
        "        token = None if self._is_token_known else self._token\n",
        "        token = self._token\n",
        "tests/cli/test_serve_and_worker.py",
    ),
    Mutant(
        "every section is seen in the bar, however small",
        "cli/drawing.py",
        "    cells = [max(int(one), 1 if part else 0)",
        "    cells = [max(int(one), 0)",
        "tests/cli/test_drawing.py",
    ),
    Mutant(
        "a command that reads makes no database",
        "cli/target.py",
        "    await check_database(url)\n",
        "",
        COMMAND,
    ),
    Mutant(
        "a command that reads upgrades no schema",
        "cli/target.py",
        "    if versions.found < versions.known:\n",
        "    if False:\n",
        CHECKS,
    ),
    Mutant(
        "a look at a database leaves no files beside it",
        "cli/database.py",
        "    if not _has_open_log(path):\n",
        "    if False:\n",
        COMMAND,
    ),
    Mutant(
        "stored text brings no escape sequence into a terminal",
        "cli/output.py",
        '    text = _ESCAPE.sub("", text',
        '    text = str("" or text',
        OUTPUT,
    ),
    Mutant(
        "stored text turns no direction of writing",
        "cli/output.py",
        '_UNPRINTABLE = frozenset({"Cc", "Cf", ',
        '_UNPRINTABLE = frozenset({"Cc", ',
        OUTPUT,
    ),
    Mutant(
        "JSON holds nothing that a terminal acts on",
        "cli/output.py",
        "    if text.isprintable():\n        return text\n",
        "    if text.isprintable() or text.isascii():\n        return text\n",
        OUTPUT,
    ),
    Mutant(
        "nothing of a file with bad lines is stored",
        "cli/transfer.py",
        "    if total:\n        raise WrongInput(_describe_problems",
        "    if total > 1000:\n        raise WrongInput(_describe_problems",
        TRANSFER,
    ),
    Mutant(
        "an import of messages without ids stores none twice",
        "formats/message_files.py",
        "    said = json.dumps([index, form]",
        "    said = json.dumps([id(form), index, form]",
        TRANSFER,
    ),
    Mutant(
        "two conversations of an export with one title stay apart",
        "formats/message_files.py",
        "    taken.add(found)\n",
        "",
        TRANSFER,
    ),
    Mutant(
        "a line of JSON ends only at a line break",
        "formats/message_files.py",
        "        yield _TextLine(number, text)\n",
        '        for part in text.decode("utf-8", "replace").splitlines(True):\n'
        "            yield _TextLine(number, part.encode())\n",
        "tests/replay/test_recorded_conversations.py",
    ),
    Mutant(
        "what never ends is not read for ever",
        "cli/transfer.py",
        '                if b"\\0" in piece:\n',
        "                if False:\n",
        TRANSFER,
    ),
    Mutant(
        "only its owner may read a file with conversations",
        "cli/transfer.py",
        "os.O_TRUNC, NEW_FILE_MODE)",
        "os.O_TRUNC, 0o644)",
        "tests/inspector/test_inspect_command.py",
    ),
    Mutant(
        "an export writes over no file unless forced",
        "cli/transfer.py",
        "    if path.exists() and not force:\n",
        "    if False:\n",
        TRANSFER,
    ),
    Mutant(
        "all of a long tool result is exported",
        "cli/transfer.py",
        "                if whole is not None:\n",
        "                if False:\n",
        TRANSFER,
    ),
    Mutant(
        "keys are never shown",
        "cli/doctor.py",
        'f"{variable} is set"',
        'f"{variable} is {os.environ[variable]}"',
        CHECKS,
    ),
    Mutant(
        "nothing is sent to a provider unless asked for",
        "cli/doctor.py",
        "    if network:\n",
        "    if True:\n",
        CHECKS,
    ),
    Mutant(
        "a damaged file is a problem",
        "cli/doctor.py",
        "    faults = _find_faults(file)\n",
        "    faults: list[str] = []\n",
        CHECKS,
    ),
]
