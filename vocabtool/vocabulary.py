"""A vocabulary: entries in id order, their ids, the ids of unknown words, and its locations.

Entries stay as stored, with their piece markers (:data:`Marker`). In a byte-level vocabulary, each
character of an entry stands for one byte. A printable Latin-1 character stands for the byte that
equals its code. The characters from U+0100 on stand for the other bytes, in ascending order
(``bytes_to_unicode`` in openai/gpt-2, src/encoder.py).
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.system.results import TableResult, as_texts

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal[
    "table",  # a lookup table, filled from a constant, a file or the checkpoint
    "sentencepiece",
    "wordpiece",
    "bpe",
    "unigram",
    "vectors",  # the words of a word vector file
    "variable",  # a string variable of unknown purpose
    "constant",  # a string constant that no table uses; probably a vocabulary
    "asset",  # a text file of the model that no table reads
    "list",  # a word list
]
LINKED: frozenset[Kind] = frozenset(
    ("table", "sentencepiece", "wordpiece", "bpe", "unigram", "vectors")
)
EntryType = Literal["text", "integer"]
# "▁", "Ġ" (byte-level) or a space at the start: the entry begins a word. "##" at the start: it
# continues the previous entry. "@@" at the end: the word continues. "</w>" at the end: the word
# ends.
Marker = Literal["▁", "Ġ", " ", "##", "@@", "</w>"]
# How the notes of a vocabulary begin that concern whoever looks words up.
USED: Final = "files used:"
SHOWN: Final = 24  # characters of an entry in a table
STILL_A_VECTOR: Final = "an out-of-vocabulary word still gets a vector"


class Place(NamedTuple):
    """The location of a vocabulary."""

    file: str  #: Path of the file, relative to the model.
    place: str  #: Location inside the file.


class Special(NamedTuple):
    """An entry that a layer adds itself (mask and ``[UNK]`` of Keras); no file stores it."""

    id: int  #: Id of the entry.
    entry: str  #: Text of the entry.
    role: Literal["mask", "unknown"]  #: Purpose of the entry.


@dataclass(frozen=True, slots=True)
class Unknown:
    """The ids of unknown words. If there are several ids, a hash of the word selects one."""

    id: int  #: First id.
    count: int = 1  #: Number of ids.


@dataclass(frozen=True, eq=False)
class Vocabulary(TableResult):
    """The entries of one vocabulary, in id order.

    Two vocabularies are equal if their entries, ids, special entries and unknown ids are equal.
    Names and places do not matter.
    """

    name: str  #: Name, unique in its model.
    kind: Kind  #: Kind of the source, for example ``"table"``.
    stored: ByteStrings  #: Entries as stored in the file, in bytes; ``len()`` counts these.
    first_id: int = 0  #: Id of the first stored entry.
    #: Ids in ascending order, int64, shape (n,). ``None``: ``first_id .. first_id + n - 1``.
    ids: NDArray[np.int64] | None = None
    unknown: Unknown | None = None  #: Ids of unknown words; ``None`` if the model sets none.
    specials: tuple[Special, ...] = ()  #: Entries not stored, in id order; not in ``len()``.
    places: tuple[Place, ...] = ()  #: All locations with these entries, most relevant first.
    entry_type: EntryType = "text"  #: ``"text"``, or ``"integer"`` for keys of integer tables.
    notes: tuple[str, ...] = field(default=())  #: Further facts, as text.
    marker: Marker | None = None  #: Piece marker of the entries; ``None`` for whole words.
    rule: str | None = None  #: Rule from texts to words, if a file of word vectors states it.

    @classmethod
    def from_ids(
        cls,
        name: str,
        kind: Kind,
        entries: ByteStrings,
        ids: NDArray[np.int64] | None,
        *,
        unknown: Unknown | None = None,
        places: tuple[Place, ...] = (),
        notes: tuple[str, ...] = (),
        marker: Marker | None = None,
    ) -> Self:
        """Create a vocabulary from entries and their ids.

        ``ids``: the id of each entry, shape (n,), in any order; ``None``: 0, 1, 2 and so on.
        Raises :class:`InvalidFile` if there are more or fewer ids than entries.
        """
        stored, first_id, uneven = in_id_order(entries, ids)
        return cls(
            name, kind, stored, first_id, uneven, unknown, places=places, notes=notes, marker=marker
        )

    def __len__(self) -> int:
        return len(self.stored)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the stored entries in id order, as text (see :func:`decode`)."""
        return map(decode, self.stored)

    def __contains__(self, entry: object) -> bool:
        """Return whether ``entry`` (str or bytes) is stored; special entries do not count."""
        return isinstance(entry, str | bytes) and self._position(entry) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return f"<Vocabulary {self.name!r}: {len(self):,} entries, {self.kind}>"

    @property
    def size(self) -> int:
        """Number of stored entries."""
        return len(self.stored)

    @property
    def last_id(self) -> int:
        """The highest id of the stored entries; -1 without entries."""
        if not len(self):
            return -1
        return self.first_id + len(self) - 1 if self.ids is None else int(self.ids[-1])

    @property
    def id_range(self) -> str:
        """The ids as text: ``0..1999``, or ``0..1999, uneven`` if ids are missing or repeated."""
        if not len(self):
            return "none"
        ids = f"{self.first_id}..{self.last_id}"
        return ids if self.ids is None else f"{ids}, uneven"

    @property
    def linked(self) -> bool:
        """Whether the model looks words up in this vocabulary.

        If not, the purpose of the vocabulary is a guess.
        """
        return self.kind in LINKED

    @property
    def sha256(self) -> str:
        """SHA-256 of the stored entries, joined by ``\\n`` in id order; hexadecimal."""
        return self.stored.sha256

    @property
    def tokens(self) -> list[str]:
        """The stored entries in id order, as text."""
        return list(self)

    @property
    def duplicates(self) -> int:
        """Number of stored entries that repeat an earlier one."""
        return len(self) - self.stored.distinct

    def entries(self) -> list[str]:
        """Return stored and special entries in id order, as Keras' ``get_vocabulary()`` does."""
        joined = [(special.id, special.entry) for special in self.specials]
        joined += zip(self.id_array().tolist(), self, strict=True)
        return [entry for _, entry in sorted(joined, key=lambda pair: pair[0])]

    def id_array(self) -> NDArray[np.int64]:
        """Return the id of each stored entry: int64, shape (n,)."""
        if self.ids is not None:
            return self.ids
        return np.arange(self.first_id, self.first_id + len(self), dtype=np.int64)

    def id_of(self, entry: str | bytes) -> int:
        """Return the id of a stored or special entry; the lowest id if the entry is repeated.

        Raises ``KeyError`` if the entry does not exist.
        """
        position = self._position(entry)
        if position is not None:
            return self.first_id + position if self.ids is None else int(self.ids[position])
        shown = entry if isinstance(entry, str) else decode(entry)
        for special in self.specials:
            if special.entry == shown:
                return special.id
        raise KeyError(entry)

    def entry_of(self, id: int) -> str:  # noqa: A002 - the standard term
        """Return the stored or special entry with an id. Raises ``KeyError`` for an unused id."""
        position = id - self.first_id
        if self.ids is not None:
            position = int(np.searchsorted(self.ids, id))
            if position < len(self) and self.ids[position] != id:
                position = -1
        if 0 <= position < len(self):
            return decode(self.stored[position])
        for special in self.specials:
            if special.id == id:
                return special.entry
        raise KeyError(id)

    @cached_property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256; equal for equal vocabularies."""
        import hashlib

        digest = hashlib.sha256(b"vocabtool vocabulary 1, %d entries\n" % len(self))
        digest.update(self.stored.lengths.astype("<i8").tobytes())
        for piece in self.stored.pieces(b""):
            digest.update(piece)
        digest.update(self.id_array().astype("<i8").tobytes())
        digest.update(repr((self.specials, self.unknown, self.entry_type)).encode())
        return digest.hexdigest()

    def _position(self, entry: str | bytes) -> int | None:
        try:
            return self.positions.get(encode(entry) if isinstance(entry, str) else entry)
        except UnicodeEncodeError:  # a lone surrogate that decode() never produces
            return None

    @property
    def positions(self) -> dict[bytes, int]:
        """The position of each stored entry; the first position if the entry is repeated."""
        return self.stored.positions

    @cached_property
    def likely_marker(self) -> Marker | None:
        """The marker of the entries, guessed if the model does not state it."""
        return self.marker or guess_marker(self.stored)

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table with a row for each stored entry, in id order.

        Columns: ``id`` (int64); ``token`` (large_string), null for an entry that is not UTF-8; and
        ``bytes`` (large_binary), null for all other entries.
        """
        import pyarrow as pa

        table = pa.table({"id": pa.array(self.id_array()), "token": self.stored.to_arrow()})
        return as_texts(table, "token")


