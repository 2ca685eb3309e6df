"""What ONNX operators do with the strings that they hold: which are words, which ids.

Layout: onnx/onnx, docs/Operators-ml.md and docs/Operators.md; Tokenizer is ONNX Runtime's
(microsoft/onnxruntime, docs/ContribOperators.md). Operators of onnxruntime-extensions
(microsoft/onnxruntime-extensions, docs/custom_ops.md, operators/tokenizer and operators/text) hold
whole files of words as text: ``vocab.txt``, ``vocab.json`` with merges and added tokens,
``tokenizer.json``, a SentencePiece model or RWKV's lines; mappings hold lines of a key, a tab and a
value. Where nodes and their attributes lie is for ``onnx.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile
from vocabtool.formats import byte_tokens, hf_tokenizer, json_file, sentencepiece, word_list
from vocabtool.formats.reader import MIN_ENTRIES, Finding, PassedOver
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Place, Unknown, Vocabulary, decode

NOT_FOUND: Final = -1  # what LabelEncoder, CategoryMapper and WordpieceTokenizer give by default
BERT_UNKNOWN: Final = b"[UNK]"  # the attribute's default
OF_AN_ID: Final = ("gives the entry of an id",)
POSITIONS: Final = "the ids are their positions"

Integers = NDArray[np.int64]
NO_INTEGERS: Final[Integers] = np.zeros(0, np.int64)
NO_STRINGS: Final = ByteStrings.of(())


@dataclass(frozen=True, slots=True)
class Values:
    """What an attribute of a node holds."""

    integer: int | None
    strings: ByteStrings
    integers: Integers


Attributes = Mapping[bytes, Values]
Texts = Mapping[bytes, bytes]  # the values of a node's string attributes


def list_of_strings(
    entries: ByteStrings, name: str, place: Place, why: str | None = None
) -> Finding:
    """Strings of which nothing says what they are for; ``why``: they are no words."""
    if why is None and len(entries) < MIN_ENTRIES:
        why = f"fewer than {MIN_ENTRIES} strings that no operator looks words up in"
    if why is not None:
        return PassedOver(name, len(entries), place, why)
    note = "nothing says what these strings are for"
    return Vocabulary(name, "constant", entries, places=(place,), notes=(note,))


def table(
    name: str,
    place: Place,
    entries: ByteStrings,
    ids: Integers | None = None,
    *,
    unknown: Unknown | None = None,
    notes: tuple[str, ...] = (),
    kind: Kind = "table",
) -> Vocabulary:
    """Words and their ids. Raises :class:`InvalidFile` where there are not as many of each."""
    if ids is not None and len(ids) != len(entries):
        raise InvalidFile(f"{len(entries):,} words, but {len(ids):,} ids")
    return Vocabulary.from_ids(
        name, kind, entries, ids, unknown=unknown, places=(place,), notes=notes
    )


def _strings(known: Attributes, *names: bytes) -> ByteStrings:
    found = (known[name].strings for name in names if name in known and len(known[name].strings))
    return next(found, NO_STRINGS)


def _integers(known: Attributes, *names: bytes) -> Integers | None:
    found = (known[name].integers for name in names if name in known and len(known[name].integers))
    return next(found, None)


def _default(known: Attributes) -> Unknown:
    """The id of words that are not found: an attribute's, else the operator's own default."""
    in_tensor = _integers(known, b"default_tensor")
    if in_tensor is not None:
        return Unknown(int(in_tensor[0]))
    value = known[b"default_int64"].integer if b"default_int64" in known else None
    return Unknown(NOT_FOUND if value is None else value)


def _label_encoder(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    """Words to ids, ids to words, or words to something else."""
    classes = _strings(known, b"classes_strings")
    if len(classes):  # version 1: ids are positions
        yield table(name, place, classes, unknown=_default(known))
    words = _strings(known, b"keys_strings", b"keys_tensor")
    numbers = _integers(known, b"keys_int64s", b"keys_tensor")
    labels = _strings(known, b"values_strings", b"values_tensor")
    ids = _integers(known, b"values_int64s", b"values_tensor")
    if len(words) and ids is not None:
        yield table(name, place, words, ids, unknown=_default(known))
    elif len(words):
        what = "other strings" if len(labels) else "numbers that are not whole"
        note = f"gives {what} for these; {POSITIONS}"
        yield table(name, place, words, notes=(note,))
    if len(labels) and numbers is not None:
        yield table(name, place, labels, numbers, notes=OF_AN_ID)
    elif len(labels):
        yield list_of_strings(labels, f"{name}.values", place)


def _category_mapper(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    words, ids = _strings(known, b"cats_strings"), _integers(known, b"cats_int64s")
    if len(words):
        yield table(name, place, words, ids, unknown=_default(known))


def _dict_vectorizer(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    words = _strings(known, b"string_vocabulary", b"cats_strings")
    if len(words):
        yield table(name, place, words)


def _stop_words(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    words = _strings(known, b"stopwords")
    if len(words):
        note = "words that are dropped from a text"
        yield table(f"{name}.stopwords", place, words, notes=(note,), kind="stop words")


def _tfidf_vectorizer(known: Attributes, name: str, place: Place) -> Iterator[Finding]:
    """One vocabulary for each length of n-gram: a pool holds the words of one after the other.

    ``ngram_counts`` says where in the pool the n-grams of each length begin, ``ngram_indexes``
    which id each n-gram has.
    """
    pool = _strings(known, b"pool_strings")
    if not len(pool):
        return
    begins, ids = _integers(known, b"ngram_counts"), _integers(known, b"ngram_indexes")
    if begins is None:
        raise InvalidFile("a pool of n-grams without ngram_counts")
    used = 0
    bounds = [*begins.tolist(), len(pool)]
    for length, (begin, end) in enumerate(pairwise(bounds), start=1):
        if not 0 <= begin <= end <= len(pool) or (end - begin) % length:
            raise InvalidFile(f"the {length}-grams are said to lie at {begin} to {end} of the pool")
        count = (end - begin) // length
        part = None if ids is None else ids[used : used + count]
        used += count
        if count:
            words = pool.take(np.arange(begin, end))
            yield _ngrams(words, part, length, name, place)
    if ids is not None and used != len(ids):
        raise InvalidFile(f"{used:,} n-grams, but {len(ids):,} ids")


def _ngrams(
    words: ByteStrings, ids: Integers | None, length: int, name: str, place: Place
) -> Vocabulary:
    if length == 1:
        return table(name, place, words, ids)
    parts = iter(words)
    entries = ByteStrings.of(map(b" ".join, zip(*[parts] * length, strict=True)))
    note = f"each entry is {length} strings of the file, joined by a blank"
    return table(f"{name}.{length}-grams", place, entries, ids, notes=(note,))


OPERATORS: Final[dict[bytes, Callable[[Attributes, str, Place], Iterator[Finding]]]] = {
    b"LabelEncoder": _label_encoder,
    b"CategoryMapper": _category_mapper,
    b"DictVectorizer": _dict_vectorizer,
    b"OneHotEncoder": _dict_vectorizer,
    b"StringNormalizer": _stop_words,
    b"Tokenizer": _stop_words,
    b"TfIdfVectorizer": _tfidf_vectorizer,
}

_MAPS: Final = frozenset(
    side + kind for side in (b"keys_", b"values_") for kind in (b"strings", b"int64s", b"tensor")
)
# The attributes that are read together; any other list of strings stands for itself.
WANTED: Final[dict[bytes, frozenset[bytes]]] = {
    b"LabelEncoder": _MAPS | {b"classes_strings", b"default_int64", b"default_tensor"},
    b"CategoryMapper": frozenset((b"cats_strings", b"cats_int64s", b"default_int64")),
    b"DictVectorizer": frozenset((b"string_vocabulary",)),
    b"OneHotEncoder": frozenset((b"cats_strings",)),
    b"StringNormalizer": frozenset((b"stopwords",)),
    b"Tokenizer": frozenset((b"stopwords",)),
    b"TfIdfVectorizer": frozenset((b"pool_strings", b"ngram_counts", b"ngram_indexes")),
}


def _text(texts: Texts, *names: bytes) -> bytes:
    """The first of these attributes that is there."""
    for name in names:
        if name in texts:
            return texts[name]
    raise InvalidFile(f"no attribute {names[0].decode()}, wanted the words in it")


def _lines(text: bytes) -> ByteStrings:
    """The lines without empty ones, which are skipped and get no id."""
    lines = word_list.read_lines(text)
    return lines.take(np.flatnonzero(lines.lengths))


def _bert(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    entries = _lines(_text(texts, b"vocab_file", b"vocab"))
    found = np.flatnonzero(entries.equal_to(texts.get(b"unk_token", BERT_UNKNOWN)))
    unknown = Unknown(int(found[-1])) if len(found) else None
    vocabulary = table(name, place, entries, unknown=unknown, kind="wordpiece")
    yield replace(vocabulary, marker="##")


def _bpe(
    texts: Texts, name: str, place: Place, pre_tokenizer: str = "ByteLevel", **model: str
) -> Iterator[Finding]:
    """``vocab.json`` and ``merges.txt``, and added tokens as lines of ``token=id``."""
    added = [line.rpartition(b"=") for line in _lines(texts.get(b"added_token", b""))]
    ids = word_list.integers(ByteStrings.of(number for _, _, number in added)).tolist()
    merges = [line for line in _lines(texts.get(b"merges", b"")) if line[:9] != b"#version:"]
    document = {
        "model": {"type": "BPE", "vocab": _json(texts, b"vocab"), "merges": merges, **model},
        "pre_tokenizer": {"type": pre_tokenizer},
        "added_tokens": [
            {"content": decode(token), "id": number}
            for (token, _, _), number in zip(added, ids, strict=True)
        ],
    }
    yield _tokenizer(document, name, place)


def _wordpiece(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    prefix = decode(texts.get(b"suffix_indicator", b"##"))
    model = {"vocab": _json(texts, b"vocab"), "continuing_subword_prefix": prefix}
    vocabulary = _tokenizer({"model": {"type": "WordPiece", **model}}, name, place)
    yield replace(vocabulary, unknown=Unknown(NOT_FOUND))


def _hf_json(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    document = _json(texts, b"tokenizer_vocab")
    reason = hf_tokenizer.recognise(document)
    if reason is not None:
        raise InvalidFile(f"tokenizer_vocab is not a tokenizer.json: {reason}")
    yield _tokenizer(document, name, place)


def _json(texts: Texts, name: bytes) -> Any:
    return json_file.parse(_text(texts, name))


def _tokenizer(document: Any, name: str, place: Place) -> Vocabulary:
    return replace(hf_tokenizer.vocabulary(document, name), places=(place,))


def _sentencepiece(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    yield sentencepiece.vocabulary(_text(texts, b"model"), name, place)


def _rwkv(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    yield byte_tokens.vocabulary(_text(texts, b"vocab"), name, place)


def _bpe_decoder(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    """Empty lines count here; an added token takes the place of what has its id."""
    entries = dict(enumerate(word_list.read_lines(_text(texts, b"id_vocab"))))
    numbers, tokens = _columns(_pairs(texts.get(b"added_tokens", b"")))
    entries |= zip(word_list.integers(numbers).tolist(), tokens, strict=True)
    ids = np.fromiter(entries, np.int64, len(entries))
    stored = ByteStrings.of(entries.values())
    yield replace(table(name, place, stored, ids, notes=OF_AN_ID, kind="bpe"), marker="Ġ")


def _pairs(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Lines of two columns, a tab between; empty lines and columns are skipped."""
    for number, line in enumerate(text.split(b"\n"), start=1):
        columns = list(filter(None, line.split(b"\t")))
        if len(columns) == 2:
            yield columns[0], columns[1]
        elif line:
            got = f"{len(columns)} columns: {line[:40]!r}"
            raise InvalidFile(f"line {number:,} has {got}, wanted a key, a tab and a value")


