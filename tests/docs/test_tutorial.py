"""Each chapter of the tutorial shows the code of its program, and what that prints."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from docs.test_examples import run

from docs.tutorial import CHAPTERS, PROGRAMS, differences, foreign_code, output_on, program_of

# Needs a server: `tests/postgres/test_tutorial_program.py` runs it.
POSTGRESQL = PROGRAMS / "many_users.py"


def test_every_program_has_its_chapter() -> None:
    assert len(CHAPTERS) == 6
    assert sorted(map(program_of, CHAPTERS)) == sorted(PROGRAMS.glob("*.py"))


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_shows_the_code_of_its_program(page: Path) -> None:
    assert foreign_code(page) == [], (
        f"copy it from {program_of(page).name}; `python docs/make_tutorial.py` copies the whole of it"
    )


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_program_prints_what_its_chapter_says(page: Path, tmp_path: Path) -> None:
    printed = run(program_of(page), tmp_path)
    if program_of(page) == POSTGRESQL:
        assert "DATABASE_URL" in printed
    else:
        assert differences(printed, output_on(page)) == [], (
            "run `python docs/make_tutorial.py`, and read the page again"
        )


def test_each_chapter_leads_to_the_next() -> None:
    for page, following in pairwise(CHAPTERS):
        assert f"]({following.name})" in page.read_text(encoding="utf-8").rpartition("Next:")[2]


def test_only_the_number_of_messages_that_are_sent_may_differ_by_one() -> None:
    page = "turn  9: 18 stored,  8 sent\nThe summary of messages 1 to 6:\n"
    assert differences(page, page) == []
    assert differences(page.replace(" 8 sent", " 9 sent"), page) == []
    for right, wrong in ((" 8 sent", "10 sent"), ("18 stored", "19 stored"), ("1 to 6", "1 to 5")):
        assert len(differences(page.replace(right, wrong), page)) == 1
    assert len(differences(page + "and a line more", page)) == 1


def test_code_of_a_page_that_its_program_does_not_have_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    text = CHAPTERS[0].read_text(encoding="utf-8")
    page.write_text(text.replace('scope="ana"', 'scope="eva"', 1), encoding="utf-8")
    assert len(foreign_code(page)) == 1
    page.write_text(text.replace("anyio.run(main)", "anyio.run(other)"), encoding="utf-8")
    assert len(foreign_code(page)) == 1
