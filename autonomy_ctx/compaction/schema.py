"""`SummarySchema`: the sections of a summary, and how a merge treats each of them.

A schema defines the headings that a summary model writes under, what belongs there, and the share of each.
The headings are part of the text of a segment, so a schema can be changed at any time: segments with another
schema can still be read. The ready ones are in `schemas.json`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from autonomy_ctx.language.words import fold_text
from autonomy_ctx.messages.fact import FACT_KINDS, FactKind
from autonomy_ctx.validation import check_number

SectionUpdate = Literal["rewrite", "append", "replace"]
# What a line of a digest can be, beside a fact: something done with its result, and something that failed.
SectionKind: TypeAlias = FactKind | Literal["action", "error"]
SECTION_KINDS: tuple[SectionKind, ...] = (*FACT_KINDS, "action", "error")
MAX_SECTIONS = 12
MAX_NAME_CHARACTERS, MAX_DESCRIPTION_CHARACTERS = 60, 400
# The fewest tokens of a whole summary for one section, so that a segment has room for more than headings.
MIN_SIZE_PER_SECTION = 64
# Marks of a heading, and what ends one.
HEADING_CHARACTERS = "#*_`:\uff1a<>[](){}|"
# Lines of a summary that mean something else.
RESERVED_NAMES = ("facts", "also named", "what holds now")
# Sums of decimal fractions may be a little more than they look.
_SUM_TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class SchemaSection:
    """One heading of a summary: what belongs under it, and its share of the size.

    `update` says what a merge does with it: the model rewrites it (`rewrite`), the items of all segments are
    kept in order, each once (`append`), or the text of the newest segment is kept (`replace`). `kinds` are
    the kinds of facts and lines that a digest, which is made without a model, puts there.
    """

    name: str
    description: str
    share: float
    update: SectionUpdate = "rewrite"
    kinds: Sequence[SectionKind] = ()

    def __post_init__(self) -> None:
        _check_line("name", self.name, MAX_NAME_CHARACTERS)
        found = [one for one in HEADING_CHARACTERS if one in self.name]
        if found or self.name[0] in "-+>=" or not any(map(str.isalpha, self.name)):
            shown = f"has {found[0]!r} in it" if found else "does not read as a heading"
            raise ValueError(f"the section {self.name!r} {shown}; give plain words, such as 'Open items'")
        if self.key in RESERVED_NAMES:
            raise ValueError(
                f"the section {self.name!r} has the name of another part of a summary; choose another"
            )
        _check_line(f"the description of {self.name!r}", self.description, MAX_DESCRIPTION_CHARACTERS)
        check_number(f"the share of {self.name!r}", self.share, most=1)
        if self.share <= 0:
            raise ValueError(f"the share of {self.name!r} is {self.share}; it must be above 0, up to 1")
        if self.update not in get_args(SectionUpdate):
            raise ValueError(f"update of {self.name!r} must be rewrite, append or replace")
        kinds = (self.kinds,) if isinstance(self.kinds, str) else tuple(self.kinds)
        for kind in kinds:
            if kind not in SECTION_KINDS:
                raise ValueError(f"kinds of {self.name!r} must be some of {', '.join(SECTION_KINDS)}")
        object.__setattr__(self, "kinds", kinds)

    @property
    def key(self) -> str:
        """The name in the form in which headings are compared."""
        return heading_key(self.name)


@dataclass(frozen=True, init=False)
class SummarySchema:
    """The sections of a summary in order. Their shares together are at most 1."""

    name: str
    sections: tuple[SchemaSection, ...]

    def __init__(self, name: str, sections: Sequence[SchemaSection | Mapping[str, Any]]) -> None:
        _check_line("the schema's name", name, MAX_NAME_CHARACTERS)
        if isinstance(sections, str | Mapping) or not isinstance(sections, Sequence):
            raise TypeError(
                f"sections of the schema {name!r} is {type(sections).__name__}; it must be a list of them"
            )
        if not 1 <= len(sections) <= MAX_SECTIONS:
            raise ValueError(
                f"the schema {name!r} has {len(sections)} sections; it must have 1 to {MAX_SECTIONS}"
            )
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "sections", tuple(map(_read_section, sections)))
        for one, other in combinations(self.sections, 2):
            if one.key == other.key:
                raise ValueError(
                    f"the schema {name!r} has two sections {other.name!r}; give each its own name"
                )
        total = sum(section.share for section in self.sections)
        if total > 1 + _SUM_TOLERANCE:
            raise ValueError(
                f"the shares of the schema {name!r} are {total:.2f} together; they must be at most 1"
            )

    @property
    def default_section(self) -> SchemaSection:
        """The section for all other text: the first with `update="rewrite"`, else the first."""
        return next((one for one in self.sections if one.update == "rewrite"), self.sections[0])

    @property
    def min_size(self) -> int:
        """The smallest `size` in tokens that a summary with this schema may have."""
        return MIN_SIZE_PER_SECTION * len(self.sections)

    def only(self, update: SectionUpdate) -> tuple[SchemaSection, ...]:
        """The sections with this `update`."""
        return tuple(section for section in self.sections if section.update == update)

    def section_for(self, kind: SectionKind | None) -> SchemaSection:
        """The section where a digest puts lines of this kind."""
        return next((one for one in self.sections if kind in one.kinds), self.default_section)

    def to_dict(self) -> dict[str, Any]:
        """All that `read_schema` needs, as values that `json.dump` takes."""
        return {
            "name": self.name,
            "sections": [{**asdict(one), "kinds": list(one.kinds)} for one in self.sections],
        }


def heading_key(text: str) -> str:
    """A heading in the form in which headings are compared: folded, with single spaces."""
    return " ".join(fold_text(text).split())


def _read_section(value: Any) -> SchemaSection:
    if isinstance(value, SchemaSection):
        return value
    if not isinstance(value, Mapping):
        raise TypeError(f"a section of a schema is {type(value).__name__}; give a SchemaSection or a dict")
    known = [field.name for field in fields(SchemaSection)]
    unknown = sorted(str(name) for name in value if name not in known)
    missing = [name for name in ("name", "description", "share") if name not in value]
    if unknown or missing:
        problem = f"does not know {', '.join(unknown)}" if unknown else f"lacks {', '.join(missing)}"
        raise ValueError(f"a section of a schema {problem}; it takes {', '.join(known)}")
    return SchemaSection(**value)


def _check_line(name: str, value: Any, most: int) -> None:
    """Check that a value is one line of text without spaces around it."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {type(value).__name__}; it must be a string")
    if not value or value != value.strip() or not value.isprintable() or len(value) > most:
        raise ValueError(f"{name} must be one line of 1 to {most} characters, without spaces at its ends")


