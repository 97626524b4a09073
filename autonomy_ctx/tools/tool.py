"""`Tool`: a function that a model may call, with its description and schema."""

from __future__ import annotations

import copy
import functools
import inspect
import logging
import re
import typing
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MethodType, SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    NamedTuple,
    ParamSpec,
    Protocol,
    Self,
    TypeVar,
    overload,
    runtime_checkable,
)

from autonomy_ctx.containers.pool import ContextPool
from autonomy_ctx.errors import InvalidArguments, InvalidTool, UnregisteredToolError
from autonomy_ctx.messages.excerpt import MIN_RESULT_TOKENS
from autonomy_ctx.validation import int_problem, seconds_problem

if TYPE_CHECKING:
    # Imported below where they are used: schemas take long to import, and to import an agent none is needed.
    from autonomy_ctx.tools.schema import ObjectKind

logger = logging.getLogger("autonomy_ctx.tools")
# Set by the code that runs the tool; the model does not see them.
INJECTED_NAMES = frozenset({"pool", "memory", "scope", "conversation", "agent"})
P = ParamSpec("P")
R = TypeVar("R")
# What every provider takes.
MAX_NAME_LENGTH = 64
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
# A marker and a little of both ends must fit.
MIN_OUTPUT_LIMIT = 256


class ToolRegistry:
    """Tools by name, for the whole process; a later tool replaces one with the same name."""

    _tools: ClassVar[dict[str, Tool[..., Any]]] = {}

    @classmethod
    def register(cls, tool: Tool[..., Any]) -> None:
        """Register a tool under its name."""
        if not isinstance(tool, Tool):
            raise TypeError(f"an object of type {type(tool).__name__} is not a tool; make one with `@tool`")
        if cls._tools.get(tool.name, tool) is not tool:
            logger.debug("tool %r was registered again; the latest wins", tool.name)
        cls._tools[tool.name] = tool

    @classmethod
    def get(cls, name: str) -> Tool[..., Any]:
        """The tool with this name. Raises `UnregisteredToolError` if there is none."""
        if name not in cls._tools:
            raise UnregisteredToolError(name)
        return cls._tools[name]

    @classmethod
    def clear(cls) -> None:
        """Remove all tools, for tests."""
        cls._tools.clear()

    @classmethod
    def names(cls) -> list[str]:
        """The registered names, in the order of registration."""
        return list(cls._tools)


class Parameters(NamedTuple):
    """The object that a model fills in, and the injected names, with whether they must be given."""

    object_kind: ObjectKind
    injected: Mapping[str, bool]
    rest_name: str | None


def unwrap_function(function: Any) -> Any:
    """The function itself, where its names and its docstring are: below wrappers and partials."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = function.func
    return function if hasattr(function, "__globals__") else type(function).__call__


def read_signature(tool: str, function: Callable[..., Any]) -> inspect.Signature:
    """The signature, or `InvalidTool` if a model could not call it by names."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InvalidTool(tool, "has no signature to read; wrap it in a function of your own") from None
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            raise InvalidTool(
                tool,
                f"takes *{parameter.name}, but a model gives arguments by name; "
                f"make it a parameter of its own, such as `{parameter.name}: list[str]`",
            )
    return signature


