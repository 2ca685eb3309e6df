"""What would become common if entries were folded: for each fold alone, and for all together.

Only counted: nothing is folded unless the caller asks for it. What the folds do is in
``folding.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.diff.characters import CASED, COMPOSED, Bits
from vocabtool.diff.entries import bools, integers, take
from vocabtool.diff.folding import FOLDS, Fold, changed, folded, without_marks
from vocabtool.diff.union import Held, Union, membership
from vocabtool.vocabulary import Marker

if TYPE_CHECKING:
    import pyarrow as pa

TEXT: Final[tuple[Fold, ...]] = ("case", "nfkc")
FoldOrAll = Literal["case", "nfkc", "markers", "all"]
Numbers = NDArray[np.int64]
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


class _Forms(NamedTuple):
    """What a fold makes of each side's entries, as numbers: equal ones have the same.

    The first numbers are those of the union's tokens.
    """

    a: Numbers
    b: Numbers


def gains(
    union: Union, bits: Bits, marker_a: Marker | None, marker_b: Marker | None
) -> tuple[Gain, ...]:
    """One for each of ``FOLDS``, and one for all of them. ``bits``: of the union's tokens."""
    case, nfkc, both, *of_marks = _of_text(union, bits, (marker_a, marker_b))
    stored = _Forms(union.a.numbers, union.b.numbers)
    plain, every = list(stored), [both[numbers] for numbers in stored]
    for side, marker in enumerate((marker_a, marker_b)):
        if marker is not None:
            plain[side], every[side] = of_marks.pop(0), of_marks.pop(0)
    forms: dict[FoldOrAll, _Forms] = {
        "case": _Forms(case[stored.a], case[stored.b]),
        "nfkc": _Forms(nfkc[stored.a], nfkc[stored.b]),
        "markers": _Forms(*plain),
        "all": _Forms(*every),
    }
    return tuple(_gain(union, fold, each) for fold, each in forms.items())


def _of_text(union: Union, bits: Bits, markers: Sequence[Marker | None]) -> list[Numbers]:
    """The numbers of the forms of all tokens by case, by NFKC, and by both; then, for each side
    that has a marker, of its entries without marks, and with nothing that can be folded.

    All forms are looked up together: that is what takes the time.
    """
    tokens = union.tokens
    cased, composed = np.flatnonzero(bits & CASED), np.flatnonzero(bits & COMPOSED)
    strings = [
        changed(tokens, cased, bits, TEXT[:1]),
        changed(tokens, composed, bits, TEXT[1:]),
        changed(tokens, composed, bits, TEXT),
    ]
    for held, marker in zip((union.a, union.b), markers, strict=True):
        if marker is not None:
            entries = take(tokens, held.numbers)
            strings += [without_marks(entries, marker), folded(entries, FOLDS, marker)]
    numbers = _numbered(tokens, strings)
    case, nfkc = np.arange(len(tokens)), np.arange(len(tokens))
    case[cased], nfkc[composed] = numbers[:2]
    both = case.copy()  # that is the same where nothing composes
    both[composed] = numbers[2]
    return [case, nfkc, both, *numbers[3:]]


def _numbered(tokens: pa.LargeBinaryArray, strings: Sequence[pa.LargeBinaryArray]) -> list[Numbers]:
    """A number for each string: its place in ``tokens``, or one behind all of these."""
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


def _gain(union: Union, fold: FoldOrAll, forms: _Forms) -> Gain:
    if forms.a is union.a.numbers and forms.b is union.b.numbers:  # nothing changes
        common = int(np.count_nonzero(union.in_a & union.in_b))
        return Gain(fold, 0, 0, len(forms.a), len(forms.b), common)
    count = int(max(forms.a.max(initial=-1), forms.b.max(initial=-1))) + 1
    in_a, in_b = membership(forms.a, count), membership(forms.b, count)
    new_a = np.flatnonzero(~union.in_b[union.a.numbers] & in_b[forms.a])
    new_b = np.flatnonzero(~union.in_a[union.b.numbers] & in_a[forms.b])
    pairs = _pairs(union.tokens, union.a, union.b, forms, new_a)
    others = _pairs(union.tokens, union.b, union.a, _Forms(forms.b, forms.a), new_b)
    pairs += [(a, b) for b, a in others if (a, b) not in pairs]
    return Gain(
        fold,
        len(new_a),
        len(new_b),
        int(in_a.sum()),
        int(in_b.sum()),
        int((in_a & in_b).sum()),
        tuple(pairs[:EXAMPLES]),
    )


def _pairs(
    tokens: pa.LargeBinaryArray,
    held: Held,
    other: Held,
    forms: _Forms,
    new: NDArray[np.intp],
) -> list[tuple[bytes, bytes]]:
    """The first of a side's ``new`` entries, each with the other side's first of the same form."""
    found = []
    for place in new[:EXAMPLES].tolist():
        like = int(np.argmax(forms.b == forms.a[place]))
        pair = held.numbers[place], other.numbers[like]
        found.append((tokens[int(pair[0])].as_py(), tokens[int(pair[1])].as_py()))
    return found
