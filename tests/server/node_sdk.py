"""The OpenAI SDK for Node, which `make test-clients` installs beside its script."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from needed_programs import report_missing

PACKAGE = Path(__file__).parent / "node"


def find_package() -> Path:
    """The folder with the script, and the SDK in the version of the lock."""
    if shutil.which("node") is None:
        report_missing("node is missing; on Debian `apt-get install nodejs npm` installs it")
    wanted = json.loads((PACKAGE / "package-lock.json").read_text())["packages"]["node_modules/openai"]
    manifest = PACKAGE / "node_modules" / "openai" / "package.json"
    if not manifest.exists() or json.loads(manifest.read_text())["version"] != wanted["version"]:
        report_missing("the OpenAI SDK for Node is missing; `npm ci --prefix tests/server/node` installs it")
    return PACKAGE
