"""Programs that tests need and that are no Python packages: in CI, one that is missing is a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUM = Path("/usr/bin/chromium")


def report_missing(problem: object) -> NoReturn:
    """In CI nothing is skipped; elsewhere the reason is shown."""
    if os.environ.get("CI") or os.environ.get("AUTONOMY_CTX_CI"):
        pytest.fail(str(problem), pytrace=False)
    pytest.skip(str(problem))


@contextmanager
def open_chromium() -> Iterator[Browser]:
    """Debian's browser. While it is open, no other event loop can run in this thread."""
    from playwright.sync_api import sync_playwright

    if not CHROMIUM.exists():
        report_missing(f"{CHROMIUM} is missing; on Debian `apt-get install chromium` installs it")
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield found
        found.close()