def resolve_annotation(function: Callable[..., Any], annotation: Any, names: Mapping[str, Any]) -> Any:
    """An annotation with the names in it looked up; as it is where one cannot be found."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    known = getattr(unwrap_function(function), "__globals__", {})
    try:
        return typing.get_type_hints(holder, known, dict(names), include_extras=True)["it"]
    except Exception:
        # For example a name that only a type checker imports.
        return annotation


class Tool(Generic[P, R]):
    """A tool. A direct call runs the plain function: nothing is checked, injected or recorded.

    `timeout` (seconds), `output_limit` (bytes) and `result_tokens` are limits of this tool; None means the
    agent's limits, and `math.inf` means no timeout. A tool with `is_model_call` is not recorded as a tool. A
    tool with `pauses` is not run: the turn waits for the user.
    """

    injected_names: ClassVar[frozenset[str]] = INJECTED_NAMES

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        timeout: float | None = None,
        output_limit: int | None = None,
        result_tokens: int | None = None,
        is_model_call: bool = False,
        pauses: bool = False,
        names: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = _check_tool_name(function, name)
        problems = {
            "timeout": seconds_problem(timeout, endless=True, optional=True),
            "output_limit": int_problem(output_limit, least=MIN_OUTPUT_LIMIT, optional=True),
            "result_tokens": int_problem(result_tokens, least=MIN_RESULT_TOKENS, optional=True),
        }
        for option, problem in problems.items():
            if problem is not None:
                raise InvalidTool(self.name, f"cannot be made: {option} {problem}")
        from autonomy_ctx.tools.schema import read_docstring

        self.function = function
        self._docstring = read_docstring(inspect.getdoc(unwrap_function(function)))
        self.description = self._docstring.summary if description is None else description
        self.instructions = instructions
        self.timeout, self.output_limit, self.result_tokens = timeout, output_limit, result_tokens
        self.is_model_call, self.pauses = is_model_call, pauses
        self.signature = read_signature(self.name, function)
        if not self.description.strip():
            _warn_at(
                function,
                f"tool {self.name!r} has no description, so a model sees only its name; "
                f"give the function a docstring, or the tool a `description`",
            )
        for bare in self._bare_parameters():
            _warn_at(
                function,
                f"the parameter `{bare}` of tool {self.name!r} has no annotation, so a model may send "
                f"any value; give it one, such as `{bare}: str`",
            )
        # Looked up now, where local names are known, and again at first use for names defined later.
        self._hints = self._resolve_hints({}, names or {})
        functools.update_wrapper(self, function, updated=())

    def _bare_parameters(self) -> list[str]:
        """The parameters that a model fills in and of whose type it is told nothing."""
        return [
            name
            for name, parameter in self.signature.parameters.items()
            if parameter.annotation is parameter.empty
            and parameter.kind is not parameter.VAR_KEYWORD
            and name not in INJECTED_NAMES
            and name != "self"
        ]

    @property
    def parameters(self) -> Parameters:
        """The parameters: the model's and the injected ones."""
        from autonomy_ctx.tools.schema import MISSING, Field, ObjectKind, Shape

        hints = self._resolve_hints(self._hints, {})
        fields: list[Field] = []
        injected: dict[str, bool] = {}
        rest, rest_name = None, None
        for name, parameter in self.signature.parameters.items():
            hint = Any if parameter.annotation is parameter.empty else hints[name]
            required = parameter.default is parameter.empty
            if parameter.kind is parameter.VAR_KEYWORD:
                rest, rest_name = Shape(hint), name
            elif name in self.injected_names:
                injected[name] = required
            else:
                default = MISSING if required else parameter.default
                described = self._docstring.arguments.get(name)
                fields.append(Field(name, Shape(hint), default, required, described))
        return Parameters(ObjectKind(self.name, self.function, tuple(fields), rest), injected, rest_name)

    @property
    def spec(self) -> dict[str, Any]:
        """Name, description and the JSON schema of the parameters, in a new dict."""
        return {"name": self.name, "description": self.description, "parameters": self._schema()}

    def _schema(self) -> dict[str, Any]:
        from autonomy_ctx.tools.schema import object_schema

        return object_schema(self.parameters.object_kind)

    def bind(self, arguments: Mapping[str, Any], inject: Mapping[str, Any]) -> inspect.BoundArguments:
        """The arguments of a model, checked and converted, together with the injected ones."""
        from autonomy_ctx.tools.arguments import convert_arguments

        parameters = self.parameters
        if parameters.rest_name is not None and (forbidden := arguments.keys() & parameters.injected.keys()):
            raise InvalidArguments(self.name, f"has an unknown argument `{min(forbidden)}`")
        values = convert_arguments(self.name, parameters.object_kind, arguments)
        for name, required in parameters.injected.items():
            if name in inject:
                # A pool is only read by tools; the agent decides what is kept.
                value = inject[name]
                values[name] = value.view() if isinstance(value, ContextPool) else value
            elif required:
                raise InvalidArguments(self.name, f"cannot be made: there is no `{name}` here to give to it")
        bound = inspect.BoundArguments(self.signature, {})
        for name in self.signature.parameters:
            if name == parameters.rest_name:
                known = {field.name for field in parameters.object_kind.fields} | parameters.injected.keys()
                bound.arguments[name] = {key: value for key, value in values.items() if key not in known}
            elif name in values:
                bound.arguments[name] = values[name]
        # Defaults first: a parameter that is left out would otherwise end the positional ones.
        bound.apply_defaults()
        return bound

    def renamed(self, name: str) -> Self:
        """A copy of the tool under another name."""
        other = copy.copy(self)
        other.name = _check_tool_name(self.function, name)
        return other

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: Any, owner: type | None = None) -> Tool[..., R]:
        """A tool among a class's methods is, on an instance, a tool of that instance."""
        if instance is None:
            return self
        bound: Tool[..., R] = copy.copy(self)
        bound.function = MethodType(self.function, instance)
        bound.signature = read_signature(self.name, bound.function)
        return bound

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def _resolve_hints(self, hints: Mapping[str, Any], names: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name: resolve_annotation(self.function, hints.get(name, parameter.annotation), names)
            for name, parameter in self.signature.parameters.items()
        }


