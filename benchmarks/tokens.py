"""How far the estimate of tokens is from tokenizers, for texts of many kinds that it was not fitted to.

The weights are a fit to `o200k_base` with the texts of `tests/corpus` and others. What a script costs in
another vocabulary is a fit with `tests/corpus`, which `python -m benchmarks.tokens` writes. The texts in
`token_texts` are only measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from time import perf_counter

from autonomy_ctx.messages import token_estimate
from autonomy_ctx.tokens import EstimatedTextCounter, ExactTextCounter
from benchmarks.table import Figure

TEXTS = Path(__file__).parent / "token_texts"
FITTED = "o200k_base"
OTHERS = ("llama3", "qwen3", "deepseek_v3", "mistral_v3", "gemma3", "glm4", "kimi_k2", "cl100k_base")
# The scripts that a kind of text of the corpus is in; those of Japanese after that of Chinese.
KINDS = {
    "umlauts": ("german",),
    "polish": ("polish",),
    "arabic": ("arabic",),
    "cyrillic": ("russian",),
    "devanagari": ("hindi",),
    "thai": ("thai",),
    "vietnamese": ("vietnamese",),
    "han": ("chinese", "chinese_chat", "traditional_chinese"),
    "hangul": ("korean", "korean_chat"),
    "emoji": ("emoji",),
    "kana": ("japanese", "japanese_chat"),
}
MOST = 0.15
ROUNDS = 200


async def measure(folder: Path) -> list[Figure]:
    texts = {path.stem: path.read_text("utf-8") for path in sorted(TEXTS.glob("*.txt"))}
    errors = {name: _errors(name, texts) for name in (FITTED, *OTHERS)}
    print(f"  {'error in %':20}", *(f"{name:>11}" for name in errors))
    for kind in texts:
        print(f"  {kind:20}", *(f"{100 * errors[name][kind]:+11.1f}" for name in errors))
    return [*(_largest(name, found) for name, found in errors.items()), _speed(list(texts.values()))]


def _largest(name: str, errors: dict[str, float]) -> Figure:
    worst = max(errors, key=lambda kind: abs(errors[kind]))
    return Figure(
        name=f"largest error of {len(errors)} texts against {name}",
        ours=f"{100 * errors[worst]:+.1f} % ({worst})",
        floor="0 %",
        value=abs(errors[worst]),
        bound=MOST,
    )


def _errors(name: str, texts: dict[str, str]) -> dict[str, float]:
    exact, estimate = ExactTextCounter(name), EstimatedTextCounter.for_model(name)
    return {kind: estimate.count(text) / exact.count(text) - 1 for kind, text in texts.items()}


def _speed(texts: list[str]) -> Figure:
    """Microseconds for a kilobyte, over all kinds."""
    count = EstimatedTextCounter().count
    started = perf_counter()
    for _ in range(ROUNDS):
        for text in texts:
            count(text)
    kilobytes = sum(len(text.encode()) for text in texts) / 1000
    spent = 1_000_000 * (perf_counter() - started) / ROUNDS / kilobytes
    return Figure(
        name="microseconds for 1 KB", ours=f"{spent:.0f} us", floor="0 us", value=spent, bound=300.0
    )


def fit() -> None:
    """Write what a character of each script costs more, or less, in the other vocabularies."""
    path = Path(token_estimate.__file__).with_name("token_scripts.json")
    data = json.loads(path.read_text("utf-8"))
    texts = {one.stem: one.read_text("utf-8") for one in Path("tests/corpus").glob("*.txt")}
    leads = {script: list(map(bytes.fromhex, found.split())) for script, found in data["scripts"].items()}
    token_estimate.SCRIPT_COSTS.clear()
    for name in OTHERS:
        exact, estimate, costs = (
            ExactTextCounter(name),
            EstimatedTextCounter.for_model(name),
            dict[str, int](),
        )
        for script, kinds in KINDS.items():
            missing = characters = 0
            for text in (texts[kind] for kind in kinds):
                known = sum(cost * _count(leads[other], text) for other, cost in costs.items())
                missing += 1000 * (exact.count(text) - estimate.count(text)) - known
                characters += _count(leads[script], text)
            costs[script] = round(missing / characters)
        data["vocabularies"][name] = costs
    path.write_text(json.dumps(data, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def _count(leads: list[bytes], text: str) -> int:
    return sum(map(text.encode().count, leads))


if __name__ == "__main__":
    fit()
