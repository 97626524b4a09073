"""Objects of a Python file that a command was given as `FILE` or `FILE:NAME`, such as `agents.py:planner`.

The file is run as a module, as a server would import it, so without what stands under
`if __name__ == "__main__"`.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction, signature
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from autonomy_ctx.cli.output import CommandFailed, WrongInput

# The name under which the file is a module of this process.
MODULE = "autonomy_ctx_file"


def name_options(values: Mapping[str, Any]) -> list[str]:
    """Name the options that were given, as the command line writes them: those that are not None or False."""
    given = [name for name, value in values.items() if value is not None and value is not False]
    return [f"--{name.replace('_', '-')}" for name in given]


def load_objects(place: str, is_wanted: Callable[[Any], bool], what: str) -> dict[str, Any]:
    """The objects that `FILE` has of a kind, or the one that `FILE:NAME` names, by their names.

    `what` is the kind in words, such as "ContextTemplate or Agent". There is at least one.
    """
    path, name = split_place(place)
    module = load_module(path)
    if name is None:
        found = {key: value for key, value in vars(module).items() if key[:1] != "_" and is_wanted(value)}
        # One object under two names is one.
        found = {key: value for key, value in found.items() if _first_name(found, value) == key}
        if not found:
            raise WrongInput(f"{path} has no {what} at its top level{_describe_inner(Path(path))}")
        return found
    try:
        value = vars(module)[name]
    except KeyError:
        known = [key for key, value in vars(module).items() if key[:1] != "_" and is_wanted(value)]
        there = f"; it has {', '.join(known)}" if known else ""
        raise WrongInput(f"{path} has nothing named {name!r}{there}") from None
    if not is_wanted(value) and _makes_object(value):
        value, name = value(), f"{name}()"
    if not is_wanted(value):
        article = "an" if what[0] in "AEIOU" else "a"
        raise WrongInput(f"{name} of {path} is of type {type(value).__name__}; it must be {article} {what}")
    return {name: value}


def _makes_object(value: Any) -> bool:
    """Tell whether a value is a plain function without arguments, which may return what is wanted."""
    return isinstance(value, FunctionType) and not iscoroutinefunction(value) and not takes_argument(value)


def takes_argument(function: Callable[..., Any]) -> bool:
    """Tell whether a function takes an argument."""
    return bool(signature(function).parameters)


def _describe_inner(path: Path) -> str:
    """The first function of a file that makes an agent, and what to do, as the end of a sentence."""
    for function in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[0] == "Agent":
                    return (
                        f"; line {node.lineno} makes an agent inside {function.name}(), where this command "
                        f"cannot reach it. Write `agent = Agent(...)` outside of functions, or return it "
                        f"from a function without arguments and name that function: {path}:make_agent"
                    )
    return ""


def split_place(place: str) -> tuple[str, str | None]:
    """The path and the name in `FILE:NAME`; a colon that is part of the path is left there."""
    path, colon, name = place.rpartition(":")
    if colon and name.isidentifier() and not Path(place).exists():
        return path, name
    return place, None


def load_module(path: str) -> ModuleType:
    """Run a Python file; an error of its own names its line."""
    file = Path(path)
    if not file.is_file():
        problem = "is a folder" if file.is_dir() else "does not exist"
        raise WrongInput(
            f"{path} {problem}; name a Python file, perhaps with the name of an object: agents.py:planner"
        )
    spec = importlib.util.spec_from_file_location(MODULE, file)
    if spec is None or spec.loader is None:
        raise WrongInput(f"{path} is not a Python file: its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    # As for `python FILE`: the modules beside it can be imported.
    sys.path.insert(0, str(file.absolute().parent))
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise CommandFailed(f"{error.filename}, line {error.lineno}: {error.msg}") from error
    except SystemExit as error:
        raise CommandFailed(
            f"{path} ended the program while it was imported (exit code {error.code})"
        ) from error
    except Exception as error:
        raise CommandFailed(f"{_line_of(error, file)}: {type(error).__name__}: {error}") from error
    return module


def _line_of(error: Exception, file: Path) -> str:
    """The last line of the file itself that an error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames if Path(frame.filename) == file or Path(frame.filename) == file.absolute()
    ]
    return f"{file}, line {own[-1].lineno}" if own else str(file)


def _first_name(found: dict[str, Any], value: Any) -> str:
    return next(key for key, other in found.items() if other is value)
