"""Interpret the strings of ONNX operators: which of them are words, and their ids.

Layout: onnx/onnx, docs/Operators-ml.md and docs/Operators.md. The operator Tokenizer is from ONNX
Runtime (microsoft/onnxruntime, docs/ContribOperators.md).

The attributes of onnxruntime-extensions contain whole files as text: ``vocab.txt``, ``vocab.json``
with merges and added tokens, ``tokenizer.json``, a SentencePiece model or an RWKV vocabulary. An
attribute ``map`` has one pair per line: a key, a tab and a value. Layout:
microsoft/onnxruntime-extensions, docs/custom_ops.md, operators/tokenizer and operators/text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import byte_tokens, hf_tokenizer, json_file, sentencepiece, word_list
from vocabtool.formats.reader import MIN_ENTRIES, Finding, PassedOver
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Marker, Place, Unknown, Vocabulary, decode

NOT_FOUND: Final = -1  # default of LabelEncoder, CategoryMapper, WordpieceTokenizer
OF_AN_ID: Final = "an inverse table: it maps ids to entries"
POSITIONS: Final = "the ids are their positions"

Integers = NDArray[np.int64]
NO_INTEGERS: Final[Integers] = np.zeros(0, np.int64)
NO_STRINGS: Final = ByteStrings.of(())


class Values(NamedTuple):
    integer: int | None = None
    strings: ByteStrings = NO_STRINGS
    integers: Integers = NO_INTEGERS


NOTHING: Final = Values()
Attributes = Mapping[bytes, Values]
Texts = Mapping[bytes, bytes]  # the values of a node's string attributes


def list_of_strings(
    entries: ByteStrings, name: str, place: Place, why: str | None = None
) -> Finding:
    """Make a vocabulary from a list of strings whose purpose is unknown.

    Returns a :class:`PassedOver` if the list has fewer than ``MIN_ENTRIES`` strings, or if ``why``
    states a reason to skip it.
    """
    if why is None and len(entries) < MIN_ENTRIES:
        why = f"fewer than {MIN_ENTRIES} strings, not used for look-ups"
    if why is not None:
        return PassedOver(name, len(entries), place, why)
    note = "the purpose of these strings is unknown"
    return Vocabulary(name, "constant", entries, places=(place,), notes=(note,))


def _table(
    name: str,
    place: Place,
    entries: ByteStrings,
    ids: Integers | None = None,
    *,
    note: str = "",
    unknown: Unknown | None = None,
    kind: Kind = "table",
    marker: Marker | None = None,
) -> Vocabulary:
    if ids is not None and len(ids) != len(entries):
        raise InvalidFile(f"{len(entries):,} words, but {len(ids):,} ids")
    notes = (note,) if note else ()
    return Vocabulary.from_ids(
        name, kind, entries, ids, unknown=unknown, places=(place,), notes=notes, marker=marker
    )


def _strings(known: Attributes, *names: bytes) -> ByteStrings:
    found = (known[name].strings for name in names if name in known)
    return next(filter(len, found), NO_STRINGS)


def _integers(known: Attributes, *names: bytes) -> Integers | None:
    found = (known[name].integers for name in names if name in known)
    return next(filter(len, found), None)


def _default(known: Attributes) -> Unknown:
    in_tensor = _integers(known, b"default_tensor")
    if in_tensor is not None:
        return Unknown(int(in_tensor[0]))
    value = known.get(b"default_int64", NOTHING).integer
    return Unknown(NOT_FOUND if value is None else value)


def _label_encoder(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    classes = _strings(known, b"classes_strings")
    if len(classes):  # version 1: ids are positions
        yield _table(name, place, classes, unknown=_default(known))
    words = _strings(known, b"keys_strings", b"keys_tensor")
    numbers = _integers(known, b"keys_int64s", b"keys_tensor")
    labels = _strings(known, b"values_strings", b"values_tensor")
    ids = _integers(known, b"values_int64s", b"values_tensor")
    if len(words) and ids is not None:
        yield _table(name, place, words, ids, unknown=_default(known))
    elif len(words):
        what = "other strings" if len(labels) else "floats"
        yield _table(name, place, words, note=f"a table that maps these to {what}; {POSITIONS}")
    if len(labels) and numbers is not None:
        yield _table(name, place, labels, numbers, note=OF_AN_ID)
    elif len(labels):
        yield list_of_strings(labels, f"{name}.values", place)


def _category_mapper(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    words, ids = _strings(known, b"cats_strings"), _integers(known, b"cats_int64s")
    if len(words):
        yield _table(name, place, words, ids, unknown=_default(known))


def _dict_vectorizer(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    words = _strings(known, b"string_vocabulary", b"cats_strings")
    if len(words):
        yield _table(name, place, words)


def _stop_words(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    words, note = _strings(known, b"stopwords"), "words that are removed from a text"
    if len(words):
        yield _table(f"{name}.stopwords", place, words, note=note, kind="stop words")


def _tfidf_vectorizer(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    # The words of all n-grams, shortest n-grams first; where the n-grams of each length begin;
    # the ids of the n-grams.
    pool = _strings(known, b"pool_strings")
    if not len(pool):
        return
    begins, ids = _integers(known, b"ngram_counts"), _integers(known, b"ngram_indexes")
    if begins is None:
        raise InvalidFile("pool_strings contains n-grams, but ngram_counts is missing")
    used = 0
    bounds = [*begins.tolist(), len(pool)]
    for length, (begin, end) in enumerate(pairwise(bounds), start=1):
        if not 0 <= begin <= end <= len(pool) or (end - begin) % length:
            raise InvalidFile(
                f"ngram_counts: strings {begin} to {end} of pool_strings ({len(pool):,} strings) "
                f"cannot form {length}-grams"
            )
        count = (end - begin) // length
        part = None if ids is None else ids[used : used + count]
        used += count
        words = pool.take(np.arange(begin, end))
        if count and length == 1:
            yield _table(name, place, words, part)
        elif count:
            entries = ByteStrings.of(map(b" ".join, zip(*[iter(words)] * length, strict=True)))
            note = f"each entry is an n-gram: its {length} strings are joined by spaces"
            yield _table(f"{name}.{length}-grams", place, entries, part, note=note)
    if ids is not None and used != len(ids):
        raise InvalidFile(f"{used:,} n-grams, but {len(ids):,} ids")


# Operators, with the attributes that belong together; other lists of strings are read alone.
OPERATORS: Final[
    dict[bytes, tuple[Callable[[Attributes, str, Place], Iterator[Finding]], tuple[bytes, ...]]]
] = {
    b"LabelEncoder": (
        _label_encoder,
        (
            *(b"keys_strings", b"keys_int64s", b"keys_tensor", b"classes_strings"),
            *(b"values_strings", b"values_int64s", b"values_tensor"),
            *(b"default_int64", b"default_tensor"),
        ),
    ),
    b"CategoryMapper": (_category_mapper, (b"cats_strings", b"cats_int64s", b"default_int64")),
    b"DictVectorizer": (_dict_vectorizer, (b"string_vocabulary",)),
    b"OneHotEncoder": (_dict_vectorizer, (b"cats_strings",)),
    b"StringNormalizer": (_stop_words, (b"stopwords",)),
    b"Tokenizer": (_stop_words, (b"stopwords",)),
    b"TfIdfVectorizer": (_tfidf_vectorizer, (b"pool_strings", b"ngram_counts", b"ngram_indexes")),
}


# onnxruntime-extensions.


def _text(texts: Texts, *names: bytes) -> bytes:
    for name in names:
        if name in texts:
            return texts[name]
    raise InvalidFile(f"the attribute {names[0].decode()} with the words is missing")


def _lines(text: bytes) -> ByteStrings:
    lines = word_list.read_lines(text)
    return lines.take(np.flatnonzero(lines.lengths))


def _bert(texts: Texts, name: str, place: Place) -> Vocabulary:
    entries = _lines(_text(texts, b"vocab_file", b"vocab"))
    found = np.flatnonzero(entries.equal_to(texts.get(b"unk_token", b"[UNK]")))
    unknown = Unknown(int(found[-1])) if len(found) else None
    return _table(name, place, entries, unknown=unknown, kind="wordpiece", marker="##")


def _bpe(
    texts: Texts, name: str, place: Place, pre_tokenizer: str = "ByteLevel", **model: str
) -> Vocabulary:
    added = [line.rpartition(b"=") for line in _lines(texts.get(b"added_token", b""))]
    ids = word_list.integers(ByteStrings.of(number for _, _, number in added)).tolist()
    merges = [line for line in _lines(texts.get(b"merges", b"")) if line[:9] != b"#version:"]
    vocab = json_file.parse(_text(texts, b"vocab"))
    document = {
        "model": {"type": "BPE", "vocab": vocab, "merges": merges, **model},
        "pre_tokenizer": {"type": pre_tokenizer},
        "added_tokens": [
            {"content": decode(token), "id": number}
            for (token, _, _), number in zip(added, ids, strict=True)
        ],
    }
    return _tokenizer(document, name, place)


def _wordpiece(texts: Texts, name: str, place: Place) -> Vocabulary:
    prefix = decode(texts.get(b"suffix_indicator", b"##"))
    vocab = json_file.parse(_text(texts, b"vocab"))
    model = {"type": "WordPiece", "vocab": vocab, "continuing_subword_prefix": prefix}
    return replace(_tokenizer({"model": model}, name, place), unknown=Unknown(NOT_FOUND))


def _hf_json(texts: Texts, name: str, place: Place) -> Vocabulary:
    document = json_file.parse(_text(texts, b"tokenizer_vocab"))
    reason = hf_tokenizer.recognise(document)
    if reason is not None:
        raise InvalidFile(f"tokenizer_vocab is not a tokenizer.json: {reason}")
    return _tokenizer(document, name, place)


def _tokenizer(document: Any, name: str, place: Place) -> Vocabulary:
    return replace(hf_tokenizer.vocabulary(document, name), places=(place,))


def _bpe_decoder(texts: Texts, name: str, place: Place) -> Vocabulary:
    entries = dict(enumerate(word_list.read_lines(_text(texts, b"id_vocab"))))
    numbers, tokens = _columns(_pairs(texts.get(b"added_tokens", b"")))
    entries |= zip(word_list.integers(numbers).tolist(), tokens, strict=True)
    ids = np.fromiter(entries, np.int64, len(entries))
    stored = ByteStrings.of(entries.values())
    return _table(name, place, stored, ids, note=OF_AN_ID, kind="bpe", marker="Ġ")


def _pairs(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    for number, line in enumerate(text.split(b"\n"), start=1):
        columns = list(filter(None, line.split(b"\t")))
        if len(columns) == 2:
            yield columns[0], columns[1]
        elif line:
            got = f"{len(columns)} columns: {line[:40]!r}"
            raise InvalidFile(f"line {number:,} has {got}, wanted a key, a tab and a value")


def _columns(pairs: Iterable[tuple[bytes, bytes]]) -> tuple[ByteStrings, ByteStrings]:
    found = dict(pairs)
    return ByteStrings.of(found), ByteStrings.of(found.values())


def _string_mapping(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    keys, values = _columns(_pairs(_text(texts, b"map")))
    yield _table(name, place, keys, note=f"a table that maps these to other strings; {POSITIONS}")
    yield list_of_strings(values, f"{name}.values", place)


def _vector_mapping(texts: Texts, name: str, place: Place, inverse: bool) -> Vocabulary:
    """Read a table of words and vectors. If a vector is a single number, it is the word's id.

    ``inverse``: whether the table maps vectors to words.
    """
    pairs = _pairs(_text(texts, b"map"))
    if inverse:
        vectors, words = _columns((vector, word) for word, vector in pairs)
    else:
        words, vectors = _columns(pairs)
    # as in the library, the first vector sets the length of all
    size = len(vectors[0].split()) if len(vectors) else 0
    if size != 1:
        vector = f"vectors of {size:,} numbers"
        maps = f"{vector} to these" if inverse else f"these to {vector}"
        return _table(name, place, words, note=f"a table that maps {maps}; {POSITIONS}")
    ids = word_list.integers(vectors)
    if inverse:
        return _table(name, place, words, ids, note=OF_AN_ID)
    unknown = int(word_list.integers(ByteStrings.of([_text(texts, b"unk")]))[0])
    return _table(name, place, words, ids, unknown=Unknown(unknown))


def _sentencepiece(texts: Texts, name: str, place: Place) -> Vocabulary:
    return sentencepiece.vocabulary(_text(texts, b"model"), name, place)


def _rwkv(texts: Texts, name: str, place: Place) -> Vocabulary:
    return byte_tokens.rwkv_vocabulary(_text(texts, b"vocab"), name, place)


EXTENSIONS: Final[dict[bytes, Callable[[Texts, str, Place], Vocabulary | Iterator[Finding]]]] = {
    **dict.fromkeys((b"BertTokenizer", b"HfBertTokenizer", b"BertTokenizerDecoder"), _bert),
    **dict.fromkeys((b"GPT2Tokenizer", b"RobertaTokenizer"), _bpe),
    b"CLIPTokenizer": partial(_bpe, end_of_word_suffix="</w>"),
    b"SpmTokenizer": partial(_bpe, pre_tokenizer="Metaspace"),
    b"WordpieceTokenizer": _wordpiece,
    b"HfJsonTokenizer": _hf_json,
    b"BpeDecoder": _bpe_decoder,
    **dict.fromkeys((b"SentencepieceTokenizer", b"SentencepieceDecoder"), _sentencepiece),
    **dict.fromkeys((b"TrieTokenizer", b"TrieDetokenizer"), _rwkv),
    b"StringMapping": _string_mapping,
    b"StringToVector": partial(_vector_mapping, inverse=False),
    b"VectorToString": partial(_vector_mapping, inverse=True),
}
