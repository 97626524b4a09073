"""The limits of one client of a server: time, connections and memory.

Without limits, a client that sends slowly or never reads could keep a connection and its buffers forever.
"""

from __future__ import annotations

from dataclasses import dataclass

from autonomy_ctx.validation import check_int, check_seconds


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """The limits of a server.

    A client has `header_seconds` to send the headers of a request and `body_seconds` to send its body. It
    must read something within `write_seconds`. `max_buffered` is the number of characters of a stream that
    may wait for it, besides what the connection itself buffers.

    A connection stays open for `idle_seconds` after a request. If there are `max_connections`, the one that
    was idle for longest makes room for a new one; if none is idle, the new one is refused.

    When the server closes, running requests get `grace_seconds` to end. An idle stream sends a comment every
    `keep_alive_seconds`.
    """

    header_seconds: float = 10.0
    body_seconds: float = 60.0
    write_seconds: float = 30.0
    # Longer than what is in front keeps a connection: httpx 5 s, nginx and balancers of AWS 60 s, Go 90 s.
    idle_seconds: float = 120.0
    max_connections: int = 512
    max_buffered: int = 1024 * 1024
    # Node and background need two more seconds at most: all is closed within five.
    grace_seconds: float = 2.0
    keep_alive_seconds: float = 15.0

    def __post_init__(self) -> None:
        check_seconds("grace_seconds", self.grace_seconds, zero=True)
        for name in ("keep_alive_seconds", "header_seconds", "body_seconds", "write_seconds", "idle_seconds"):
            check_seconds(name, getattr(self, name))
        for name in ("max_connections", "max_buffered"):
            check_int(name, getattr(self, name))
