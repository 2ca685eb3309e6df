"""What a comparison says in words and numbers: the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from vocabtool.comparison.diff import Diff, Side
from vocabtool.comparison.folding import FoldOrAll
from vocabtool.comparison.ranks import Order
from vocabtool.tokenization.options import tokenizer_file

if TYPE_CHECKING:
    from vocabtool.comparison.use import SideName, Use

FOLDS: Final[dict[FoldOrAll, str]] = {
    "case": "case",
    "nfkc": "Unicode forms (NFKC)",
    "markers": "marks of pieces",
    "all": "all of these",
}
ORDERS: Final[dict[Order, str]] = {
    "frequency": "seem to follow frequency: its first entries are shorter than the rest",
    "alphabet": "follow the alphabet: its ranks say nothing of frequency",
    "unclear": "do not tell whether they follow frequency",
}


def described(found: Diff) -> Iterator[tuple[str, str]]:
    """What was compared, and how; the rule of a corpus a step a line."""
    yield "A", _named(found.a)
    yield "B", _named(found.b)
    folded = ", ".join(FOLDS[fold] for fold in found.fold)
    yield "entries compared", f"without {folded}" if folded else "as they are stored"
    if found.use is not None:
        yield from _corpus(found.use)


def _named(side: Side) -> str:
    of = "" if side.label == side.name else f"{side.name}, "
    marks = "" if side.marker is None else f", pieces marked with {side.marker!r}"
    return f"{side.label}: {of}{side.size:,} entries{marks}"


def _corpus(use: Use) -> Iterator[tuple[str, str]]:
    for number, source in enumerate(use.sources):
        yield "corpus" if number == 0 else "", source
    yield "rule for both", use.rule_name
    yield from (("", step) for step in use.rule)
    yield "rule's fingerprint", use.fingerprint


def remarks(found: Diff) -> Iterator[str]:
    """What a reader should know, a sentence each."""
    yield from found.notes
    for name, side in (("A", found.a), ("B", found.b)):
        if side.duplicates:
            yield f"repeated entries of {name}, which count once: {side.duplicates:,}"
        if side.merged:
            yield f"entries of {name} that folding made equal to an earlier one: {side.merged:,}"
    yield from orders(found)
    if found.use is not None:
        if not found.use.tokens:
            yield "the corpus holds no words: its shares say nothing"
        if (found.a.marker or found.b.marker) and tokenizer_file(found.use.rule_name) is None:
            yield (
                "of pieces, only those that can be a whole word were looked up in the corpus, "
                "without their mark: other words may still be spelt in pieces"
            )
        yield from found.use.notes


def orders(found: Diff) -> Iterator[str]:
    """Whether ranks say anything of use, a sentence for each side."""
    for name, side in (("A", found.a), ("B", found.b)):
        yield f"the ids of {name} {ORDERS[side.order]}"


def correlation(found: Diff) -> str:
    """Spearman's rho in a sentence."""
    rho, count = found.ranks.rho, len(found.ranks)
    if rho is None:
        return "too few common entries to compare ranks"
    return f"Spearman's rho {rho:.3f} over the ranks of {count:,} common entries"


def carried(use: Use, side: SideName) -> str:
    """How few words make up what one side alone knows."""
    from vocabtool.comparison.use import CARRYING

    knows, misses = ("A", "B") if side == "a" else ("B", "A")
    found = use.carriers(side)
    if not found.words:
        return f"{misses} misses nothing of this corpus that {knows} knows"
    least = f"{CARRYING:.0%}" if found.share < 1 else "all"
    words = "one word is" if found.words == 1 else f"the {found.words:,} commonest words are"
    every = use.only_a if side == "a" else use.only_b
    tokens = f"{every:,} of {use.tokens:,} tokens"
    return f"{words} {least} of what {misses} misses and {knows} knows, {tokens}"


def knowing(use: Use) -> tuple[tuple[str, int], ...]:
    """The tokens that each side knows, that both do, and that neither does."""
    return (
        ("A", use.known_a),
        ("B", use.known_b),
        ("both", use.both),
        ("neither", use.neither),
    )


def shares(use: Use) -> tuple[tuple[str, int], ...]:
    """The tokens of a corpus by who knows them: together all of them."""
    return (
        ("only A", use.only_a),
        ("both", use.both),
        ("only B", use.only_b),
        ("neither", use.neither),
    )


def shifted(shift: float) -> str:
    """A shift in doublings of the rank, with its sign."""
    return f"{shift:+.1f}"
