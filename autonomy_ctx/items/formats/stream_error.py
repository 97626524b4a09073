"""How a provider says, in the middle of an answer, that there will be no more of it."""

from __future__ import annotations

from autonomy_ctx.errors import AutonomyCtxError


class StreamError(AutonomyCtxError):
    """The provider sent an error where a piece of an answer should be.

    `type` is the provider's word for it, such as `overloaded_error` or `throttlingException`; `message`
    is its sentence, which a format's `overflow(400, message)` can judge.
    """

    def __init__(self, type: str, message: str) -> None:  # noqa: A002  # the field's name
        said = f"{type}: {message}" if message else type
        super().__init__(f"the model's answer broke off: {said}; what came before it is not the whole answer")
        self.type, self.message = type, message
