"""A part of the report on unknown words: the words to add to the model.

``docs/reference/formats.md`` lists the keys of its JSON object.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Final

from vocabtool.oov.suggest import HalfCounts, Suggestions
from vocabtool.reports.model import Column, Facts, Section, Table, percent
from vocabtool.vocabulary import encode

TERMINAL_WORDS: Final = 25
PAGE_WORDS: Final = 100


def suggestion_data(found: Suggestions) -> dict[str, Any]:
    """Return the JSON object of suggested words, without their vectors."""
    return {
        "words": [asdict(word) for word in found.words],
        "flags": found.flags,
        "chosen_on": _half(found.chosen_on),
        "held_out": _half(found.held_out),
        "tensor": found.tensor,
    }


def _half(half: HalfCounts) -> dict[str, float]:
    rates = {"rate_before": half.rate_before, "rate_after": half.rate_after}
    return half._asdict() | rates


def suggestion_section(found: Suggestions, page: bool) -> Section:
    """Return the section on suggested words: how much they save, and a list of the first words."""
    unit = "pieces per word" if found.flags else "unknown words"
    facts = []
    for name, half in (("that chose the words", found.chosen_on), ("held out", found.held_out)):
        rates = half.rate_before, half.rate_after
        before, after = (f"{rate:.3f}" if found.flags else percent(rate) for rate in rates)
        told = f"{before} before, {after} after the addition"
        facts.append((f"{unit} in {half.documents:,} documents {name}", told))
    saved = "pieces saved" if found.flags else "unknown words saved"
    columns = (
        *(Column("word to add"), Column("count", "count"), Column("pieces", "count")),
        *(Column(saved, "count"), Column("saved so far", "count"), Column("made of")),
    )
    rows = [
        (encode(each.word), each.count, len(parts), each.saved, each.total, " ".join(parts))
        for each in found.words[: PAGE_WORDS if page else TERMINAL_WORDS]
        for parts in [each.parts]
    ]
    table = Table(columns, rows, bars=saved, small=["made of"])
    return Section("Words to add", [Facts(facts), table])
