"""What differs between our table of models and that of litellm, for whoever updates `models.json`.

    python -m benchmarks.model_tables            # downloads litellm with pip, and reads its table
    python -m benchmarks.model_tables FILE.json  # a table in litellm's form

A difference is not yet a fault of ours: their table has mistakes, too. Look at the vendor's page, which is
the `source` of a row, before you change it, and set its `date`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from autonomy_ctx.formats.model_table import MODELS, TABLE_DATE, ModelInfo, is_known_model

THEIR_FILE = "litellm/model_prices_and_context_window_backup.json"
MILLION = 1_000_000
# Names of models that are worth a row of their own, if we have none.
VENDORS = {
    "anthropic": "claude-",
    "openai": "gpt-",
    "vertex_ai-language-models": "gemini-",
    "gemini": "gemini-",
}
NOT_CHAT = ("image", "audio", "realtime", "transcribe", "tts", "live", "embedding", "search", "robotics")


def download_table() -> dict[str, Any]:
    """The table in the newest release of litellm."""
    with TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--dest",
            folder,
            "litellm",
        ]
        subprocess.run(command, check=True)
        [wheel] = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            table: dict[str, Any] = json.loads(opened.read(THEIR_FILE))
    return table


def compare(table: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Lines about values that differ, and models that only they have."""
    for name, info in MODELS.items():
        theirs = _find(table, name)
        if name != info.name:
            continue
        if theirs is None:
            yield f"{name}: they have no row"
            continue
        for column, own, other in _values(info, theirs):
            if other is not None and own != other:
                yield f"{name}: {column} {own} here, {other} there"
    for name, row in table.items():
        beginning = VENDORS.get(str(row.get("litellm_provider")))
        is_chat = row.get("mode") == "chat" and not any(word in name for word in NOT_CHAT)
        if beginning and name.startswith(beginning) and is_chat and not is_known_model(name):
            yield f"{name}: we have no row"


def _find(table: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    spelled = (name, f"{name}-preview", f"amazon.{name}-v1:0")
    return next((table[one] for one in spelled if one in table), None)


def _values(info: ModelInfo, theirs: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    price = info.price

    def cost(name: str) -> float | None:
        value = theirs.get(name)
        return None if value is None else round(value * MILLION, 6)

    yield "window", info.window, theirs.get("max_input_tokens")
    yield "max_output", info.max_output, theirs.get("max_output_tokens")
    yield "min_cached", info.cache.min_tokens, theirs.get("prompt_cache_min_tokens")
    yield "input", price and price.input, cost("input_cost_per_token")
    yield "cached", price and price.cached_input, cost("cache_read_input_token_cost")
    yield "write", price and price.cache_write, cost("cache_creation_input_token_cost")
    yield "output", price and price.output, cost("output_cost_per_token")
    for life in ("1hr", "12hr"):
        long = cost(f"cache_creation_input_token_cost_above_{life}")
        yield "long write", price and price.long_cache_write, long
    if price is not None and price.tier is not None:
        dearer = cost(f"input_cost_per_token_above_{price.tier.above // 1000}k_tokens")
        yield "input above the tier", price.input * price.tier.input, dearer


def main() -> None:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, help="a table in litellm's form")
    given = parser.parse_args().file
    table = json.loads(given.read_text("utf-8")) if given is not None else download_table()
    print(f"our table of {TABLE_DATE}, {len(MODELS)} rows; theirs has {len(table)}")
    for line in compare(table):
        print(line)


if __name__ == "__main__":
    main()
