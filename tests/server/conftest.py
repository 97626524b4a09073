"""uvicorn runs on asyncio only, so these tests do, too."""

from __future__ import annotations

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
