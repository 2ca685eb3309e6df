"""A vocabulary: entries in id order, their ids, what stands for the unknown, where it was found.

Formats fill it, everything else reads it. Entries are kept as they are stored; what the marks of
pieces mean (:data:`Marker`) is for showing and comparing them. Byte-level entries show every byte
as a character: those of printable Latin-1 as themselves, the others, in order, from U+0100 on
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

from vocabtool.system.byte_strings import CHUNK, ByteStrings

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal[
    "table",  # a lookup table, filled from a constant, a file or the checkpoint
    "sentencepiece",
    "wordpiece",
    "bpe",
    "unigram",
    "phrase",
    "vectors",  # the words of a file of word vectors
    "variable",  # a string variable: a list, nothing says what it is for
    "constant",  # a string constant that no table uses: likely a vocabulary, not certainly
    "asset",  # a text file of the model that no table reads
    "config",  # a list in a Keras layer's configuration
    "list",  # a file of words, nothing more
    "stop words",  # that are dropped from a text: no vocabulary, taken only by name
]
LINKED: frozenset[Kind] = frozenset(
    ("table", "sentencepiece", "wordpiece", "bpe", "unigram", "phrase", "vectors")
)
EntryType = Literal["text", "integer"]
# How pieces of words are marked: where an entry begins with "▁", "Ġ" (byte-level: every byte is
# shown as a character) or a blank, a word begins; "##" before it: it goes on from the one before;
# "@@" behind it: the word goes on; "</w>" behind it: the word ends.
Marker = Literal["▁", "Ġ", " ", "##", "@@", "</w>"]


class Place(NamedTuple):
    """Where a vocabulary lies: ``file`` relative to the model, ``place`` inside that file."""

    file: str
    place: str


class Special(NamedTuple):
    """An entry that no file stores: a layer adds it by itself (Keras' mask and ``[UNK]``)."""

    id: int
    entry: str
    role: Literal["mask", "unknown"]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Words outside the vocabulary get one of ``count`` ids from ``id`` on, by hash if several."""

    id: int
    count: int = 1


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """The entries of one vocabulary, in id order.

    ``stored``: the entries as they lie in the file, as bytes; ``len()`` counts these.
    ``ids``: int64, shape (n,), ascending, or ``None`` when they are ``first_id .. first_id+n-1``.
    ``unknown``: ``None`` when nothing in the model says.
    ``specials``: entries that are not stored, in id order; never counted in ``len()``.
    ``places``: everywhere this content was found, best first.
    ``notes``: further facts for a person to read.
    ``marker``: how entries that are pieces of words are marked; ``None`` for whole words.

    Two vocabularies are equal when entries, ids, specials and unknown are; names and places
    do not matter.
    """

    name: str
    kind: Kind
    stored: ByteStrings
    first_id: int = 0
    ids: NDArray[np.int64] | None = None
    unknown: Unknown | None = None
    specials: tuple[Special, ...] = ()
    places: tuple[Place, ...] = ()
    entry_type: EntryType = "text"
    notes: tuple[str, ...] = field(default=())
    marker: Marker | None = None

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
        """Entries and their ids in any order; ``ids``: shape (n,), ``None`` for positions."""
        stored, first_id, uneven = in_id_order(entries, ids)
        return cls(
            name, kind, stored, first_id, uneven, unknown, places=places, notes=notes, marker=marker
        )

    @property
    def repeated_id(self) -> int | None:
        """The first id that two stored entries have."""
        ids = self.ids
        repeated = [] if ids is None else ids[1:][ids[1:] == ids[:-1]]
        return int(repeated[0]) if len(repeated) else None

    def __len__(self) -> int:
        return len(self.stored)

    def __iter__(self) -> Iterator[str]:
        """The stored entries in id order, as :func:`decode` shows them."""
        return map(decode, self.stored)

    def __contains__(self, entry: object) -> bool:
        """Whether ``entry`` (str or bytes) is stored; specials are not: the model adds those."""
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
        """The id of the last stored entry, the highest; -1 where nothing is stored."""
        if not len(self):
            return -1
        return self.first_id + len(self) - 1 if self.ids is None else int(self.ids[-1])

    @property
    def id_range(self) -> str:
        """The ids for people: ``0..1999``; uneven where they have gaps or repeat."""
        if not len(self):
            return "none"
        return f"{self.first_id}..{self.last_id}" + ", uneven" * (self.ids is not None)

    @property
    def linked(self) -> bool:
        """Whether something in the model looks words up in it (else its role is a guess)."""
        return self.kind in LINKED

    @property
    def sha256(self) -> str:
        """Hexadecimal sha256 of the stored entries joined by ``\\n``, in id order."""
        return self.stored.sha256

    @property
    def tokens(self) -> list[str]:
        """The stored entries in id order; makes one ``str`` per entry."""
        return list(self)

    @property
    def duplicates(self) -> int:
        """How many stored entries repeat an earlier one."""
        return len(self) - self.stored.distinct

    def entries(self) -> list[str]:
        """Stored and special entries together in id order: Keras' ``get_vocabulary()``."""
        joined = [(special.id, special.entry) for special in self.specials]
        joined += zip(self.id_array().tolist(), self, strict=True)
        return [entry for _, entry in sorted(joined, key=lambda pair: pair[0])]

    def id_array(self) -> NDArray[np.int64]:
        """The id of each stored entry: int64, shape (n,)."""
        if self.ids is not None:
            return self.ids
        return np.arange(self.first_id, self.first_id + len(self), dtype=np.int64)

    def id_of(self, entry: str | bytes) -> int:
        """The id of an entry, stored or special (the first, where it repeats).

        Raises ``KeyError`` where the vocabulary does not hold it.
        """
        position = self._position(entry)
        if position is not None:
            return self.first_id + position if self.ids is None else int(self.ids[position])
        shown = entry if isinstance(entry, str) else decode(entry)
        for special in self.specials:
            if special.entry == shown:
                return special.id
        raise KeyError(entry)

    def entry_of(self, id: int) -> str:  # noqa: A002 - the field's word for it
        """The entry with an id, stored or special. Raises ``KeyError`` for an id not in use."""
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
        """Hexadecimal sha256 of everything that equality compares."""
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
        except UnicodeEncodeError:  # a lone surrogate that no bytes are shown as
            return None

    @cached_property
    def positions(self) -> dict[bytes, int]:
        """Where each stored entry stands first; one object per entry, made on first use."""
        positions: dict[bytes, int] = {}
        for position, entry in enumerate(self.stored):
            positions.setdefault(entry, position)
        return positions

    def to_arrow(self) -> pa.Table:
        """An Arrow table with the columns ``id`` (int64) and ``token`` (large_binary)."""
        import pyarrow as pa

        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.stored.lengths, out=offsets[1:])
        entries = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(),
            len(self),
            [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(self.stored.pieces(b"")))],
        )
        return pa.table({"id": pa.array(self.id_array()), "token": entries})


