"""What would become common if entries were folded: for each fold alone, and for all together.

Only counted: nothing is folded unless the caller asks for it. What the folds do is in
``folding.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.comparison.characters import CASED, COMPOSED, Bits
from vocabtool.comparison.entries import bools, integers, take
from vocabtool.comparison.folding import FOLDS, Fold, changed, folded, without_marks
from vocabtool.comparison.union import Union
from vocabtool.vocabulary import Marker

if TYPE_CHECKING:
    import pyarrow as pa

TEXT: Final[tuple[Fold, ...]] = ("case", "nfkc")
FoldOrAll = Literal["case", "nfkc", "markers", "all"]
Numbers = NDArray[np.int64]
MARKED: Final[tuple[FoldOrAll, ...]] = ("markers", "all")  # what depends on a side's marker
EXAMPLES: Final = 5


class Gain(NamedTuple):
    """What folding would do.

    ``entries_a``: how many of the entries that only A holds would be equal to one of B;
    ``entries_b``: the same of B. ``size_a``, ``size_b``, ``common``: how many different entries
    there would be. ``examples``: the first few entries that only one of them holds and that would
    be common: an entry of A, and the first of B that it would be equal to.
    """

    fold: FoldOrAll
    entries_a: int
    entries_b: int
    size_a: int
    size_b: int
    common: int
    examples: tuple[tuple[bytes, bytes], ...] = ()

    @property
    def jaccard(self) -> float:
        """Common entries as a share of all, from 0 to 1."""
        return jaccard(self.common, self.size_a, self.size_b)


def jaccard(common: int, size_a: int, size_b: int) -> float:
    """The Jaccard index of two sets; 1 for two empty ones, which are equal."""
    every = size_a + size_b - common
    return common / every if every else 1.0


class _Change(NamedTuple):
    """What a fold makes of some tokens: of those at ``at``, ascending, the strings that have the
    numbers ``forms``, both of shape (k,). The first numbers are those of the union's tokens; the
    other tokens stay as they are."""

    at: Numbers
    forms: Numbers


class _Side(NamedTuple):
    """One of the two: which tokens it holds, in which order, and what a fold makes of them."""

    holds: NDArray[np.bool_]
    order: Numbers
    change: _Change


def gains(
    union: Union, bits: Bits, marker_a: Marker | None, marker_b: Marker | None
) -> tuple[Gain, ...]:
    """One for each of ``FOLDS``, and one for all of them. ``bits``: of the union's tokens."""
    tokens = union.tokens
    cased, composed = np.flatnonzero(bits & CASED), np.flatnonzero(bits & COMPOSED)
    strings = [
        changed(tokens, cased, bits, TEXT[:1]),
        changed(tokens, composed, bits, TEXT[1:]),
        changed(tokens, composed, bits, TEXT),
    ]
    for held, marker in ((union.a, marker_a), (union.b, marker_b)):
        if marker is not None:
            entries = take(tokens, np.sort(held.numbers))
            strings += [without_marks(entries, marker), folded(entries, FOLDS, marker)]
    case, nfkc, both, *of_marks = _numbered(tokens, strings)
    every = _Change(*_both(bits, case, both))
    changes: dict[FoldOrAll, list[_Change]] = {
        "case": [_Change(cased, case)] * 2,
        "nfkc": [_Change(composed, nfkc)] * 2,
        "markers": [_Change(cased[:0], case[:0])] * 2,
        "all": [every] * 2,
    }
    for side, (held, marker) in enumerate(((union.a, marker_a), (union.b, marker_b))):
        if marker is not None:
            for fold in MARKED:
                changes[fold][side] = _Change(np.sort(held.numbers), of_marks.pop(0))
    return tuple(_gain(union, fold, *change) for fold, change in changes.items())


