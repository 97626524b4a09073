"""The tests that stand on the pages are tests: the store keeps the contract, the examples hold."""

from __future__ import annotations

import tempfile
from pathlib import Path

from docs.snippets import ROOT, run

for _name in ("write-a-store", "test-your-agent"):
    with tempfile.TemporaryDirectory() as _folder:
        _found = run(ROOT / "docs" / "how-to" / f"{_name}.md", Path(_folder))
    globals().update({name: value for name, value in _found.items() if name.lower().startswith("test")})
