"""Broken builds of the command line: what it makes, shows, stores and sends."""

from __future__ import annotations

from mutants.mutant import Mutant

COMMAND = "tests/cli/test_command_line.py"
OUTPUT = "tests/cli/test_command_output.py"
TRANSFER = "tests/cli/test_export_import.py"
CHECKS = "tests/cli/test_checks.py"
MUTANTS = [
    Mutant(
        "a command that reads makes no database",
        "cli/target.py",
        "    if not create:\n        await check_database(url)\n",
        "",
        f"{COMMAND}::test_a_wrong_path_is_an_error_and_makes_nothing",
    ),
    Mutant(
        "a command that reads upgrades no schema",
        "cli/target.py",
        "    if versions.found < versions.known:\n",
        "    if False:\n",
        f"{CHECKS}::test_an_old_database_is_read_only_after_it_was_migrated",
    ),
    Mutant(
        "a look at a database leaves no files beside it",
        "cli/database.py",
        "    if not _has_open_log(path):\n",
        "    if False:\n",
        f"{COMMAND}::test_a_database_that_nobody_named_is_left_alone",
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
        "    return text if text.isascii() else _INVISIBLE.sub",
        "    return text if text else _INVISIBLE.sub",
        OUTPUT,
    ),
    Mutant(
        "nothing of a file with bad lines is stored",
        "cli/transfer.py",
        "    if total:\n        raise WrongInput(describe_problems",
        "    if total > 1000:\n        raise WrongInput(describe_problems",
        f"{TRANSFER}::test_bad_lines_are_named_before_anything_is_stored",
    ),
    Mutant(
        "an import of messages without ids stores none twice",
        "cli/message_files.py",
        "    said = json.dumps([index, form]",
        "    said = json.dumps([id(form), index, form]",
        f"{TRANSFER}::test_openai_messages_go_out_and_in",
    ),
    Mutant(
        "an export writes over no file unless forced",
        "cli/transfer.py",
        "    if path.exists() and not force:\n",
        "    if False:\n",
        f"{TRANSFER}::test_an_export_writes_over_no_file_unless_forced",
    ),
    Mutant(
        "all of a long tool result is exported",
        "cli/transfer.py",
        "                if whole is not None:\n",
        "                if False:\n",
        f"{TRANSFER}::test_an_export_goes_into_another_memory_and_comes_out_the_same",
    ),
    Mutant(
        "keys are never shown",
        "cli/doctor.py",
        'f"{variable} is set"',
        'f"{variable} is {os.environ[variable]}"',
        f"{CHECKS}::test_keys_are_named_and_never_shown",
    ),
    Mutant(
        "nothing is sent to a provider unless asked for",
        "cli/doctor.py",
        "    if network:\n",
        "    if True:\n",
        f"{CHECKS}::test_providers_are_reached_only_when_asked_and_without_the_key",
    ),
    Mutant(
        "a damaged file is a problem",
        "cli/doctor.py",
        '        faults = [] if faults == ["ok"] else faults\n',
        "        faults = []\n",
        f"{CHECKS}::test_a_damaged_file_is_a_problem",
    ),
]
