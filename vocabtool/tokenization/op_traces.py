"""What an op saw in one call of the model, put back to the texts that it came from.

Strings of a whole batch mostly arrive in one row. Either their shape tells whose they are, or a
mark does: a text of known words, fed after each text, whose strings are then found among the
others. Nothing is believed without a count: an answer that does not fit is no answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.tokenization.text_arrays import Cut, as_bytes

if TYPE_CHECKING:
    import pyarrow as pa

Integers = NDArray[np.int64]

# Three words, so that a table of pairs or triples is asked for some of it too.
MARK: Final = b"qzmarka qzmarkb qzmarkc"


class TracedOp(NamedTuple):
    """An op that reports. ``function``: where it stands, ``b""`` for the main graph.

    ``live``: whether the function that is called reaches it.
    """

    function: bytes
    node: bytes
    op: str
    live: bool


class Pieces(NamedTuple):
    """What a tokenizer made of m strings, p pieces in all; what its op does not tell is ``None``.

    ``offsets``: shape (m + 1,); the pieces of string ``j`` are ``values[offsets[j]:offsets[j +
    1]]``. ``values``: Arrow ``string`` array of length p. ``starts``, ``ends``: shape (p,), where
    each stands, in bytes of its string.
    """

    offsets: Integers
    values: pa.StringArray | None = None
    starts: Integers | None = None
    ends: Integers | None = None


class RawTrace(NamedTuple):
    """What an op saw in one call, all its runs one after the other.

    ``strings``: Arrow ``string`` array of length m. ``shapes``: that of the strings of each run.
    ``ids``: one per string of a lookup, -1 where what it finds is no integer; one per piece of a
    tokenizer; ``None`` where it tells none.
    """

    strings: pa.StringArray
    shapes: tuple[tuple[int, ...], ...]
    ids: Integers | None = None
    default: int | None = None
    pieces: Pieces | None = None


class OpTrace(NamedTuple):
    """What an op saw of n texts.

    ``cut``: the strings that it looked up, or cut into pieces, text by text, m in all.
    ``ids``: int64, of a lookup shape (m,), -1 where what it finds is no integer; of a tokenizer
    one per piece; ``None`` where it tells none.
    ``default``: what a lookup gives for a string that its table does not hold.
    ``pieces``: of a tokenizer.
    """

    op: TracedOp
    cut: Cut
    ids: Integers | None
    default: int | None
    pieces: Pieces | None


def all_of_one(seen: RawTrace) -> Integers:
    """The bounds where there is one text only."""
    return np.array([0, len(seen.strings)], np.int64)


def shape_bounds(seen: RawTrace, texts: int) -> Integers | None:
    """Where each text's strings begin and end, by the shape: (texts + 1,), or ``None``.

    A row for each text, or a run for each.
    """
    sizes = [math.prod(shape) for shape in seen.shapes]
    total = len(seen.strings)
    if total == 0:
        return np.zeros(texts + 1, np.int64)
    if len(sizes) == texts:
        return np.cumsum([0, *sizes], dtype=np.int64)
    if len(sizes) == 1 and seen.shapes[0] and seen.shapes[0][0] == texts:
        return np.arange(texts + 1, dtype=np.int64) * (total // texts)
    return None


def mark_bounds(seen: RawTrace, mark: pa.StringArray, texts: int) -> Integers | None:
    """The same for texts each of which is followed by the mark: shape (2 * texts + 1,)."""
    if len(mark) == 0 or not _is_unbordered(as_bytes(mark)):
        return None
    ends = _places(seen.strings, mark) + len(mark)
    if len(ends) != texts or ends[-1] != len(seen.strings):
        return None
    bounds = np.zeros(2 * texts + 1, np.int64)
    bounds[1::2] = ends - len(mark)
    bounds[2::2] = ends
    return bounds


def _is_unbordered(mark: Sequence[bytes]) -> bool:
    """Whether it does not end as it begins: then two places of it cannot overlap.

    As many places as marks are then the marks themselves, whatever the texts hold.
    """
    return all(mark[:length] != mark[-length:] for length in range(1, len(mark)))


def _places(strings: pa.StringArray, mark: pa.StringArray) -> Integers:
    """Where the strings of the mark stand one after the other."""
    import pyarrow.compute as pc

    places = np.flatnonzero(pc.equal(strings, mark[0]))
    for further, string in enumerate(mark):
        places = places[places + further < len(strings)]
        there = pc.equal(strings.take(_indices(places + further)), string)
        places = places[np.asarray(there, np.bool_)]
    return places.astype(np.int64)


def _indices(places: Integers) -> pa.Array:
    import pyarrow as pa

    return pa.array(places, pa.int64())


def piece_bounds(seen: RawTrace, cut: RawTrace, bounds: Integers) -> Integers | None:
    """The bounds of what looks up exactly the pieces that another op made of its strings."""
    if cut.pieces is None or cut.pieces.values is None:
        return None
    if not seen.strings.equals(cut.pieces.values):
        return None
    return cut.pieces.offsets[bounds]


def holds_marks(seen: RawTrace, bounds: Integers, mark: pa.StringArray, *, whole: bool) -> bool:
    """Whether every second text is the mark, and nothing else."""
    marks = _own(bounds, odd=True) & _filled(seen, bounds, whole=whole)
    ends = np.concatenate([[0], np.cumsum(marks)])[bounds]
    if np.any(np.diff(ends)[1::2] != len(mark)):
        return False
    found = seen.strings.filter(_mask(marks))
    repeated = np.tile(np.arange(len(mark)), len(bounds) // 2)
    return bool(found.equals(mark.take(_indices(repeated))))


def without_marks(seen: RawTrace, bounds: Integers, *, whole: bool) -> tuple[RawTrace, Integers]:
    """Leave out every second text, and what fills rows up."""
    return _select(
        seen, bounds, _own(bounds, odd=False) & _filled(seen, bounds, whole=whole), step=2
    )


def without_padding(seen: RawTrace, bounds: Integers, *, whole: bool) -> tuple[RawTrace, Integers]:
    """Leave out what fills rows up."""
    return _select(seen, bounds, _filled(seen, bounds, whole=whole), step=1)


def _own(bounds: Integers, *, odd: bool) -> NDArray[np.bool_]:
    """For each string, whether it is one of a text at an odd, or even, position."""
    texts = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    own: NDArray[np.bool_] = (texts % 2 == 1) == odd
    return own


def _filled(seen: RawTrace, bounds: Integers, *, whole: bool) -> NDArray[np.bool_]:
    """For each string, whether it is more than padding: empty, and last in a row of several.

    ``whole``: the op gets each text uncut, so that an empty string is an empty text.
    """
    import pyarrow.compute as pc

    if whole or all(len(shape) < 2 for shape in seen.shapes):
        return np.ones(len(seen.strings), np.bool_)
    filled = np.asarray(pc.greater(pc.binary_length(seen.strings), 0), np.bool_)
    # The last filled string at or behind each one, within its text.
    last = np.full(len(bounds) - 1, -1, np.int64)
    places = np.flatnonzero(filled)
    of_text = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    np.maximum.at(last, of_text[places], places)
    kept: NDArray[np.bool_] = np.arange(len(filled)) <= last[of_text]
    return kept


def _mask(chosen: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa

    return pa.array(chosen, pa.bool_())


def _select(
    seen: RawTrace, bounds: Integers, chosen: NDArray[np.bool_], *, step: int
) -> tuple[RawTrace, Integers]:
    """Only the chosen strings, with what belongs to them; the bounds of every ``step``-th text."""
    if chosen.all():
        return seen, bounds[::step]
    new_bounds = np.concatenate([[0], np.cumsum(chosen)])[bounds][::step]
    strings = seen.strings.filter(_mask(chosen))
    if seen.pieces is None:
        ids = None if seen.ids is None else seen.ids[chosen]
        return seen._replace(strings=strings, ids=ids), new_bounds
    sizes = np.diff(seen.pieces.offsets)
    kept = np.repeat(chosen, sizes)
    return (
        seen._replace(
            strings=strings,
            ids=_at(seen.ids, kept),
            pieces=Pieces(
                np.concatenate([[0], np.cumsum(sizes[chosen])]),
                None if seen.pieces.values is None else seen.pieces.values.filter(_mask(kept)),
                _at(seen.pieces.starts, kept),
                _at(seen.pieces.ends, kept),
            ),
        ),
        new_bounds,
    )


def _at(array: Integers | None, chosen: NDArray[np.bool_]) -> Integers | None:
    return None if array is None else array[chosen]


def joined(parts: Sequence[OpTrace]) -> OpTrace:
    """What one op saw of several batches, as if they were one. There is at least one."""
    if len(parts) == 1:
        return parts[0]
    offsets = _shifted([part.cut.offsets for part in parts])
    cut = Cut(_strings([part.cut.values for part in parts]), offsets)
    pieces = [part.pieces for part in parts if part.pieces is not None]
    default = next((part.default for part in parts if part.default is not None), None)
    ids = _numbers([part.ids for part in parts])
    return OpTrace(parts[0].op, cut, ids, default, _joined_pieces(pieces) if pieces else None)


def _joined_pieces(parts: Sequence[Pieces]) -> Pieces:
    values = [part.values for part in parts if part.values is not None]
    return Pieces(
        _shifted([part.offsets for part in parts]),
        _strings(values) if values else None,
        _numbers([part.starts for part in parts]),
        _numbers([part.ends for part in parts]),
    )


def _shifted(offsets: Sequence[Integers]) -> Integers:
    """Offsets of arrays as those of the arrays joined."""
    lengths = [np.diff(part) for part in offsets]
    return np.concatenate([[0], np.cumsum(np.concatenate(lengths))]).astype(np.int64)


def _numbers(parts: Sequence[Integers | None]) -> Integers | None:
    told = [part for part in parts if part is not None]
    return np.concatenate(told) if told else None


def _strings(parts: Sequence[pa.StringArray]) -> pa.StringArray:
    import pyarrow as pa

    return pa.concat_arrays(list(parts))
