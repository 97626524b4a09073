"""The exceptions of foreign clients: which of them say that the request was too long."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from autonomy_ctx.errors import ContextOverflow, RateLimited
from autonomy_ctx.formats.overflow import Overflow, exception_overflow, find_overflow, status_of


class ClientError(Exception):
    """What a client raises: with attributes of its own."""

    def __init__(self, text: str = "", **fields: Any) -> None:
        super().__init__(text)
        vars(self).update(fields)


class ContextWindowExceededError(Exception):
    """Its name says it all."""


WORDS = "This model's maximum context length is 8192 tokens. However, you sent 9000."
GEMINI_WORDS = "The input token count (9) exceeds the maximum number of tokens allowed (8)."
TOO_LONG = {"message": WORDS, "code": "context_length_exceeded"}
BOTOCORE = {
    "Error": {"Code": "ValidationException", "Message": "Input is too long for requested model."},
    "ResponseMetadata": {"HTTPStatusCode": 400},
}


@pytest.mark.parametrize(
    ("error", "window"),
    [
        (ValueError(WORDS), 8192),
        (ClientError(WORDS, status_code=400), 8192),
        (ClientError("Error code: 400", status_code=400, body=TOO_LONG), 8192),
        (ClientError("Error code: 400", status_code=400, body={"error": TOO_LONG}), 8192),
        (ClientError("no", response=SimpleNamespace(status_code=413)), None),
        (ClientError("An error occurred", response=BOTOCORE), None),
        (ClientError(GEMINI_WORDS, code=400), 8),
        (ContextWindowExceededError(), None),
        (ClientError("prompt is too long", context_window=4096), 4096),
        (ContextOverflow("gpt", window=77), 77),
        (ContextOverflow("gpt"), None),
    ],
)
def test_an_exception_that_says_so_is_an_overflow(error: Exception, window: int | None) -> None:
    assert exception_overflow(error) == Overflow(window)


class Hostile(Exception):
    """Fails when it is looked at."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("boom"),
        OverflowError("int too large to convert"),
        ValueError("context_window must be a number"),
        ClientError(WORDS, status_code=429),
        ClientError(WORDS, status_code=401),
        ClientError("Too many tokens, please wait before trying again."),
        ClientError("The quota exceeds the limit"),
        RateLimited("gpt"),
    ],
)
def test_another_exception_is_none(error: Exception) -> None:
    assert exception_overflow(error) is None


def test_an_exception_that_fails_when_it_is_looked_at_is_none() -> None:
    assert exception_overflow(Hostile()) is None
    assert status_of(Hostile()) is None


def test_the_status_of_an_exception_is_found_where_clients_put_it() -> None:
    assert status_of(ClientError(status_code=401)) == 401
    assert status_of(ClientError(response=SimpleNamespace(status_code=403))) == 403
    assert status_of(ClientError(response=BOTOCORE)) == 400
    assert status_of(ClientError(code="x", status=None)) is None


def test_a_status_alone_says_that_a_request_was_too_large() -> None:
    assert find_overflow(413, "<html>Request Entity Too Large</html>") == Overflow()
    assert find_overflow(None, "") is None


@pytest.mark.parametrize(
    "error",
    [
        TOO_LONG,
        {"message": WORDS, "type": "BadRequestError", "code": 400},
        {"message": f"litellm.ContextWindowExceededError: OpenAIException - {WORDS}"},
        {"message": "This endpoint's maximum context length is 8,192 tokens. However, you requested more."},
        {"message": "prompt is too long: 9000 tokens > 8192 maximum", "type": "invalid_request_error"},
        {"message": "Prompt contains 9000 tokens, too large for model with 8192 maximum context length"},
        {"message": "Too long.", "type": "exceed_context_size_error", "n_ctx": 8192},
    ],
)
def test_a_window_in_the_words_of_a_provider_is_learned(error: dict[str, Any]) -> None:
    found = find_overflow(400, {"error": error})
    assert found is not None
    assert found.learned_window(9000) == 8192


@pytest.mark.parametrize(
    "error",
    [
        # The server repeats a field of the request.
        {"message": "Invalid value: 'maximum context length is 8192'.", "code": "invalid_value"},
        {"message": "Invalid value: 'x'. This model's maximum context length is 8192 tokens.'."},
        {"message": "Model prompt is too long: 9000 tokens > 8192 maximum was not found", "code": 404},
        {"message": "Invalid value: 'context_length_exceeded'.", "code": "invalid_value"},
        # No model has such a window.
        {"message": WORDS.replace("8192", "7"), "code": "context_length_exceeded"},
        # The request would have fitted.
        {"message": WORDS.replace("8192", "90000"), "code": "context_length_exceeded"},
    ],
)
def test_a_window_that_no_provider_would_name_is_not_learned(error: dict[str, Any]) -> None:
    found = find_overflow(400, {"error": error})
    assert found is not None
    assert found.learned_window(9000) is None


def test_an_error_that_names_no_window_says_that_the_request_was_too_long_for_it() -> None:
    assert Overflow(certain=True).learned_window(9000) == 9000
    assert Overflow(certain=True).learned_window(20) is None
    assert Overflow().learned_window(9000) is None
