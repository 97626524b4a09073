"""Processes for a test, gone when it ends, and dice that can be thrown again."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from black_box.driver import Start


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """On the disk, not in RAM: there a write takes long enough to be stopped or killed within it."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts processes; none of them outlives the test."""
    made = Start(tmp_path / "memory.db")
    try:
        yield made
    finally:
        made.end()


@pytest.fixture
def dice() -> random.Random:
    """Random choices; a failed test shows the seed, and SEED in the environment uses it again."""
    seed = int(os.environ.get("SEED") or random.randrange(2**32))
    print(f"SEED={seed}")
    return random.Random(seed)
