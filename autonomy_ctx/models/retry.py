"""The meaning of a failed request: its error, and whether and when to send it again.

Errors repeat the provider's text only where it is a short code, because its sentences may quote the
request.
"""

from __future__ import annotations

import errno
import json
import math
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from autonomy_ctx.errors import (
    AuthenticationFailed,
    ContextOverflow,
    InvalidModelReply,
    ModelError,
    ModelUnavailable,
    RateLimited,
    SummaryBlockRefused,
    ThinkingRefused,
)
from autonomy_ctx.errors.spelling import did_you_mean
from autonomy_ctx.formats.model_table import is_known_model, known_models
from autonomy_ctx.formats.overflow import find_overflow

FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, MAX_WAIT_SECONDS, JITTER_SHARE = 0.5, 8.0, 60.0, 0.25
# A retry does not help before the bill is paid.
QUOTA_CODES = frozenset({"insufficient_quota", "enforced_spend_limit_reached"})
# Errors that come inside a stream carry no status; these are their statuses.
_CODES_BY_STATUS = {
    401: ("authentication_error",),
    403: ("permission_error",),
    429: ("rate_limit_error", "rate_limit_exceeded", "throttlingException", "RESOURCE_EXHAUSTED"),
    500: ("api_error", "server_error", "internalServerException", "INTERNAL", "modelStreamErrorException"),
    503: ("serviceUnavailableException", "UNAVAILABLE"),
    529: ("overloaded_error",),
}
_STATUS_BY_CODE = {code: status for status, codes in _CODES_BY_STATUS.items() for code in codes}
_OTHER_PREFIX = "bound to a different conversation"
_THINKING_REFUSAL = re.compile(
    rf"{_OTHER_PREFIX}|invalid_encrypted_content|"
    r"invalid `?(?:thought[ _]?)?signature|thought[ _]signature.{0,40}not valid|"
    r"blocks in the latest assistant message cannot be modified",
    re.IGNORECASE,
)
# The codes of what Claude says of its summaries begin so.
_BLOCK_REFUSAL = "compaction_"
_SHORT_CODE = re.compile(r"[A-Za-z][A-Za-z_.]{0,63}|[0-9]{1,6}")
_RETRY_DELAY = re.compile(r"(\d{1,6}(?:\.\d{1,9})?)s")


@dataclass(frozen=True, slots=True)
class RequestFailure:
    """An error, whether the same request may succeed later, and after how many seconds."""

    error: ModelError
    retryable: bool = False
    retry_after_seconds: float | None = None

    def delay(self, tries: int, random: Callable[[], float]) -> float:
        """Seconds until the next attempt: as the provider says, or growing, at most one minute."""
        if self.retry_after_seconds is not None:
            return min(self.retry_after_seconds, MAX_WAIT_SECONDS)
        usual = min(FIRST_BACKOFF_SECONDS * 2**tries, MAX_BACKOFF_SECONDS)
        return float(usual * (1 - JITTER_SHARE * random()))


def response_failure(
    model: str, status: int, headers: Mapping[str, str], body: Any, *, now: float
) -> RequestFailure:
    """The failure that a response with an error status means."""
    # Amazon names its errors in a header.
    named = (headers.get("x-amzn-errortype") or "").partition(":")[0]
    code = error_code(body) or error_code({"code": named})
    if status in (401, 403):
        return _status_failure(model, status, code, body, None)
    if (refused := _content_refusal(model, status, body, code)) is not None:
        return RequestFailure(refused)
    failure = _status_failure(model, status, code, body, retry_after(headers, body, now))
    told = (headers.get("x-should-retry") or "").strip().lower()
    if told in ("true", "false") and status >= 402:
        return replace(failure, retryable=told == "true")
    return failure


def body_failure(model: str, body: Any, *, streamed: bool) -> RequestFailure:
    """The failure that an error means which came with the status of a success."""
    code = error_code(body)
    if (refused := _content_refusal(model, 400, body, code)) is not None:
        return RequestFailure(refused)
    words = _error_codes(body)
    status = next((_STATUS_BY_CODE[word] for word in words if word in _STATUS_BY_CODE), None)
    if not streamed or status is None:
        return RequestFailure(InvalidModelReply(model, "is an error", code=code))
    return _status_failure(model, status, code, body, None)


def _status_failure(
    model: str, status: int, code: str | None, body: Any, retry_after_seconds: float | None
) -> RequestFailure:
    """The failure that a status means, whatever else the error is about."""
    error: ModelError
    retryable = True
    if status in (401, 403):
        error, retryable = AuthenticationFailed(model, status_code=status, code=code), False
    elif status == 429:
        error = RateLimited(model, code=code, retry_after=retry_after_seconds)
        retryable = retry_after_seconds is not None or QUOTA_CODES.isdisjoint(_error_codes(body))
    elif status in (408, 409) or status >= 500:
        error = ModelUnavailable(model, "is not available", status_code=status, code=code)
    else:
        error, retryable = _refusal_error(model, status, code), False
    return RequestFailure(error, retryable, retry_after_seconds)


def connection_failure(model: str, url: str, error: BaseException) -> RequestFailure:
    """The host and the reason of a failed connection, from the error of the HTTP client."""
    host = urlsplit(url).netloc
    reason, problem = connection_problem(host, error)
    return RequestFailure(
        ModelUnavailable(model, f"could not be reached: {problem}", host=host, reason=reason), retryable=True
    )


