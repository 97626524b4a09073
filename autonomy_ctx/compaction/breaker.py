"""The circuit breaker of a summary model, and the backoff between attempts.

A breaker belongs to a model and is shared by all conversations. While calls keep failing, only one
conversation at a time calls the model.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 300.0
TRIP_THRESHOLD = 5


def retry_delay(failures: int, jitter: Callable[[], float] = random.random) -> float:
    """Seconds to wait after so many failures in a row: 1, 2, 4 ... up to 5 minutes, and up to a quarter more.

    The jitter only adds, so there are at most 20 attempts in the first hour.
    """
    return float(
        min(FIRST_DELAY_SECONDS * 2 ** min(failures - 1, 20), MAX_DELAY_SECONDS) * (1 + 0.25 * jitter())
    )


class CircuitBreaker:
    """Stops the calls to a model that keeps failing; only one conversation at a time tries again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._retry_at = 0.0
        self.stopped = False

    def seconds_until_allowed(self) -> float:
        """Seconds until the model may be called; 0 means now, infinity means never until `reset`."""
        if self.stopped:
            return float("inf")
        if self._failures < TRIP_THRESHOLD:
            return 0.0
        return max(self._retry_at - self._clock(), 0.0)

    def record_failure(self) -> None:
        """Note a failed call. After several in a row, the next call must wait."""
        self._failures += 1
        if self._failures >= TRIP_THRESHOLD:
            self._retry_at = self._clock() + retry_delay(self._failures - TRIP_THRESHOLD + 1)

    def record_attempt(self) -> None:
        """Note that a call begins; other conversations wait for its result."""
        if self._failures >= TRIP_THRESHOLD:
            self._retry_at = self._clock() + retry_delay(self._failures - TRIP_THRESHOLD + 1)

    def record_success(self) -> None:
        """A call succeeded, whichever conversation it was for."""
        self._failures, self._retry_at = 0, 0.0

    def stop(self) -> None:
        """The model refuses all calls, such as for a wrong key: another call would not help."""
        self.stopped = True

    def reset(self) -> None:
        """Forget all failures."""
        self.stopped = False
        self.record_success()


_breakers: WeakKeyDictionary[Any, CircuitBreaker] = WeakKeyDictionary()


def breaker_of(model: Any, clock: Callable[[], float] = time.monotonic) -> CircuitBreaker:
    """The breaker of a model, shared by all its callers; the first caller sets the clock."""
    try:
        found = _breakers.get(model)
        if found is None:
            found = _breakers[model] = CircuitBreaker(clock)
    except TypeError:
        # Not every object can be referred to weakly.
        return CircuitBreaker(clock)
    return found