def _both(bits: Bits, case: Numbers, both: Numbers) -> tuple[Numbers, Numbers]:
    """What both folds of text change: as case alone does, where nothing composes."""
    at = np.flatnonzero(bits & (CASED | COMPOSED))
    forms = np.empty(len(at), np.int64)
    forms[bits[at] & CASED != 0] = case
    forms[bits[at] & COMPOSED != 0] = both
    return at, forms


def _numbered(tokens: pa.LargeBinaryArray, strings: Sequence[pa.LargeBinaryArray]) -> list[Numbers]:
    """A number for each string: its place in ``tokens``, or one behind all of these.

    All are looked up together: that is what takes the time.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    encoded = pa.concat_arrays(strings).dictionary_encode()
    different = encoded.dictionary
    place = np.arange(len(tokens), len(tokens) + len(different))
    found = pc.index_in(tokens, value_set=different)
    known = np.flatnonzero(bools(found.is_valid()))
    place[integers(found.drop_null())] = known
    numbers = place[integers(encoded.indices)]
    return np.split(numbers, np.cumsum([len(some) for some in strings])[:-1])


def _gain(union: Union, fold: FoldOrAll, change_a: _Change, change_b: _Change) -> Gain:
    a = _Side(union.in_a, union.order_a, change_a)
    b = _Side(union.in_b, union.order_b, change_b)
    count = max(len(union), *(int(side.change.forms.max(initial=0)) + 1 for side in (a, b)))
    forms_a, forms_b = _forms(a, count), _forms(b, count)
    new_a = _new(a, union.in_b, forms_b)
    new_b = _new(b, union.in_a, forms_a)
    pairs = _pairs(union.tokens, a, b, new_a)
    if len(pairs) < EXAMPLES:
        others = [(x, y) for y, x in _pairs(union.tokens, b, a, new_b)]
        pairs += [pair for pair in others if pair not in pairs]
    return Gain(
        fold,
        entries_a=int(np.count_nonzero(new_a)),
        entries_b=int(np.count_nonzero(new_b)),
        size_a=int(np.count_nonzero(forms_a)),
        size_b=int(np.count_nonzero(forms_b)),
        common=int(np.count_nonzero(forms_a & forms_b)),
        examples=tuple(pairs[:EXAMPLES]),
    )


def _forms(side: _Side, count: int) -> NDArray[np.bool_]:
    """Which strings a side holds when folded: shape (count,)."""
    at, forms = side.change
    held = np.zeros(count, np.bool_)
    held[: len(side.holds)] = side.holds
    held[at] = False
    held[forms[side.holds[at]]] = True
    return held


def _new(side: _Side, other: NDArray[np.bool_], forms: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which tokens a side alone holds that the other would hold, too: shape (u,)."""
    only = side.holds & ~other
    new = only & forms[: len(only)]
    at = side.change.at
    new[at] = only[at] & forms[side.change.forms]
    return new


def _pairs(
    tokens: pa.LargeBinaryArray, side: _Side, other: _Side, new: NDArray[np.bool_]
) -> list[tuple[bytes, bytes]]:
    """The first of a side's ``new`` tokens, each with the other side's first of the same form."""
    found = np.flatnonzero(new)
    first = found[np.argsort(side.order[found], kind="stable")[:EXAMPLES]]
    pairs = []
    for number in first.tolist():
        like = _like(other, _form(side.change, number))
        pairs.append((tokens[number].as_py(), tokens[like].as_py()))
    return pairs


def _form(change: _Change, number: int) -> int:
    """The number of what a fold makes of a token."""
    place = int(np.searchsorted(change.at, number))
    if place < len(change.at) and change.at[place] == number:
        return int(change.forms[place])
    return number


def _like(side: _Side, form: int) -> int:
    """The first token of a side that has a form."""
    at, forms = side.change
    some = at[forms == form]
    some = some[side.holds[some]]
    if form < len(side.holds) and side.holds[form] and _form(side.change, form) == form:
        some = np.append(some, form)
    return int(some[np.argmin(side.order[some])])
