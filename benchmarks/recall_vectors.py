"""Recall by words and by meaning together, with the vectors of the `wordllama` wheel.

The weights are inside the wheel (`pip install wordllama --no-deps`); the package itself is not imported. A
text is the mean of the vectors of its words, without those that tell nothing.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from autonomy_ctx.items.search_terms import search_terms

# Where the package is, if it is not installed.
FOLDER_VARIABLE = "WORDLLAMA_FOLDER"
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


def find_embedder() -> WordLlama | None:
    """The embedder, where its files and what reads them are installed."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if folder is None:
        package = find_spec("wordllama")
        folder = None if package is None or package.origin is None else str(Path(package.origin).parent)
    if folder is None or not all(map(find_spec, ("numpy", "safetensors", "tokenizers"))):
        return None
    return WordLlama(Path(folder))