def numbering(ids: NDArray[np.int64]) -> tuple[int, NDArray[np.int64] | None]:
    """``first_id`` and ``ids`` of a vocabulary whose ascending ids are given."""
    first = int(ids[0]) if len(ids) else 0
    if np.array_equal(ids, np.arange(len(ids)) + first):
        return first, None
    return first, ids


def in_id_order(
    entries: ByteStrings, ids: NDArray[np.int64] | range | None
) -> tuple[ByteStrings, int, NDArray[np.int64] | None]:
    """``stored``, ``first_id`` and ``ids`` of a vocabulary, from entries and ids in any order.

    Entries that share an id keep their order. ``None``: ids are positions.
    """
    if ids is None:
        return entries, 0, None
    if isinstance(ids, range):
        if ids.step == 1:
            return entries, ids.start, None
        ids = np.arange(ids.start, ids.stop, ids.step, dtype=np.int64)
    if bool((ids[1:] < ids[:-1]).any()):
        order = np.argsort(ids, kind="stable")
        entries, ids = entries.take(order), ids[order]
    return entries, *numbering(ids)


def decode(entry: bytes) -> str:
    """Show an entry as text; bytes that are not UTF-8 become lone surrogates, so none are lost."""
    return entry.decode("utf-8", "surrogateescape")


