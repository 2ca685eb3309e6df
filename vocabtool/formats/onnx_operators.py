"""What ONNX operators do with the lists of strings that they hold: which are words, which ids.

Layout: onnx/onnx, docs/Operators-ml.md and docs/Operators.md; Tokenizer is ONNX Runtime's
(microsoft/onnxruntime, docs/ContribOperators.md). Where nodes and their attributes lie is
``onnx.py``'s, what onnxruntime-extensions adds is in ``onnx_extensions.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.formats import onnx_values
from vocabtool.formats.model import MIN_ENTRIES, PassedOver
from vocabtool.formats.onnx_values import Attribute, Integers
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Kind, Place, Unknown, Vocabulary, in_id_order

NOT_FOUND: Final = -1  # what LabelEncoder and CategoryMapper give by default

Attributes = dict[bytes, Attribute]
Finding = Vocabulary | PassedOver


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
    stored, first_id, in_order = in_id_order(entries, ids)
    return Vocabulary(
        name=name,
        kind=kind,
        stored=stored,
        first_id=first_id,
        ids=in_order,
        unknown=unknown,
        places=(place,),
        notes=notes,
    )


def _strings(known: Attributes, *names: bytes) -> ByteStrings:
    """The strings of the first of these attributes that has any."""
    found = (known[name].strings for name in names if name in known and len(known[name].strings))
    return next(found, onnx_values.NO_STRINGS)


def _integers(known: Attributes, *names: bytes) -> Integers | None:
    """The integers of the first of these attributes that has any."""
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
    words, numbers = (
        _strings(known, b"keys_strings", b"keys_tensor"),
        _integers(known, b"keys_int64s", b"keys_tensor"),
    )
    labels, ids = (
        _strings(known, b"values_strings", b"values_tensor"),
        _integers(known, b"values_int64s", b"values_tensor"),
    )
    if len(words) and ids is not None:
        yield table(name, place, words, ids, unknown=_default(known))
    elif len(words):
        what = "other strings" if len(labels) else "numbers that are not whole"
        note = f"gives {what} for these; the ids are their positions"
        yield table(name, place, words, notes=(note,))
    if len(labels) and numbers is not None:
        yield table(name, place, labels, numbers, notes=("gives the entry of an id",))
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