def in_id_order(
    entries: ByteStrings, ids: NDArray[np.int64] | range | None
) -> tuple[ByteStrings, int, NDArray[np.int64] | None]:
    """Sort entries by id; entries with the same id keep their order.

    Returns the fields ``stored``, ``first_id`` and ``ids`` of a :class:`Vocabulary`.

    ``ids``: ``None`` if the id of each entry is its position. Raises :class:`InvalidFile` if there
    are more or fewer ids than entries.
    """
    if ids is None:
        return entries, 0, None
    if len(ids) != len(entries):
        raise InvalidFile(f"{len(entries):,} words, but {len(ids):,} ids")
    if isinstance(ids, range):
        if ids.step == 1:
            return entries, ids.start, None
        ids = np.arange(ids.start, ids.stop, ids.step, dtype=np.int64)
    if bool((ids[1:] < ids[:-1]).any()):
        order = np.argsort(ids, kind="stable")
        entries, ids = entries.take(order), ids[order]
    first = int(ids[0]) if len(ids) else 0
    if np.array_equal(ids, np.arange(len(ids)) + first):
        return entries, first, None
    return entries, first, ids


def decode(entry: bytes) -> str:
    """Decode an entry as text. Each invalid UTF-8 byte becomes a lone surrogate."""
    return entry.decode("utf-8", "surrogateescape")


