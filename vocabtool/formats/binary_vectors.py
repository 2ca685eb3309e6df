"""Read binary files of word vectors: of word2vec, NumPy, fastText and spaCy.

word2vec: a header line ``n dim``, then ``n`` records. A record is a word, a space and ``dim``
little-endian 32-bit floats. word2vec.c (tmikolov/word2vec) ends each record with a newline; gensim
does not.

NumPy: an ``.npz`` archive (a zip) with the arrays ``words`` (text) and ``vectors``, or an ``.npy``
file and a ``.txt`` file of the same name, which has one word per line. ``vocabtool train`` also
writes the array ``rule``, which says how the training texts were split into words. ``files.py``
reads arrays.

fastText (``.bin``, quantised ``.ftz``): facebookresearch/fastText, src/fasttext.cc (signModel,
saveModel), src/args.cc, src/dictionary.cc. The parts of a file, all little-endian:

- a magic number and a version (int32)
- settings: 12 int32 and a double
- the number of entries, the number of words and the number of labels (int32)
- the number of tokens and the number of pruned n-grams (int64; -1: not pruned)
- the entries: a text, a NUL, a count (int64) and a type (int8; 0: word, 1: label)
- matrices, which are not read, because the vector of a word is the mean of several rows
"""

from __future__ import annotations

import io
import re
import struct
import sys
import zipfile
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import MAX_DIM, NAMED
from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats import files, json_file, word_list
from vocabtool.formats.files import NUMPY_MAGIC, FloatMap, map_file, open_array, read_array_head
from vocabtool.formats.reader import Findings, PassedOver, Reader, Source
from vocabtool.formats.wire import Buffer
from vocabtool.formats.zip_archive import ZIP, ZipArchive
from vocabtool.system.byte_strings import CHUNK, ByteStrings
from vocabtool.vocabulary import STILL_A_VECTOR, Place, Vocabulary, decode

HEADER: Final = re.compile(rb"([0-9]{1,18}) ([0-9]{1,9}) ?\r?\n")  # numbers of words and dimensions


