"""Exact counts with a real tokenizer whose vocabularies come inside its package.

Only imported by those who ask for it; needs the extra: `pip install autonomy-ctx[tokens]`.
"""

from __future__ import annotations

from typing import Any

# Longest prefix first: the first that fits a model's name decides.
_VOCABULARIES = (
    ("gpt-3.5", "cl100k_base"),
    ("gpt-4o", "o200k_base"),
    ("gpt-4.", "o200k_base"),
    ("gpt-4", "cl100k_base"),
    ("gpt-oss", "gpt-oss"),
    ("gpt-", "o200k_base"),
    ("o1", "o200k_base"),
    ("o3", "o200k_base"),
    ("o4", "o200k_base"),
    ("llama-2", "llama2"),
    ("llama", "llama3"),
    ("qwen", "qwen3"),
    ("deepseek", "deepseek_v3"),
    ("mistral", "mistral_v3"),
    ("gemma", "gemma3"),
    ("glm", "glm4"),
    ("kimi", "kimi_k2"),
    ("phi", "phi4"),
)


class ExactText:
    """Counts with the tokenizer of a model (`gpt-4o`, `qwen3-32b`) or of a vocabulary (`o200k_base`)."""

    def __init__(self, model: str) -> None:
        try:
            from splintr import Tokenizer
        except ImportError:
            raise ImportError(
                "exact token counts need the extra: pip install 'autonomy-ctx[tokens]'"
            ) from None
        bare = model.rsplit("/", 1)[-1].lower()
        vocabulary = next((name for prefix, name in _VOCABULARIES if bare.startswith(prefix)), bare)
        try:
            self._tokenizer: Any = Tokenizer.from_pretrained(vocabulary)
        except ValueError as problem:
            raise ValueError(
                f"no bundled vocabulary fits {model!r}; leave it to the estimate, which learns from what "
                f"the provider reports. ({problem})"
            ) from None
        self.name = f"splintr:{vocabulary}"

    def count(self, text: str) -> int:
        # Ordinary: a special token spelled out in a user's text is text.
        return len(self._tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))
