"""Entries without what vocabularies differ in by habit: marks of pieces, Unicode form, case.

``markers``: without the mark that says where a word begins or goes on, and byte-level characters
as the bytes that they stand for (``formats/markers.py``); ``nfkc``: Unicode's compatibility
composition; ``case``: Unicode's full case folding. Several are applied in this order, and after
case folding NFKC again. What is not UTF-8 keeps its bytes. What becomes common that way is
counted in ``gains.py``.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from vocabtool.comparison.characters import CASED, COMPOSED, WIDE, Bits, characters
from vocabtool.comparison.entries import arrow, byte_strings, take
from vocabtool.formats.markers import plain_strings
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Marker

if TYPE_CHECKING:
    import pyarrow as pa

Fold = Literal["case", "nfkc", "markers"]
FOLDS: Final[tuple[Fold, ...]] = get_args(Fold)


def checked(folds: str | Iterable[str]) -> tuple[Fold, ...]:
    """Folds in the order of :data:`FOLDS`, each once; a text is names with commas between.

    Raises ``ValueError`` for another name.
    """
    names = folds.split(",") if isinstance(folds, str) else folds
    wanted = {name.strip() for name in names} - {""}
    if unknown := sorted(wanted.difference(FOLDS)):
        raise ValueError(f"fold: wanted some of {', '.join(FOLDS)}, got {unknown[0]!r}")
    return tuple(fold for fold in FOLDS if fold in wanted)


def folded(
    entries: pa.LargeBinaryArray, folds: Collection[Fold], marker: Marker | None
) -> pa.LargeBinaryArray:
    """What folds make of each entry: length n."""
    if "markers" in folds:
        entries = without_marks(entries, marker)
    bits = characters(entries)
    at = np.flatnonzero(bits & (CASED * ("case" in folds) | COMPOSED * ("nfkc" in folds)))
    if not len(at):
        return entries
    import pyarrow as pa

    place = np.arange(len(entries))
    place[at] = np.arange(len(entries), len(entries) + len(at))
    forms = changed(entries, at, bits, folds)
    return take(pa.concat_arrays([entries, forms]), place)


def without_marks(entries: pa.LargeBinaryArray, marker: Marker | None) -> pa.LargeBinaryArray:
    """Entries as plain text, without the mark of pieces of words."""
    if marker is None:
        return entries
    return arrow(plain_strings(byte_strings(entries), marker))


def changed(
    entries: pa.LargeBinaryArray, at: NDArray[np.intp], bits: Bits, folds: Collection[Fold]
) -> pa.LargeBinaryArray:
    """What ``case`` and ``nfkc`` make of the entries at ``at``, shape (k,): length k.

    ``bits``: of all entries. One that is not UTF-8 must not be among those at ``at``.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    some = take(entries, at)
    wide = np.flatnonzero(bits[at] & WIDE)
    if "case" in folds and len(wide) < len(at):
        forms = pc.ascii_lower(some.view(pa.large_string())).view(pa.large_binary())
    else:
        forms = some
    if not len(wide):
        return forms
    others = ByteStrings.of(_folded(entry, folds) for entry in take(some, wide).to_pylist())
    place = np.arange(len(at))
    place[wide] = np.arange(len(at), len(at) + len(wide))
    return take(pa.concat_arrays([forms, arrow(others)]), place)


def _folded(entry: bytes, folds: Collection[Fold]) -> bytes:
    """One entry that is UTF-8."""
    text = entry.decode()
    if "nfkc" in folds:
        text = unicodedata.normalize("NFKC", text)
    if "case" in folds:
        text = text.casefold()
        if "nfkc" in folds:
            text = unicodedata.normalize("NFKC", text)
    return text.encode()