@runtime_checkable
class ToolSource(Protocol):
    """Where tools come from that are known only while it runs, such as an MCP server."""

    @property
    def name(self) -> str:
        """The prefix for the name of a tool that another one has already."""

    async def prepare(self, user: object) -> None:
        """Be of use to this user. Its first time waits until the tools are known, or cannot be for now."""

    def listed_tools(self) -> Sequence[Tool[..., Any]]:
        """The tools there are now: the same object as long as they are the same."""

    async def release(self, user: object) -> None:
        """Do without this user; with the last one, let go of connections."""


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    instructions: str | None = None,
    timeout: float | None = None,
    output_limit: int | None = None,
    result_tokens: int | None = None,
    is_model_call: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a function a tool, with `@tool` or `@tool(timeout=5)`, and register it under its name.

    The first paragraph of the docstring is the description. Arguments can be described in any common
    docstring style. Parameters named `pool`, `memory`, `scope`, `conversation` and `agent` are injected.
    """
    frame = inspect.currentframe()
    # A copy of the names around the function, so that its annotations may use local types.
    names = dict(frame.f_back.f_locals) if frame is not None and frame.f_back is not None else {}
    if function is not None:
        return _register(function, names, options)
    return lambda function: _register(function, names, options)


def _register(
    function: Callable[..., Any], names: Mapping[str, Any], options: Mapping[str, Any]
) -> Tool[..., Any]:
    made = Tool(function, names=names, **options)
    # In a class body it is a method: it needs an instance, which its name alone cannot bring back.
    if "__qualname__" not in names:
        ToolRegistry.register(made)
    return made


def tools_by_name(tools: Iterable[Any]) -> dict[str, Tool[..., Any]]:
    """Tools by their names, in order; plain functions become tools, and no name may come twice."""
    found: dict[str, Tool[..., Any]] = {}
    for one in tools:
        made = one if isinstance(one, Tool) else Tool(one)
        if made.name in found and found[made.name] is not made:
            raise InvalidTool(made.name, "is given twice; give one of them another `name`")
        found[made.name] = made
    return found


def _check_tool_name(function: Any, name: str | None) -> str:
    found = name if name is not None else getattr(function, "__name__", None)
    if found is None and callable(getattr(function, "as_tool", None)):
        raise InvalidTool(
            type(function).__name__, "is not a function, but can be a tool; give its `as_tool()`"
        )
    if not callable(function) or isinstance(function, type):
        if isinstance(function, str):
            raise InvalidTool(function[:64], "is a text, not a function; give the function itself")
        raise InvalidTool(str(found or type(function).__name__), "is not a function")
    if found is None:
        raise InvalidTool(
            type(function).__name__, "has no name of its own; give one, as in `Tool(it, name=...)`"
        )
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise InvalidTool(
            str(found), "needs a `name` of at most 64 letters, digits, `_` and `-`: providers take no other"
        )
    return found


def _warn_at(function: Callable[..., Any], message: str) -> None:
    """A warning at the function itself, wherever it became a tool."""
    code = getattr(unwrap_function(function), "__code__", None)
    if code is None:
        warnings.warn(message, stacklevel=3)
        return
    # With the registry of the module the warning is shown once, as any other.
    registry = unwrap_function(function).__globals__.setdefault("__warningregistry__", {})
    warnings.warn_explicit(message, UserWarning, code.co_filename, code.co_firstlineno, registry=registry)