_READY = json.loads(Path(__file__).with_name("schemas.json").read_text("utf-8"))
READY_SCHEMAS = {one["name"]: SummarySchema(one["name"], one["sections"]) for one in _READY}


def read_schema(value: Any) -> SummarySchema | None:
    """The schema that an option asks for: one, the name of a ready one, a dict or a list of sections."""
    if value is None or isinstance(value, SummarySchema):
        return value
    if isinstance(value, str):
        if value not in READY_SCHEMAS:
            raise ValueError(
                f"there is no built-in schema {value!r}; there are {', '.join(READY_SCHEMAS)}, "
                f"or give a SummarySchema of your own"
            )
        return READY_SCHEMAS[value]
    if isinstance(value, Mapping):
        unknown = sorted(str(name) for name in value if name not in ("name", "sections"))
        if unknown or "sections" not in value:
            raise ValueError(
                f"a schema as a dict has a name and sections, not {', '.join(unknown) or 'a name alone'}"
            )
        return SummarySchema(value.get("name", "custom"), value["sections"])
    if isinstance(value, Sequence):
        return SummarySchema("custom", value)
    raise TypeError(
        f"schema is {type(value).__name__}; give a SummarySchema, the name of a ready one "
        f"({', '.join(READY_SCHEMAS)}), or a list of sections"
    )
