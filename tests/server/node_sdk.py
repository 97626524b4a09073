"""The OpenAI SDK for Node, which `make test` installs beside its script."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

PACKAGE = Path(__file__).parent / "node"


def report_missing(problem: str) -> NoReturn:
    """In CI nothing is skipped; elsewhere the reason is shown."""
    if os.environ.get("CI") or os.environ.get("AUTONOMY_CTX_CI"):
        pytest.fail(problem, pytrace=False)
    pytest.skip(problem)


def find_package() -> Path:
    """The folder with the script, and the SDK in the version of the lock."""
    if shutil.which("node") is None:
        report_missing("node is missing; on Debian `apt-get install nodejs npm` installs it")
    wanted = json.loads((PACKAGE / "package-lock.json").read_text())["packages"]["node_modules/openai"]
    manifest = PACKAGE / "node_modules" / "openai" / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != wanted["version"]:
        report_missing("the OpenAI SDK for Node is missing; `npm ci --prefix tests/server/node` installs it")
    return PACKAGE