def _columns(pairs: Iterator[tuple[bytes, bytes]]) -> tuple[ByteStrings, ByteStrings]:
    """Keys and values; of equal keys the last counts."""
    found = dict(pairs)
    return ByteStrings.of(found), ByteStrings.of(found.values())


def _string_mapping(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    keys, values = _columns(_pairs(_text(texts, b"map")))
    note = f"gives other strings for these; {POSITIONS}"
    yield table(name, place, keys, notes=(note,))
    yield list_of_strings(values, f"{name}.values", place)


def _string_to_vector(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    words, vectors = _columns(_pairs(_text(texts, b"map")))
    if (size := _dimension(vectors)) != 1:
        note = f"gives {size:,} numbers for each; {POSITIONS}"
        yield table(name, place, words, notes=(note,))
    else:
        unknown = Unknown(int(word_list.integers(ByteStrings.of([_text(texts, b"unk")]))[0]))
        yield table(name, place, words, word_list.integers(vectors), unknown=unknown)


def _vector_to_string(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    pairs = _pairs(_text(texts, b"map"))
    vectors, words = _columns((vector, word) for word, vector in pairs)
    if (size := _dimension(vectors)) != 1:
        note = f"{size:,} numbers give each; {POSITIONS}"
        yield table(name, place, words, notes=(note,))
    else:
        yield table(name, place, words, word_list.integers(vectors), notes=OF_AN_ID)


def _dimension(vectors: ByteStrings) -> int:
    """How many numbers the first holds, as the library takes it for all."""
    return len(vectors[0].split()) if len(vectors) else 0


EXTENSIONS: Final[dict[bytes, Callable[[Texts, str, Place], Iterator[Finding]]]] = {
    b"BertTokenizer": _bert,
    b"HfBertTokenizer": _bert,
    b"BertTokenizerDecoder": _bert,
    b"GPT2Tokenizer": _bpe,
    b"RobertaTokenizer": _bpe,
    b"CLIPTokenizer": partial(_bpe, end_of_word_suffix="</w>"),
    b"SpmTokenizer": partial(_bpe, pre_tokenizer="Metaspace"),
    b"WordpieceTokenizer": _wordpiece,
    b"HfJsonTokenizer": _hf_json,
    b"BpeDecoder": _bpe_decoder,
    b"SentencepieceTokenizer": _sentencepiece,
    b"SentencepieceDecoder": _sentencepiece,
    b"TrieTokenizer": _rwkv,
    b"TrieDetokenizer": _rwkv,
    b"StringMapping": _string_mapping,
    b"StringToVector": _string_to_vector,
    b"VectorToString": _vector_to_string,
}