@dataclass(frozen=True, slots=True)
class VectorFile:
    """The words of a file and their vectors, which are read on request.

    ``data``: an array of floats, shape (n, dim), or the bytes of the file. Of bytes, ``starts`` has
    the position of each vector (int64, shape (n,)), and ``parse(data, starts[i], dim)`` reads
    vector ``i``.
    """

    words: Vocabulary
    dim: int
    data: NDArray[np.floating[Any]] | Buffer
    starts: NDArray[np.int64] | None = None
    parse: Callable[[Buffer, int, int], NDArray[np.float32]] | None = None

    def take(self, positions: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return a copy of the vectors at ``positions``: float32, shape (k, dim).

        The positions are not checked. Raises :class:`InvalidFile` for a value that is not a number.
        """
        if self.parse is None or self.starts is None or isinstance(self.data, np.ndarray):
            with np.errstate(over="ignore"):
                return np.asarray(self.data)[positions].astype(np.float32)
        rows = np.empty((len(positions), self.dim), np.float32)
        for row, start in zip(rows, self.starts[positions].tolist(), strict=True):
            row[:] = self.parse(self.data, start, self.dim)
        return rows


# word2vec.

WINDOW: Final = 1 << 18  # bytes read at a time
MAX_WORD: Final = 1 << 16  # bytes of a word, in a file of any format; word2vec truncates to 100
FLOAT: Final = 4  # bytes
NUMBER_TEXT: Final = re.compile(rb"[0-9+\-.eEnaifNAIF \r\n]*")  # characters of numbers as text
NOT_TEXT: Final = re.compile(rb"[\x00-\x08\x0e-\x1f]")  # in floats, about every tenth byte


def _recognise_word2vec(source: Source) -> str | None:
    header = HEADER.match(source.head)
    if header is None:
        return "its first line is not two integers (numbers of words and dimensions)"
    blank = source.head.find(b" ", header.end(), header.end() + MAX_WORD)
    if blank < 0:
        return "no space after a first word follows its header line"
    vector = source.head[blank + 1 : blank + 1 + FLOAT * int(header[2])]
    if not vector:
        return "it ends after its first word"
    # The header line alone proves nothing: a list of phrases may begin with two numbers, too.
    if NUMBER_TEXT.fullmatch(vector):
        return "numbers as text follow its first word"
    return None if NOT_TEXT.search(source.head) else "text follows its header line"


def open_word2vec(source: Source) -> VectorFile:
    header = HEADER.match(source.head)
    if header is None:
        raise InvalidFile("not word2vec's binary format: no header line", offset=0)
    promised, dim, start = int(header[1]), int(header[2]), header.end()
    least = start + promised * (1 + FLOAT * dim)
    if not 0 < dim <= MAX_DIM or not promised or least > source.size:
        what = f"{promised:,} vectors of {dim:,} dimensions, wanted at least 1 of 1 to {MAX_DIM:,}"
        raise InvalidFile(
            f"the header states {what}, in {least:,} of {source.size:,} bytes", offset=0
        )
    starts = array("q")
    with source.file.open("rb") as file:
        file.seek(start)
        words = ByteStrings.of(_words(file, promised, dim, starts))
    if len(words) > 1 and words.data:  # newlines after the vectors are not part of words
        begins, ends = words.starts.copy(), words.ends
        newline = np.frombuffer(words.data, np.uint8).take(begins[1:], mode="clip") == ord("\n")
        if bool((newline & (ends[1:] > begins[1:])).all()):
            begins[1:] += 1
            words = ByteStrings(words.data, begins, ends)
    places, notes = (Place(source.name, "before each vector"),), (f"{dim:,} dimensions",)
    vocabulary = Vocabulary("words", "vectors", words, places=places, notes=notes)
    at = np.frombuffer(starts, np.int64)
    return VectorFile(
        vocabulary,
        dim,
        map_file(source.file),
        at,
        lambda buffer, start, dim: np.frombuffer(buffer, "<f4", dim, start),
    )


def _words(file: BinaryIO, promised: int, dim: int, starts: array[int]) -> Iterator[bytes]:
    """Yield ``promised`` words; append the position of each vector to ``starts``.

    If each record ends with a newline, all words except the first begin with a newline.
    """
    row = FLOAT * dim
    window, at, pos = b"", file.tell(), 0  # ``at``: position of the window in the file
    for number in range(promised):
        blank = window.find(b" ", pos, pos + MAX_WORD)
        if blank < 0 or blank + 1 + row > len(window):
            window = window[pos:] + file.read(WINDOW + MAX_WORD + row)
            at, pos = at + pos, 0
            blank = window.find(b" ", 0, MAX_WORD)
        if blank < 0:
            what = f"word {number + 1:,} of {promised:,} does not end within {MAX_WORD:,} bytes"
            raise InvalidFile(what, offset=at + pos)
        if blank + 1 + row > len(window):
            what = f"vector {number + 1:,} of {promised:,} is truncated: download the file again"
            raise InvalidFile(what, offset=at + pos)
        yield window[pos:blank]
        starts.append(at + blank + 1)
        pos = blank + 1 + row
    rest = window[pos:] + file.read(1)
    if rest not in (b"", b"\n"):
        behind = file.seek(0, 2) - at - pos
        what = f"the header states {promised:,} vectors, but {behind:,} more bytes follow them"
        raise InvalidFile(what, offset=at + pos)


WORD2VEC: Final = Reader(
    "word2vec binary", _recognise_word2vec, lambda source: Findings([open_word2vec(source).words])
)


# NumPy.

WORDS: Final = "words.npy"  # as ``numpy.savez(FILE, words=..., vectors=...)`` names them
VECTORS: Final = "vectors.npy"
RULE: Final = "rule.npy"
MAX_RULE: Final = 4_096  # characters
RULES: Final = f"{', '.join(NAMED)} or regex:PATTERN (at most {MAX_RULE:,} characters)"
LOCAL_HEADER: Final = 30  # bytes, then a name and an extra field (PKWARE's APPNOTE.TXT, 4.3.7)


def _recognise_numpy(source: Source) -> str | None:
    if source.head.startswith(NUMPY_MAGIC):
        beside = source.file.with_suffix(".txt")
        return None if beside.is_file() else "no .txt file with its words beside it"
    if not source.head.startswith(ZIP):
        return "it begins neither like a NumPy array nor like a zip archive"
    try:
        with ZipArchive(source.file) as archive:
            missing = {WORDS, VECTORS} - set(archive.names)
    except VocabtoolError as error:
        return str(error)
    return f"an archive without {' and '.join(sorted(missing))}" if missing else None


def open_numpy(source: Source, words: Path | None = None) -> VectorFile:
    """Open a NumPy file; its vectors are a memory map. ``words``: see :meth:`WordVectors.open`."""
    file, notes, rule = source.file, list[str](), None
    if source.head.startswith(NUMPY_MAGIC):
        vectors = open_array(file)
        words = words or file.with_suffix(".txt")
        if not words.is_file():
            what = f"it must contain the words of {file.name}, one per line"
            raise NotFound(f"{words}: no such file; {what}")
        with reading(str(words)):
            what = "{1:,} bytes of words, wanted at most {0:,}"
            lines = files.read_file(words, word_list.MAX_FILE, what)
        stored, place = word_list.read_lines(lines), Place(words.name, "whole lines")
        notes = word_list.note_escaped(stored)
    else:
        with ZipArchive(file) as archive:
            if not {WORDS, VECTORS} <= set(archive.names):
                what = "a zip archive without the arrays `words` and `vectors`"
                raise UnsupportedFormat(f"{what}: save both with `numpy.savez`")
            stored = ByteStrings.of(_array_words(archive.read(WORDS)))
            if RULE in archive.names:
                rules = list(map(decode, _array_words(archive.read(RULE))))
                rule = rules[0] if len(rules) == 1 else ""
                if not may_state(rule):
                    what = f"got {len(rules):,}: {rule[:80]!r}"
                    raise InvalidFile(f"{RULE}: wanted one rule: {RULES}; {what}")
                notes.append(f"rule: {rule}")
        place, vectors = Place(file.name, WORDS), _open_vectors(file)
    count, dim = vectors.shape
    if len(stored) != count:
        raise InvalidFile(f"{count:,} vectors, but {len(stored):,} words in {place.file}")
    all_notes = (f"{dim:,} dimensions", *notes)
    listed = Vocabulary("words", "vectors", stored, places=(place,), notes=all_notes, rule=rule)
    return VectorFile(listed, dim, vectors)


def _open_vectors(file: Path) -> FloatMap:
    """Memory-map the array ``vectors`` inside an ``.npz`` archive."""
    with zipfile.ZipFile(file) as zipped:
        member = zipped.getinfo(VECTORS)
    if member.compress_type != zipfile.ZIP_STORED:
        what = f"{VECTORS} is compressed, so it cannot be memory-mapped: use `numpy.savez`"
        raise UnsupportedFormat(what)
    with file.open("rb") as opened:
        opened.seek(member.header_offset)
        local = opened.read(LOCAL_HEADER)
    if len(local) < LOCAL_HEADER or not local.startswith(ZIP):
        raise InvalidFile(f"the archive's directory has a wrong position for {VECTORS}")
    names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    start = member.header_offset + LOCAL_HEADER + names
    return open_array(file, start, start + member.file_size)


def _array_words(data: bytes) -> Iterator[bytes]:
    head = read_array_head(io.BytesIO(data))
    if len(head.shape) != 1 or head.dtype.kind not in "US" or not head.dtype.itemsize:
        what = f"words of type {head.dtype} and shape {head.shape}"
        raise UnsupportedFormat(f"{what}, wanted text in one dimension")
    if len(data) - head.start != head.size:
        there = len(data) - head.start
        raise InvalidFile(f"the array of words needs {head.size:,} bytes, got {there:,}")
    words = np.frombuffer(data, head.dtype, offset=head.start)
    if head.dtype.kind == "U":
        codes = words.view(f"{head.dtype.byteorder}u4")
        if codes.max(initial=0) > sys.maxunicode:
            raise InvalidFile(f"a word is not Unicode: a character above {sys.maxunicode:#x}")
    try:
        for at in range(0, len(words), CHUNK):
            for word in words[at : at + CHUNK].tolist():
                yield word if isinstance(word, bytes) else word.encode("utf-8", "surrogateescape")
    except ValueError as error:
        raise InvalidFile(f"a word is not Unicode: {error}") from error


def may_state(rule: str) -> bool:
    """Return whether a file of vectors may state a rule: one of whole words that opens no file."""
    return rule in NAMED or (rule.startswith("regex:") and len(rule) <= MAX_RULE)


NUMPY: Final = Reader(
    "word vectors as NumPy arrays (.npz, or .npy beside a .txt)",
    _recognise_numpy,
    lambda source: Findings([open_numpy(source).words]),
)


# fastText.

FASTTEXT_MAGIC: Final = struct.pack("<i", 793712314)
# magic, version; dim, ws, epoch, minCount, neg, wordNgrams, loss, model, bucket, minn, maxn,
# lrUpdateRate; t; size, words, labels; tokens, pruned
HEAD: Final = struct.Struct("<2i 12i d 3i 2q")
SUPERVISED: Final = 3  # a model that assigns labels
BEHIND: Final = struct.Struct("<qb")  # an entry's count and type
MATRIX: Final = struct.Struct("<?2q")  # whether it is quantised, rows, columns


def _read_fasttext(source: Source) -> Findings:
    buffer = map_file(source.file)
    if len(buffer) < HEAD.size:
        what = f"the file has {len(buffer):,} bytes, but fastText's header alone has {HEAD.size}"
        raise InvalidFile(what, offset=0)
    _, version, *settings, _, size, words, labels, _, pruned = HEAD.unpack_from(buffer)
    if version not in (11, 12):
        what = f"a fastText model of version {version}, wanted 11 or 12: save its vectors as text"
        raise UnsupportedFormat(what)
    dim, model, minn, maxn = settings[0], settings[7], settings[9], settings[10]
    least = (1 + BEHIND.size) * size + 8 * max(pruned, 0)
    counts_fit = min(words, labels) >= 0 and words + labels == size > 0
    settings_fit = 0 < dim <= MAX_DIM and max(minn, maxn) <= MAX_DIM and pruned >= -1
    if not counts_fit or not settings_fit or HEAD.size + least > len(buffer):
        what = f"{size:,} entries ({words:,} words, {labels:,} labels), {dim:,} dimensions, n-grams"
        what += f" of {minn:,} to {maxn:,} characters and {pruned:,} pruned n-grams"
        what += f", which a file of {len(buffer):,} bytes cannot contain: download it again"
        raise InvalidFile(f"the header states {what}", offset=8)
    notes = [f"{dim:,} dimensions", "no subwords: an out-of-vocabulary word gets no vector"]
    # Such a model of version 11 has no subwords, whatever its maxn.
    if maxn > 0 and not (version == 11 and model == SUPERVISED):
        notes[1] = f"{STILL_A_VECTOR}, from its n-grams of {minn} to {maxn} characters"
    if pruned >= 0:
        notes.append(f"pruned by quantisation to {pruned:,} n-grams; some words were removed too")
    places = (Place(source.name, "dictionary"),)
    entries, behind = _entries(buffer, HEAD.size, 0, words)
    vocabularies = [Vocabulary("words", "vectors", entries, places=places, notes=tuple(notes))]
    entries, behind = _entries(buffer, behind, 1, labels)
    if labels:
        note = ("these are labels that the model assigns to texts",)
        vocabularies.append(Vocabulary("labels", "list", entries, places=places, notes=note))
    position = behind + 8 * max(pruned, 0)
    if position + MATRIX.size <= len(buffer) and buffer[position] in (0, 1):
        quantised, rows, columns = MATRIX.unpack_from(buffer, position)
        left = len(buffer) - position - MATRIX.size
        if quantised or (columns == dim and 0 <= 4 * rows * columns <= left):
            return Findings([*vocabularies])
    damaged = "the vectors after the dictionary are damaged or truncated; its words are complete"
    return Findings([*vocabularies], [damaged])


FASTTEXT: Final = Reader(
    "fastText model",
    lambda source: (
        None if source.head.startswith(FASTTEXT_MAGIC) else "no magic number of fastText"
    ),
    _read_fasttext,
)


def _entries(buffer: Buffer, start: int, wanted: int, count: int) -> tuple[ByteStrings, int]:
    """Read ``count`` entries of the type ``wanted``; also return the position behind them."""
    data, ends = bytearray(), array("q")
    for _ in range(count):
        end = buffer.find(b"\0", start, start + MAX_WORD)
        behind = end + 1 + BEHIND.size
        if end < 0 or behind > len(buffer):
            what = f"an entry of the dictionary is truncated or longer than {MAX_WORD:,} bytes"
            raise InvalidFile(what, offset=start)
        _, kind = BEHIND.unpack_from(buffer, end + 1)
        if kind != wanted:
            what = (
                f"an entry of type {kind}, wanted {wanted}: all words (type 0) precede all labels "
                "(type 1)"
            )
            raise InvalidFile(what, offset=behind - 1)
        data += buffer[start:end]
        ends.append(len(data))
        start = behind
    return ByteStrings.contiguous(bytes(data), np.frombuffer(ends, np.int64)), start


# spaCy: the folder ``vocab`` of a pipeline (explosion/spaCy, spacy/vocab.pyx and vectors.pyx).

STRINGS: Final = "strings.json"  # all strings of the pipeline, including labels and shapes of words
KEYS: Final = "key2row"  # a MessagePack map from keys (hashes of words) to rows, perhaps shared
SETTINGS: Final = "vectors.cfg"
FLORET: Final = (
    "floret vectors, whose rows belong to parts of words: no word is unknown, and no list of words "
    "is stored; use them with spaCy"
)
MULTIPLIER: Final = np.uint64(0xC6A4_A793_5BD1_E995)
SHIFT: Final = np.uint64(47)
BLOCK: Final = 8  # bytes hashed at a time
# Features and labels of spaCy, which have numbers instead of hashes and are not in
# ``strings.json`` (spacy/symbols.pyx). Many are words, too.
FEATURES: Final = """ID ORTH LOWER NORM SHAPE PREFIX SUFFIX LENGTH CLUSTER LEMMA POS TAG DEP
ENT_IOB ENT_TYPE HEAD SENT_START SPACY PROB LANG ADJ ADP ADV AUX CONJ CCONJ DET INTJ NOUN NUM PART
PRON PROPN PUNCT SCONJ SYM VERB X EOL SPACE"""
LABELS: Final = """PERSON NORP FACILITY ORG GPE LOC PRODUCT EVENT WORK_OF_ART LANGUAGE LAW DATE
TIME PERCENT MONEY QUANTITY ORDINAL CARDINAL acomp advcl advmod agent amod appos attr aux auxpass
cc ccomp complm conj cop csubj csubjpass dep det dobj expl hmod hyph infmod intj iobj mark meta
neg nmod nn npadvmod nsubj nsubjpass num number oprd obj obl parataxis partmod pcomp pobj poss
possessive preconj prep prt punct quantmod relcl rcmod root xcomp acl ENT_KB_ID MORPH ENT_ID IDX
_"""
SYMBOLS: Final = {
    0: b"",
    **dict(enumerate(FEATURES.encode().split(), 64)),
    **dict(enumerate(LABELS.encode().split(), 380)),
}


def read_spacy(folder: Path) -> Findings | None:
    """Read the words of a pipeline, or of its ``vocab`` folder; ``None`` for any other folder.

    If the vectors cannot be read, the result has a warning, and all strings instead of the words.
    Raises :class:`UnsupportedFormat` for floret vectors.
    """
    within = "vocab/" if (folder / "vocab" / STRINGS).is_file() else ""
    vocab = folder / within
    if not within and not ((vocab / STRINGS).is_file() and (vocab / KEYS).is_file()):
        return None
    with reading(within + STRINGS):
        document = json_file.parse(files.read_linkless(vocab / STRINGS, within + STRINGS))
        reason = json_file.why_no_texts(document)
        if reason and document != []:
            raise InvalidFile(reason)
        strings = json_file.strings(document, "text")
    if (vocab / SETTINGS).is_file():
        with reading(within + SETTINGS):
            settings = json_file.parse(files.read_linkless(vocab / SETTINGS, within + SETTINGS))
            if json_file.expect(settings, dict, SETTINGS).get("mode") == "floret":
                raise UnsupportedFormat(FLORET)
    place = Place(within + STRINGS, "whole list")
    pipes = [path.name for path in sorted(folder.glob("*transformer")) if path.is_dir()]
    findings = Findings(format="spaCy vocab")
    findings.warnings += (f"{pipe}/: the pieces of its tokenizer are not read" for pipe in pipes)
    if (vocab / KEYS).is_file():
        with findings.warning(effect="the words with vectors are not read"):
            words = _words_with_vectors(strings, vocab, within)
            if words is not None:
                why = "all strings of the pipeline, including labels and shapes of words"
                findings.lists += [words, PassedOver(STRINGS, len(strings), place, why)]
    if not findings.lists:
        notes = (json_file.POSITIONS,)
        findings.lists.append(Vocabulary(STRINGS, "list", strings, places=(place,), notes=notes))
    return findings


def _words_with_vectors(strings: ByteStrings, vocab: Path, within: str) -> Vocabulary | None:
    """Return the words that have a vector; ``None`` if none has. ``within``: before file names."""
    with reading(within + KEYS):
        row_of = _integer_map(files.read_linkless(vocab / KEYS, within + KEYS))
    if not row_of:
        return None
    with reading(within + "vectors"):
        files.refuse_link(vocab / "vectors")
        with (vocab / "vectors").open("rb") as file:
            shape = read_array_head(file).shape
    last = max(row_of.values())
    if len(shape) != 2 or last >= shape[0]:
        what = f"{KEYS} needs row {last:,}, but the array has shape {shape}"
        raise InvalidFile(what, file=within + KEYS)
    word_of = {**dict(zip(_hashes(strings).tolist(), strings, strict=True)), **SYMBOLS}
    keys = [key for key in row_of if key in word_of]
    notes = [f"{shape[1]:,} dimensions; the id of a word is the row of its vector"]
    missing = len(row_of) - len(keys)
    if missing:
        notes.append(f"{missing:,} vectors belong to words that are not in {STRINGS}")
    return Vocabulary.from_ids(
        "words",
        "vectors",
        ByteStrings.of(word_of[key] for key in keys),
        np.array([row_of[key] for key in keys], np.int64),
        places=(Place(within + KEYS, "words with a vector"),),
        notes=tuple(notes),
    )


def _hashes(strings: ByteStrings) -> NDArray[np.uint64]:
    """Return spaCy's key of each string, MurmurHash64A (Austin Appleby): uint64, shape (n,).

    Keys of strings longer than ``MAX_WORD`` bytes are wrong: only the beginning is hashed.
    """
    windows = np.lib.stride_tricks.sliding_window_view(
        np.frombuffer(strings.data + bytes(BLOCK), np.uint8), BLOCK
    )

    def read_block(positions: NDArray[np.int64]) -> NDArray[np.uint64]:
        numbers: NDArray[np.uint64] = windows[positions].view("<u8").ravel()
        return numbers

    starts, lengths = strings.starts.astype(np.int64), strings.lengths.astype(np.int64)
    keys = np.uint64(1) ^ (lengths.astype(np.uint64) * MULTIPLIER)
    longer = np.arange(len(strings))  # the strings that have another whole block
    for block in range(min(int(lengths.max(initial=0)), MAX_WORD) // BLOCK):
        longer = longer[lengths[longer] >= (block + 1) * BLOCK]
        mixed = read_block(starts[longer] + block * BLOCK) * MULTIPLIER
        keys[longer] = (keys[longer] ^ (mixed ^ (mixed >> SHIFT)) * MULTIPLIER) * MULTIPLIER
    with_rest = np.flatnonzero(lengths % BLOCK)
    unused = ((BLOCK - lengths[with_rest] % BLOCK) * 8).astype(np.uint64)  # bits of the last block
    rest = starts[with_rest] + lengths[with_rest] // BLOCK * BLOCK
    keys[with_rest] = (keys[with_rest] ^ (read_block(rest) << unused >> unused)) * MULTIPLIER
    keys = (keys ^ (keys >> SHIFT)) * MULTIPLIER
    return np.asarray(keys ^ (keys >> SHIFT), np.uint64)


def _integer_map(data: bytes) -> dict[int, int]:
    """Parse a MessagePack map of non-negative integers (msgpack/msgpack, spec.md)."""
    width = {0xDE: 2, 0xDF: 4}.get(data[0], 0) if data else 0
    if not width and (not data or data[0] & 0xF0 != 0x80):
        raise InvalidFile(f"it begins with {data[:1].hex()}, wanted a MessagePack map", offset=0)
    pos = 1 + width
    count = 2 * (int.from_bytes(data[1:pos]) if width else data[0] & 0x0F)
    if count > len(data) - pos:
        raise InvalidFile(f"{count:,} numbers do not fit in {len(data):,} bytes", offset=0)
    sizes, values = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}, []
    for _ in range(count):
        kind = data[pos] if pos < len(data) else 0xFF
        end = pos + 1 + sizes.get(kind, 0)
        if (kind not in sizes and kind >= 0x80) or end > len(data):
            raise InvalidFile("wanted a non-negative integer as a key or row", offset=pos)
        values.append(int.from_bytes(data[pos + 1 : end]) if kind in sizes else kind)
        pos = end
    if pos != len(data):
        raise InvalidFile(f"{len(data) - pos:,} bytes follow the map", offset=pos)
    return dict(zip(values[::2], values[1::2], strict=True))