def encode(entry: str) -> bytes:
    """Encode text as bytes; the inverse of :func:`decode`."""
    return entry.encode("utf-8", "surrogateescape")


def text_bytes(text: str | bytes) -> bytes:
    """Return a text as bytes. Raise ``TypeError`` if it is not a text."""
    if isinstance(text, bytes):
        return text
    if isinstance(text, str):
        try:
            return encode(text)
        except UnicodeEncodeError:  # lone surrogates, which JSON allows
            return text.encode("utf-8", "surrogatepass")
    raise TypeError(f"expected a text (str or bytes), got {type(text).__name__}")


def is_utf8(data: bytes, *, cut: bool = False) -> bool:
    """Return whether bytes are UTF-8.

    ``cut``: whether the last character may be incomplete.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return cut and error.start > len(data) - 4
    return True


def printable(entry: bytes) -> str:
    """Decode bytes for display; escape characters that are not printable."""
    text = entry.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def safe(text: str) -> str:
    """Put an untrusted text on one line, and escape control characters."""
    return printable(encode(text))


def short(entry: bytes, most: int = SHOWN) -> str:
    """Make an entry printable, and cut it if it is long."""
    text = printable(entry)
    return text if len(text) <= most else text[: most - 1] + "…"


PREFIXES: Final[tuple[Marker, ...]] = ("▁", "Ġ", " ", "##")
BYTE_LEVEL: Final[Marker] = "Ġ"
# At least one entry in this many must have the marker; fewer are coincidence. In subword
# vocabularies, half of the pieces have it, fewer for scripts without spaces. ``##`` replaces digits
# in GoogleNews (word2vec), and Ġ begins Maltese words. No language has ▁ or ``</w>`` in its words.
ONE_IN: Final[dict[Marker, int]] = {"▁": 200, "Ġ": 20, " ": 20, "##": 20, "@@": 20, "</w>": 200}

_SELF: Final = frozenset((*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 256)))
_NUMBERED: Final = [b for b in range(256) if b not in _SELF]
ALPHABET: Final = "".join(
    chr(b) if b in _SELF else chr(256 + _NUMBERED.index(b)) for b in range(256)
)
_CHARMAP: Final = codecs.charmap_build(ALPHABET)


def plain(entry: bytes, marker: Marker | None) -> bytes:
    """Return the text of an entry, without its marker.

    A byte-level entry is converted to the bytes that its characters stand for. An entry with a
    character that stands for no byte, for example an added token, is returned unchanged.
    """
    if marker is None:
        return entry
    mark = marker.encode()
    if marker == BYTE_LEVEL:
        try:
            text = codecs.charmap_encode(entry.decode(), "strict", _CHARMAP)[0]
        except UnicodeError:
            return entry
        return text[entry.startswith(mark) :]
    return entry.removeprefix(mark) if marker in PREFIXES else entry.removesuffix(mark)


def plain_strings(stored: ByteStrings, marker: Marker | None) -> ByteStrings:
    """Apply :func:`plain` to every entry. Only byte-level entries are copied."""
    if marker is None:
        return stored
    if marker == BYTE_LEVEL:
        return ByteStrings.of(plain(entry, marker) for entry in stored)
    size = bear_marker(stored, marker) * stored.starts.dtype.type(len(marker.encode()))
    if marker in PREFIXES:
        return ByteStrings(stored.data, stored.starts + size, stored.ends)
    return ByteStrings(stored.data, stored.starts, stored.ends - size)


def bear_marker(stored: ByteStrings, marker: Marker) -> NDArray[np.bool_]:
    """Return, for each entry, whether it has the marker: bool, shape (n,)."""
    mark = np.frombuffer(marker.encode(), np.uint8)
    bearing = np.asarray(stored.lengths >= len(mark), np.bool_)
    buffer = np.frombuffer(stored.data, np.uint8)
    for at in range(0, len(stored), CHUNK):
        chunk = bearing[at : at + CHUNK]
        first = stored.starts[at : at + CHUNK]
        if marker not in PREFIXES:
            first = stored.ends[at : at + CHUNK] - len(mark)
        for offset, byte in enumerate(mark):
            if chunk.any():
                chunk &= buffer.take(first + offset, mode="clip") == byte
    return bearing


def guess_marker(stored: ByteStrings) -> Marker | None:
    """Return the most common marker of the entries, or ``None`` if it is too rare.

    The share of entries with the marker must be at least 1 / ``ONE_IN[marker]``. Entries that
    consist of the marker alone do not count as having it.
    """
    best: Marker | None = None
    most = 0
    for marker in ONE_IN:
        longer = stored.lengths > len(marker.encode())
        count = int(np.count_nonzero(bear_marker(stored, marker) & longer))
        if count > most:
            best, most = marker, count
    return best if best is not None and most * ONE_IN[best] >= len(stored) else None
