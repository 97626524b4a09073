"""Why a model gave no answer."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class ModelError(AutonomyCtxError):
    """A model gave no answer. No key and no message is in the text; `code` is the provider's own word."""

    def __init__(
        self, model: str, problem: str, *, status_code: int | None = None, code: str | None = None
    ) -> None:
        said = [f"status {status_code}"] * (status_code is not None) + [code] * (code is not None)
        shown = f" ({', '.join(map(str, said))})" if said else ""
        super().__init__(f"model `{model}` {problem.replace('{said}', shown)}")
        self.model, self.status_code, self.code = model, status_code, code


class ModelUnavailable(ModelError):
    """The model could not be reached, broke off or is overloaded, also when asked again."""

    def __init__(
        self, model: str, problem: str, *, status_code: int | None = None, code: str | None = None
    ) -> None:
        super().__init__(
            model,
            f"{problem}{{said}}; try again later, or look at the provider's status and at `base_url`",
            status_code=status_code,
            code=code,
        )


class RateLimited(ModelError):
    """The provider takes no more requests for now; `retry_after` in seconds if it says for how long."""

    def __init__(
        self,
        model: str,
        *,
        status_code: int | None = 429,
        code: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        when = "later" if retry_after is None else f"in {retry_after:g} s"
        super().__init__(
            model,
            f"takes no more requests{{said}}; try again {when}, send fewer at once or raise the quota",
            status_code=status_code,
            code=code,
        )
        self.retry_after = retry_after


class AuthenticationFailed(ModelError):
    """The provider does not accept the key, or the key may not use this model."""

    def __init__(self, model: str, *, status_code: int = 401, code: str | None = None) -> None:
        super().__init__(
            model,
            "does not accept the key{said}; check the key and what it may be used for",
            status_code=status_code,
            code=code,
        )


class MissingKey(AuthenticationFailed):
    """No key was given and none is in the environment; nothing was sent."""

    def __init__(self, model: str, variables: tuple[str, ...]) -> None:
        ModelError.__init__(
            self,
            model,
            f"needs a key; set {' or '.join(variables)} in the environment, or give `api_key`",
        )
        # As if the provider had said so: whoever stops at a refused key stops at a missing one.
        self.status_code = 401
        self.variables = variables


class ContextOverflow(ModelError):
    """The request was too long for the model; `window` in tokens if the provider says how long it may be."""

    def __init__(
        self, model: str, *, window: int | None = None, status_code: int | None = 400, code: str | None = None
    ) -> None:
        room = "" if window is None else f" of {window:,} tokens"
        super().__init__(
            model,
            f"was given more than its context window{room} takes{{said}}; send less or set a smaller budget",
            status_code=status_code,
            code=code,
        )
        self.window = window


class InvalidModelReply(ModelError):
    """The server answered, but with nothing that is an answer of a model."""

    def __init__(self, model: str, problem: str, *, code: str | None = None) -> None:
        super().__init__(
            model,
            f"sent a reply that {problem}{{said}}; check that `base_url` and `provider` go together",
            code=code,
        )


class ModelTimeout(ModelError, TimeoutError):
    """The model did not answer in time."""

    def __init__(self, model: str, *, what: str, seconds: float) -> None:
        super().__init__(
            model,
            f"gave {what} for {seconds:g} s; give it longer with `timeout`, or send less",
        )
        self.seconds = seconds
