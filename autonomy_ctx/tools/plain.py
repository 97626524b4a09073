"""What a tool returns, as JSON: tools return what suits them, models read text."""

from __future__ import annotations

import base64
from typing import Any

from autonomy_ctx.items.json_values import Binary, Plain


def json_text(value: Any) -> str:
    """The value as JSON text; `InvalidResult` says what cannot be written."""
    return _PLAIN.text(value)


def plain(value: Any) -> Any:
    """The value in the types of JSON; `InvalidResult` says what cannot be written."""
    return _PLAIN.of(value)


def _base64(value: Binary) -> str:
    data = bytes(value)
    return f"{len(data):,} bytes in base64: {base64.b64encode(data).decode()}"


_PLAIN = Plain(binary=_base64)