def encode(entry: str) -> bytes:
    """The inverse of :func:`decode`."""
    return entry.encode("utf-8", "surrogateescape")


def is_utf8(data: bytes, *, cut: bool = False) -> bool:
    """Whether bytes are UTF-8; ``cut``: the last character may be incomplete."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return cut and error.start > len(data) - 4
    return True


def printable(entry: bytes) -> str:
    """Bytes as a person may safely see them: what is not a printable character is escaped."""
    text = entry.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


PREFIXES: Final[tuple[Marker, ...]] = ("▁", "Ġ", " ", "##")
BYTE_LEVEL: Final[Marker] = "Ġ"
# One entry in so many bears a mark, or it is taken for chance. Of the lists of words in gensim's
# test data and in ours none bears any; of tokenizers' pieces a half do, fewer where no blanks part
# words. ``##`` stands for digits in word2vec's GoogleNews, and Ġ begins words of Maltese; ▁ and
# ``</w>`` are in the words of no language.
ONE_IN: Final[dict[Marker, int]] = {"▁": 200, "Ġ": 20, " ": 20, "##": 20, "@@": 20, "</w>": 200}

_SELF: Final = frozenset((*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 256)))
_NUMBERED: Final = [b for b in range(256) if b not in _SELF]
ALPHABET: Final = "".join(
    chr(b) if b in _SELF else chr(256 + _NUMBERED.index(b)) for b in range(256)
)
_CHARMAP: Final = codecs.charmap_build(ALPHABET)


def plain(entry: bytes, marker: Marker | None) -> bytes:
    """An entry without its mark; a byte-level one as the bytes that it stands for.

    What bears no mark stays as it is, and so does, in a byte-level vocabulary, an entry with a
    character that stands for no byte: a token that was added to it.
    """
    if marker is None:
        return entry
    mark = marker.encode()
    if marker == BYTE_LEVEL:
        undone = _bytes_of(entry)
        return entry if undone is None else undone[entry.startswith(mark) :]
    return entry.removeprefix(mark) if marker in PREFIXES else entry.removesuffix(mark)


def plain_strings(stored: ByteStrings, marker: Marker | None) -> ByteStrings:
    """:func:`plain` of every entry; over the same buffer unless the entries are byte-level."""
    if marker is None:
        return stored
    bearing = bear_marker(stored, marker)
    if marker == BYTE_LEVEL:
        known = np.ones(len(stored), np.bool_)

        def undo() -> Iterator[bytes]:
            for number, entry in enumerate(stored):
                undone = _bytes_of(entry)
                known[number] = undone is not None
                yield entry if undone is None else undone

        bytes_ = ByteStrings.of(undo())
        return ByteStrings(bytes_.data, bytes_.starts + (bearing & known), bytes_.ends)
    size = bearing * stored.starts.dtype.type(len(marker.encode()))
    if marker in PREFIXES:
        return ByteStrings(stored.data, stored.starts + size, stored.ends)
    return ByteStrings(stored.data, stored.starts, stored.ends - size)


def bear_marker(stored: ByteStrings, marker: Marker) -> NDArray[np.bool_]:
    """Which entries bear the mark: bool, shape (n,)."""
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
    """The mark of entries whose file does not say: what most of them bear, if that is enough.

    An entry that is nothing but the mark does not count. See :data:`ONE_IN`.
    """
    best: Marker | None = None
    most = 0
    for marker in ONE_IN:
        longer = stored.lengths > len(marker.encode())
        count = int(np.count_nonzero(bear_marker(stored, marker) & longer))
        if count > most:
            best, most = marker, count
    return best if best is not None and most * ONE_IN[best] >= len(stored) else None


def _bytes_of(entry: bytes) -> bytes | None:
    """The bytes that a byte-level entry stands for; ``None`` where a character stands for none."""
    try:
        return codecs.charmap_encode(entry.decode(), "strict", _CHARMAP)[0]
    except UnicodeError:
        return None
