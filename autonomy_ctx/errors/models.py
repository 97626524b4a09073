"""Errors of models: no key and no message is in their text."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class ModelError(AutonomyCtxError):
    """A model gave no answer.

    The text contains no key and no messages; `code` is the provider's error code.
    """

    def __init__(
        self, model: str, problem: str, *, status_code: int | None = None, code: str | None = None
    ) -> None:
        said = [f"status {status_code}"] * (status_code is not None) + [code] * (code is not None)
        shown = f" ({', '.join(map(str, said))})" if said else ""
        super().__init__(f"model `{model}` {problem.replace('{said}', shown)}")
        self.model, self.status_code, self.code = model, status_code, code


class UnknownPrice(AutonomyCtxError, LookupError):
    """A limit of cost is set for a model whose price is not known; nothing was sent."""

    def __init__(self, model: str | None) -> None:
        name = model or "my-model"
        which = f"model `{model}`" if model else "a model without a name"
        super().__init__(
            f"the price of {which} is not known, and a limit of cost needs it; give it in US dollars per "
            f"million tokens: `autonomy_ctx.models.catalog.PRICES[{name!r}] = Price(input=..., output=...)`"
        )
        self.model = model


_ADVICE: dict[str | None, str] = {
    "refused": "start the server at this address, or give another `base_url`",
    "dns": "check `base_url` and the network of this machine",
}


class ModelUnavailable(ModelError):
    """The model could not be reached, stopped in the middle or is overloaded, also after retries.

    If the model could not be reached, `host` is the host that was called, and `reason` is "refused", "dns",
    "tls", "timeout", "network", "proxy", "closed" or "other".
    """

    def __init__(
        self,
        model: str,
        problem: str,
        *,
        status_code: int | None = None,
        code: str | None = None,
        host: str | None = None,
        reason: str | None = None,
    ) -> None:
        advice = _ADVICE.get(reason, "try again later, or check the provider's status page and `base_url`")
        super().__init__(
            model,
            f"{problem}{{said}}; {advice}",
            status_code=status_code,
            code=code,
        )
        self.host, self.reason = host, reason


class RateLimited(ModelError):
    """The provider refuses more requests for now; `retry_after` is in seconds, if the provider gives it."""

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
            f"refuses more requests for now{{said}}; try again {when}, send fewer at once or raise the quota",
            status_code=status_code,
            code=code,
        )
        self.retry_after = retry_after


class AuthenticationFailed(ModelError):
    """The provider does not accept the key, or the key may not use this model."""

    def __init__(self, model: str, *, status_code: int = 401, code: str | None = None) -> None:
        super().__init__(
            model,
            "does not accept the key{said}; check `api_key` or the variable that the key is read from, and "
            "whether the key may use this model",
            status_code=status_code,
            code=code,
        )


class MissingKey(AuthenticationFailed):
    """No key was given and none is in the environment; nothing was sent."""

    def __init__(self, model: str, variables: tuple[str, ...]) -> None:
        ModelError.__init__(
            self,
            model,
            f"needs a key, and {' or '.join(variables)} is not set\n"
            f"with a key: set {' or '.join(variables)} in the environment, or give `api_key`\n"
            f'without one: give the `base_url` of a server that needs none, or use the model "offline"',
        )
        # The status of a refused key, so that code which handles a refused key also handles a missing one.
        self.status_code = 401
        self.variables = variables


class InsecureAddress(AuthenticationFailed):
    """A key from the environment would cross the network in clear text; nothing was sent."""

    def __init__(self, model: str, url: str, variables: tuple[str, ...]) -> None:
        ModelError.__init__(
            self,
            model,
            f"was not called: {url} is neither https nor on this machine, and the key from "
            f"{' or '.join(variables)} would be sent in clear text; use an https `base_url`, "
            f"or give `insecure=True` if you trust the network",
        )
        # As for a missing key: a retry does not help.
        self.status_code = 401
        self.url, self.variables = url, variables


class ContextOverflow(ModelError):
    """The request was too long for the model; `window` is the limit in tokens, if the provider gives it.

    `is_certain` says that the provider's own code or sentence says so. Otherwise it may be a quotation.
    """

    def __init__(
        self,
        model: str,
        *,
        window: int | None = None,
        is_certain: bool = False,
        status_code: int | None = 400,
        code: str | None = None,
    ) -> None:
        room = "" if window is None else f" of {window:,} tokens"
        super().__init__(
            model,
            f"got a request longer than its context window{room}{{said}}; send less or set a smaller budget",
            status_code=status_code,
            code=code,
        )
        self.window, self.is_certain = window, is_certain


class ThinkingRefused(ModelError):
    """The provider refused the thinking of earlier replies, also when it was sent again without it.

    `by_prefix` says that the provider found another context before the thinking.
    """

    def __init__(
        self, model: str, *, by_prefix: bool = False, status_code: int | None = 400, code: str | None = None
    ) -> None:
        super().__init__(
            model,
            "refused the thinking of earlier replies{said}; start a new conversation, and report it",
            status_code=status_code,
            code=code,
        )
        self.by_prefix = by_prefix


class SummaryBlockRefused(ModelError):
    """The provider refused the summary that it had written itself, also when our text stood in its place."""

    def __init__(self, model: str, *, status_code: int | None = 400, code: str | None = None) -> None:
        super().__init__(
            model,
            "refused a summary of the provider's own{said}; leave out `writer` of `context_summary`, and "
            "report it",
            status_code=status_code,
            code=code,
        )


class InvalidModelReply(ModelError):
    """The server answered, but its response is not the answer of a model."""

    def __init__(self, model: str, problem: str, *, code: str | None = None) -> None:
        super().__init__(
            model,
            f"sent a reply that {problem}{{said}}; check that `base_url` and `provider` match",
            code=code,
        )


class ModelTimeout(ModelError, TimeoutError):
    """The model did not answer in time."""

    def __init__(self, model: str, *, what: str, seconds: float) -> None:
        super().__init__(
            model,
            f"gave {what} for {seconds:g} s; raise `timeout`, or send less",
        )
        self.seconds = seconds