def broken_off(model: str) -> RequestFailure:
    """The failure of a connection that ended before the answer did."""
    return RequestFailure(ModelUnavailable(model, "broke off its answer"), retryable=True)


class ConnectionProblem(NamedTuple):
    """Why a server could not be reached: a word, and a sentence that names the host."""

    reason: str
    text: str


def connection_problem(host: str, error: BaseException) -> ConnectionProblem:
    """The reason of an error of the HTTP client; nothing of the client's own text is repeated."""
    return ConnectionProblem(*_find_problem(host, list(_causes(error))))


def _find_problem(host: str, causes: Sequence[BaseException]) -> tuple[str, str]:
    for cause in causes:
        match cause:
            case ssl.SSLCertVerificationError():
                return "tls", f"the certificate of {host} was not accepted ({cause.verify_message})"
            case ssl.SSLError():
                return "tls", f"TLS with {host} failed ({cause.reason or type(cause).__name__})"
            case socket.gaierror():
                return "dns", f"no address was found for {host} (DNS)"
            case ConnectionRefusedError():
                return "refused", f"{host} refused the connection"
            case ConnectionError():
                return "closed", f"{host} closed the connection"
            case OSError(errno=errno.ENETUNREACH | errno.EHOSTUNREACH):
                return "network", f"there is no route to {host}"
    names = [type(cause).__name__ for cause in causes]
    # The two packages of clients share no classes, but their names.
    if any("Timeout" in name for name in names):
        return "timeout", f"{host} did not accept a connection in time"
    if "ProxyError" in names:
        return "proxy", f"the proxy on the way to {host} refused the connection"
    if "RemoteProtocolError" in names or "ReadError" in names:
        return "closed", f"{host} closed the connection"
    return "other", f"the connection to {host} failed ({names[0]})"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that led to it."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [next_ for next_ in (one.__cause__, one.__context__) if next_ is not None]
            waiting += one.exceptions if isinstance(one, BaseExceptionGroup) else ()


def retry_after(headers: Mapping[str, str], body: Any, now: float) -> float | None:
    """The seconds that a provider asks to wait, if the value is valid."""
    milliseconds = _parse_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after")
    if said is not None:
        seconds = _parse_number(said)
        if seconds is not None:
            return seconds
        try:
            return max(parsedate_to_datetime(said).timestamp() - now, 0.0)
        except (ValueError, TypeError, OverflowError):
            pass
    details = _error_object(body).get("details")
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and (found := _RETRY_DELAY.fullmatch(delay)):
            return float(found[1])
    return None


def error_code(body: Any) -> str | None:
    """The provider's short word for an error; nothing that could be a sentence, a key or a name."""
    return next((word for word in _error_codes(body) if _SHORT_CODE.fullmatch(word)), None)


def parse_body(data: bytes) -> Any:
    """A body as JSON; as text where it is none."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data[:4000].decode("utf-8", "replace")


def _error_object(body: Any) -> dict[str, Any]:
    """The part of an error body that describes the error."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return {}
    nested = body.get("error")
    if not isinstance(nested, dict) and isinstance(body.get("response"), dict):
        nested = body["response"].get("error")
    return nested if isinstance(nested, dict) else body


def _error_codes(body: Any) -> list[str]:
    inner = _error_object(body)
    details = inner.get("details")
    found = [inner.get(name) for name in ("code", "type", "status", "__type")]
    found += [details.get("error_code")] if isinstance(details, dict) else []
    words = [str(one) for one in found if isinstance(one, str | int) and not isinstance(one, bool)]
    # A name says more than a number.
    return sorted((word for word in words if word and word != "error"), key=str.isdigit)


def _content_refusal(model: str, status: int, body: Any, code: str | None) -> ModelError | None:
    """An error about the length, a summary of the provider's own, or the thinking of earlier replies.

    The wording of the latter may change at any time.
    """
    if (found := find_overflow(status, body)) is not None:
        window, is_certain = found.window, found.certain
        return ContextOverflow(model, window=window, is_certain=is_certain, status_code=status, code=code)
    if status != 400:
        return None
    codes = _error_codes(body)
    block_code = next((one for one in codes if one.startswith(_BLOCK_REFUSAL)), None)
    if block_code is not None:
        return SummaryBlockRefused(model, code=block_code)
    said = [_error_object(body).get("message"), *codes]
    text = "\n".join(one for one in said if isinstance(one, str))
    if _THINKING_REFUSAL.search(text) is None:
        return None
    return ThinkingRefused(model, by_prefix=_OTHER_PREFIX in text.lower(), code=code)


def _refusal_error(model: str, status: int, code: str | None) -> ModelError:
    if 300 <= status < 400:
        problem = "was moved to another address{said}; give that address as `base_url`"
    elif status == 404:
        near = "" if is_known_model(model) else did_you_mean(model, known_models(), quote="`")
        problem = f"was not found{{said}}{near}; check its name and the `base_url`"
    else:
        problem = "refused the request{said}; check the options and the tools it was sent"
    return ModelError(model, problem, status_code=status, code=code)


def _parse_number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
