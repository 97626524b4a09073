"""Why a node could not be reached from outside."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class ServerError(AutonomyCtxError):
    """An HTTP server that cannot run as it was asked to."""


class AddressUnavailable(ServerError, OSError):
    """An HTTP server could not listen where it was told to; nothing was started."""

    def __init__(self, *, host: str, port: int, problem: str, advice: str) -> None:
        super().__init__(f"cannot listen on port {port} of {host!r}: {problem}; {advice}")
        self.host, self.port, self.problem = host, port, problem
