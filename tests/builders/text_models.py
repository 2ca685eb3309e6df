"""Small real models that take texts, each with TensorFlow's account of the words it looks up.

A builder saves a model; its truth runs the same TensorFlow functions eagerly, on any texts. How
vocabtool gets from text to words is not known here. What the models' files hold is the subject of
``tensorflow_models.py``, whose way to build models this file goes on with.
"""

from __future__ import annotations

import functools
import importlib
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import lookup_ops

from tests.builders.tensorflow_models import (
    Tensor,
    filled,
    quiet,
    save,
    save_keras,
    save_v1,
    sentencepiece_model,
    static,
    tensorflow_text,
)

tf1 = tf.compat.v1

Texts: TypeAlias = Sequence[bytes]
Cutting: TypeAlias = Callable[[Tensor], Tensor]  # strings, shape (n,), to ragged ones, (n, None)

AWKWARD: tuple[bytes, ...] = (
    *(b"the quick brown fox", "naïve Café".encode(), b"didn't", b"GOOD-bye", b"Quick-brown FOX."),
    *("日本語の文。 the 日本".encode(), "한국어, ไทย and हिन्दी".encode(), "،العربية".encode()),
    *("👩\u200d🚀 the 👨\u200d👩\u200d👧 fox👍🏽".encode(), b"a\x00b the\x00", b"\x00"),
    *(b"quick\rfox", b"\r", "no\u00a0break the\u00a0fox".encode(), b"", b"q" * 10_000, b"a" * 101),
    *("\u0130stanbul I\u015eIK \u0131".encode(), b"caf\xe9 the \xff\xfe fox", b"\x80"),
    *(b"fox\xe6\x97", b"the\tquick\nbrown\x0bfox\x0cthe\x1c", b"  the  fox ", b" ", b"\t\n"),
    *("fox\u2028the\u2029quick\u0085brown".encode(), "\u1680the\u2003fox\u3000quick".encode()),
    *(b"<UNK> the", b"[UNK]", b"[START] the [END]", b"42", b"3.25", b" -7 ", b"12,345.67 42"),
    *(b"C++ c++, c", b"CVE-2024-1234: fix", b"mIxEd Case THE", "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ.".encode()),
    *("ﬁne ½ Å ẞ ß".encode(), "nai\u0308ve Cafe\u0301 \u0301".encode(), b"a_b snake_case", b"!?"),
    *("a\u200bb\u00ad\ufeffc\u2060".encode(), "\U0010ffff \ue000 \ufffd".encode(), b",;"),
    *(b"the,fox;quick,,brown; ", b"the, quick, brown, fox", b"o'neil's ''' \"fox\"\\n"),
    *("¿qué? ¡sí! quick—brown…".encode(), b"x@y.z http://a.b/c?d=e#f"),
)
"""Texts at which rules of one's own go wrong."""

VOCABULARY: tuple[str, ...] = (
    *("<UNK>", "the", "quick", "brown", "fox", "naïve", "na", "café", "caf", "didn't", "didn", "t"),
    *("'", "good", "bye", "goodbye", "GOOD-bye", "quickbrown", "日本語", "日", "本", "👩"),
    *("👩\u200d🚀", "a\0b", "a", "\u0130stanbul", "istanbul", "i\u0307stanbul", "", "[UNK]"),
    *("[START]", "[END]", "42", "3.25", "c++", "C++", "c", "+", "CVE-2024-1234", "cve", "2024"),
    *("mixed", "ΣΑΣ", "\u03c3\u03b1\u03c2", "\u03c3\u03b1\u03c3", "nai\u0308ve", "no\u00a0break"),
    *(" ", ".", ",", "the quick", "brown fox", "the  fox", "the q", "\ufffd", "q" * 10_000, "\r"),
    *("fox\u2028the", "qué", "¿", "-7", "fine", "naive", "cafe", "Q", "19", "fo"),
)
"""What the tables hold, in id order: some of the awkward words, and never all."""

WORDPIECES: tuple[str, ...] = (
    *("[PAD]", "[UNK]", "the", "quick", "fox", "##es", "brown", "##s", "na", "##ive", "##ï"),
    *("naive", "'", "didn", "t", "good", "bye", "-", "日", "本", "c", "+", "cve", "2024", "12"),
    *("##34", ".", "case", "mi", "##xed", "café", "cafe", "istanbul", ",", "42", "a", "##b", "["),
    *("]", "UNK", "3", "##2", "##5", "\u03c3\u03b1", "##\u03c2", "##\u03c3", "fo", "##x", "snake"),
    *("_", "The", "GOOD", "C"),
)
"""A vocabulary of pieces; the bare suffix indicator is not in it."""


@dataclass(frozen=True, slots=True)
class TextTruth:
    """What one lookup of a model does with texts; each callable takes n texts, gives n lists.

    Each raises one of ``FAILURES`` for a text of ``refused``, the awkward texts at which the model
    itself fails.

    ``words``: what the table, or the tokenizer's op, is asked for. It may be the empty string
    where the model makes such a word; what only fills up a batch is left out.
    ``ids``: what becomes of them at the end: one id for each word, or for each piece.
    ``known``: for each word, whether the table holds it, or it is the mask of a Keras layer; for
    WordPiece, whether none of its pieces is ``[UNK]``; for SentencePiece, for each piece, whether
    it is not the unknown one.
    ``vocabulary``: what ``vocabtool.inspect`` calls it; ``None`` where nothing tells.
    ``others``: further tables that the same texts reach.
    ``pieces``: for each word, its pieces; ``None`` where words are looked up whole.
    """

    words: Callable[[Texts], list[list[bytes]]]
    ids: Callable[[Texts], list[list[int]]]
    known: Callable[[Texts], list[list[bool]]]
    vocabulary: str | None
    others: tuple[TextTruth, ...] = ()
    refused: tuple[bytes, ...] = field(default=(), repr=False)
    pieces: Callable[[Texts], list[list[list[bytes]]]] | None = None

    def accepted(self) -> tuple[bytes, ...]:
        """The awkward texts that the model takes."""
        return tuple(text for text in AWKWARD if text not in self.refused)


TextBuilder: TypeAlias = Callable[[Path], TextTruth]


TEXT_CASES: dict[str, TextBuilder] = {}
"""A builder saves a model at a folder, and says what the model does with texts."""


def text_case(build: TextBuilder) -> TextBuilder:
    """Add a builder to ``TEXT_CASES`` under its own name."""
    TEXT_CASES[build.__name__] = build
    return build


def build_text_model(folder: Path, name: str) -> tuple[Path, TextTruth]:
    """Build a case below ``folder``. Raises ``KeyError`` for a name that is no case."""
    with quiet():
        return folder / name, TEXT_CASES[name](folder / name)


# What TensorFlow says.


def strings(texts: Texts) -> Tensor:
    """Texts as a string tensor of shape (n,)."""
    return tf.constant(list(texts), tf.string)


def rows(found: Tensor) -> list[list[Any]]:
    """A ragged or a dense tensor, a list for each text."""
    if isinstance(found, tf.RaggedTensor):
        return list(found.to_list())
    return list(found.numpy().tolist())


def told(truth: TextTruth) -> TextTruth:
    """A truth that knows at which awkward texts TensorFlow fails."""
    if not fails(truth, AWKWARD):
        return truth
    return replace(truth, refused=tuple(text for text in AWKWARD if fails(truth, [text])))


# The second is how Python meets a message of TensorFlow's that is not UTF-8.
FAILURES = (tf.errors.InvalidArgumentError, UnicodeDecodeError)


def fails(truth: TextTruth, texts: Texts) -> bool:
    """Whether TensorFlow raises at these texts."""
    try:
        truth.words(texts)
        truth.ids(texts)
    except FAILURES:
        return True
    return any(fails(other, texts) for other in truth.others)


def of_table(
    cut: Cutting,
    table: Tensor,
    vocabulary: str | None = "table",
    *,
    lookup: Callable[[Tensor], Tensor] | None = None,
    masks: Collection[bytes] = (),
    **more: Any,
) -> TextTruth:
    """The truth of a model that cuts texts and looks the words up in a table.

    ``lookup`` makes the ids, where not the table alone does; ``masks``: what has an id beside it.
    """

    def words(texts: Texts) -> list[list[bytes]]:
        return rows(cut(strings(texts)))

    def ids(texts: Texts) -> list[list[int]]:
        return rows((lookup or functools.partial(look_up, table))(cut(strings(texts))))

    inner: Tensor = getattr(table, "_table", table)
    held = {*inner.export()[0].numpy().tolist(), *masks}

    def known(texts: Texts) -> list[list[bool]]:
        return [[word in held for word in found] for found in words(texts)]

    return told(TextTruth(words, ids, known, vocabulary, **more))


def look_up(table: Tensor, words: Tensor) -> Tensor:
    """Ids in the shape of the words, ragged or not, which not every table can do."""
    if isinstance(words, tf.RaggedTensor):
        return words.with_flat_values(table.lookup(words.flat_values))
    return table.lookup(words)


def flat(found: Tensor) -> Tensor:
    """The strings of a ragged or a dense tensor, without their texts."""
    return tf.reshape(getattr(found, "flat_values", found), [-1])


def small_table() -> Tensor:
    """A static table whose default, 0, is the id of one of its entries."""
    return static(filled(VOCABULARY), 0)


def save_cut(folder: Path, cut: Cutting, table: Tensor = None, **more: Any) -> TextTruth:
    """Save a model that cuts texts and looks the flat words up."""
    table = small_table() if table is None else table
    save(folder, lambda texts: table.lookup(flat(cut(texts))), table=table)
    return of_table(cut, table, **more)


# Ways to cut.


def spaced(texts: Tensor) -> Tensor:
    """Lower case, and blanks round what is no word character."""
    return tf.strings.regex_replace(tf.strings.lower(texts, "utf-8"), r"([^\w\s])", r" \1 ")


def spaced_words(texts: Tensor) -> Tensor:
    """The cut of most models here."""
    return tf.strings.split(spaced(texts))


def uncut(texts: Tensor) -> Tensor:
    """Each text as its only word."""
    return tf.RaggedTensor.from_tensor(texts[:, None])


# Modules of TensorFlow 2.


@text_case
def nested(folder: Path) -> TextTruth:
    """Functions four deep, and vectors at the end."""
    table = small_table()
    vectors = tf.Variable(
        np.random.default_rng(0).normal(size=(len(VOCABULARY), 8)), dtype=tf.float32
    )
    cut = tf.function(spaced_words, autograph=False)
    find = tf.function(table.lookup, autograph=False)

    def embed(words: Tensor) -> Tensor:
        ids = find(words.flat_values)
        means = tf.math.segment_mean(tf.gather(vectors, ids), words.value_rowids())
        return {"ids": ids, "outputs": tf.nn.l2_normalize(means, -1)}

    deep = tf.function(embed, autograph=False)
    inner = tf.function(lambda texts: deep(cut(texts)), autograph=False)
    save(folder, inner, table=table, vectors=vectors)
    return of_table(spaced_words, table)


@text_case
def buckets(folder: Path) -> TextTruth:
    """Three hash buckets for what the table does not hold."""
    return save_cut(folder, spaced_words, tf.lookup.StaticVocabularyTable(filled(VOCABULARY), 3))


@text_case
def conditional(folder: Path) -> TextTruth:
    """The lookup is in a branch; the other branch has none."""
    table = small_table()

    def serve(texts: Tensor) -> Tensor:
        words = spaced_words(texts).flat_values
        none = tf.zeros([0], tf.int64)
        return tf.cond(tf.size(texts) > 0, lambda: table.lookup(words), lambda: none)

    save(folder, serve, table=table)
    return of_table(spaced_words, table)


@text_case
def bigrams(folder: Path) -> TextTruth:
    """One table for words and one for pairs of neighbours."""
    words, pairs = small_table(), static(filled(["the quick", "brown fox", "c +"]), -1)

    def pair(texts: Tensor) -> Tensor:
        return tf.strings.ngrams(spaced_words(texts), 2, separator=" ")

    def serve(texts: Tensor) -> Tensor:
        found = words.lookup(flat(spaced_words(texts)))
        return {"ids": found, "pairs": pairs.lookup(flat(pair(texts)))}

    save(folder, serve, words=words, pairs=pairs)
    return of_table(spaced_words, words, "words", others=(of_table(pair, pairs, "pairs"),))


@text_case
def mutable(folder: Path) -> TextTruth:
    """A table that grows, in the checkpoint."""
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, 0)
    table.insert(tf.constant(VOCABULARY), tf.range(len(VOCABULARY), dtype=tf.int64))
    return save_cut(folder, spaced_words, table)


# Single steps.


def split_after(step: Callable[..., Tensor], *given: Any, **options: Any) -> Cutting:
    """A cut at blanks of what another op makes of texts."""
    return lambda texts: tf.strings.split(step(texts, *given, **options))


STEPS: dict[str, Cutting] = {
    "split": tf.strings.split,
    "lower_utf8": split_after(tf.strings.lower, "utf-8"),
    "split_comma": lambda texts: tf.strings.split(texts, ", "),
    "replace_unicode": split_after(tf.strings.regex_replace, r"[\p{P}\p{S}]+|\bthe\b", " "),
    "characters": lambda texts: tf.strings.unicode_split(texts, "UTF-8"),
    "joined_constant": split_after(
        lambda texts: tf.strings.join(["[START]", texts, "[END]"], separator=" ")
    ),
    "whole": uncut,
    "strip": lambda texts: uncut(tf.strings.strip(texts)),
}

for name, cut in STEPS.items():
    TEXT_CASES[name] = functools.partial(save_cut, cut=cut)


# TF1 graphs.


def split_v1(texts: Tensor, **options: Any) -> Tensor:
    """TF1's split, whose delimiter is a set of bytes; its sparse answer as a ragged one."""
    found = tf1.string_split(texts, **options)
    return tf.RaggedTensor.from_value_rowids(
        found.values, found.indices[:, 0], nrows=found.dense_shape[0]
    )


SPLITS_V1: dict[str, Cutting] = {
    "tf1": lambda texts: split_v1(spaced(texts)),
    "tf1_marks": lambda texts: split_v1(texts, delimiter=",;"),
    "tf1_marks_empty": lambda texts: split_v1(texts, delimiter=",;", skip_empty=False),
    "tf1_empty": lambda texts: split_v1(texts, skip_empty=False),
    "tf1_bytes": lambda texts: split_v1(texts, delimiter=""),
}


def save_cut_v1(folder: Path, cut: Cutting) -> TextTruth:
    """A TF1 graph that cuts texts and looks the flat words up."""

    def serve(texts: Tensor) -> Tensor:
        known = tf.constant(VOCABULARY, name="words")
        table = lookup_ops.index_table_from_tensor(known, default_value=0)
        return table.lookup(cut(texts).flat_values)

    save_v1(folder, serve)
    return of_table(cut, small_table(), "words")


for name, cut in SPLITS_V1.items():
    TEXT_CASES[name] = functools.partial(save_cut_v1, cut=cut)


@text_case
def tf1_resaved(folder: Path) -> TextTruth:
    """A TF1 graph loaded and saved by TF2: everything is in a pruned function."""
    with tempfile.TemporaryDirectory() as first:
        truth = save_cut_v1(Path(first, "v1"), SPLITS_V1["tf1"])
        inner = tf.saved_model.load(str(Path(first, "v1")))
        ask = inner.signatures["serving_default"]
        save(folder, lambda texts: ask(texts)["ids"], inner=inner)
    return truth


# Layers of Keras: the same for Keras 2 (tf_keras) and Keras 3.

KERAS_VOCABULARY = [
    word for word in VOCABULARY if word not in ("", "[UNK]")
]  # the layers add those
STANDARDIZE = (None, "lower", "strip_punctuation", "lower_and_strip_punctuation")
SPLIT = (None, "whitespace", "character")


def library(version: int) -> Any:
    """Keras 2 or Keras 3."""
    return importlib.import_module({2: "tf_keras", 3: "keras"}[version])


def save_layer(folder: Path, version: int, layer: Any) -> None:
    """A model of one layer, for texts of shape (n, 1)."""
    keras = library(version)
    given = keras.Input((1,), dtype="string", name="text")
    save_keras(version, keras.Model(given, layer(given)), folder)


def masks(layer: Any) -> list[bytes]:
    """The word that a lookup layer gives the id 0 to, beside its table."""
    return [] if layer.mask_token is None else [layer.mask_token.encode()]


def save_vectorization(folder: Path, version: int, options: dict[str, Any]) -> TextTruth:
    """A model that answers with ids; its truth is that of the layer's own two halves."""
    given = {"vocabulary": KERAS_VOCABULARY, "name": "words", **options}
    layer = library(version).layers.TextVectorization(**given)
    save_layer(folder, version, layer)
    inner = layer._lookup_layer

    def cut(texts: Tensor) -> Tensor:
        return layer._preprocess(texts[:, None])

    name = "words" if version == 2 else None  # Keras 3 numbers its scopes
    return of_table(cut, inner.lookup_table, name, lookup=inner.call, masks=masks(inner))


def save_string_lookup(folder: Path, version: int, options: dict[str, Any]) -> TextTruth:
    """Words come in already cut."""
    words = [word for word in KERAS_VOCABULARY if word != options.get("mask_token")]
    layer = library(version).layers.StringLookup(vocabulary=words, name="words", **options)
    save_layer(folder, version, layer)
    name = "words" if version == 2 else None
    return of_table(uncut, layer.lookup_table, name, lookup=layer.call, masks=masks(layer))


def nmt_standardize(texts: Tensor) -> Tensor:
    """As translators do: decompose, lower, keep a to z and marks, which stand alone."""
    texts = tf.strings.lower(tensorflow_text().normalize_utf8(texts, "NFKD"))
    texts = tf.strings.regex_replace(texts, "[^ a-z.?!,¿]", "")
    texts = tf.strings.strip(tf.strings.regex_replace(texts, "[.?!,¿]", r" \0 "))
    return tf.strings.join(["[START]", texts, "[END]"], separator=" ")


def add_layers(version: int) -> None:
    """Add the cases of one version of Keras."""
    build: TextBuilder
    for standardize in STANDARDIZE:
        for split in SPLIT:
            for ngrams in (None, 2):
                options = {"standardize": standardize, "split": split, "ngrams": ngrams}
                name = f"k{version}_{standardize}_{split}" + ("_bigrams" if ngrams else "")
                build = functools.partial(save_vectorization, version=version, options=options)
                TEXT_CASES[name.lower()] = build
    more: dict[str, Any] = {
        "nmt": (save_vectorization, {"standardize": nmt_standardize}),
        "length": (save_vectorization, {"output_sequence_length": 4}),
        "lookup": (save_string_lookup, {}),
        "lookup_buckets": (save_string_lookup, {"num_oov_indices": 3, "mask_token": ""}),
    }
    for name, (save_it, options) in more.items():
        build = functools.partial(save_it, version=version, options=options)
        TEXT_CASES[f"k{version}_{name}"] = build


add_layers(2)
add_layers(3)


# What tensorflow-text does to texts, before a table.


def folded(texts: Tensor) -> Tensor:
    """Case fold and compose."""
    text = tensorflow_text()
    return tf.strings.split(text.normalize_utf8(text.case_fold_utf8(texts), "NFKC"))


def tokens(name: str, **options: Any) -> Cutting:
    """What a tokenizer of the library makes."""
    return lambda texts: getattr(tensorflow_text(), name)(**options).tokenize(texts)


TEXT_STEPS: dict[str, Cutting] = {
    "text_folded": folded,
    "text_whitespace": tokens("WhitespaceTokenizer"),
    "text_script": tokens("UnicodeScriptTokenizer"),
    "text_script_blanks": tokens("UnicodeScriptTokenizer", keep_whitespace=True),
    "text_characters": lambda texts: tf.strings.unicode_encode(
        tf.expand_dims(tokens("UnicodeCharTokenizer")(texts), -1), "UTF-8"
    ),
    "text_regex": lambda texts: tensorflow_text().RegexSplitter(r"[\s,]+").split(texts),
    "text_regex_kept": lambda texts: tensorflow_text().regex_split(
        texts, r"\s|[.,;:!?]", "[.,;:!?]"
    ),
    "text_ngrams": lambda texts: tensorflow_text().ngrams(
        tokens("WhitespaceTokenizer")(texts),
        *(2, -1, tensorflow_text().Reduction.STRING_JOIN),
    ),
}

for name, cut in TEXT_STEPS.items():
    TEXT_CASES[name] = functools.partial(save_cut, cut=cut)


# Tokenizers that make pieces of words.

Pieces: TypeAlias = Callable[[Tensor], Tensor]


def of_wordpieces(
    cut: Cutting, spell: Pieces, number: Pieces, vocabulary: str | None = None
) -> TextTruth:
    """The truth of a tokenizer: words, their pieces, shape (n, None, None), and the pieces' ids."""
    return of_pieces(
        lambda texts: rows(cut(strings(texts))),
        lambda texts: rows(spell(strings(texts))),
        *(number, vocabulary),
    )


def of_pieces(
    words: Callable[[Texts], list[list[bytes]]],
    pieces: Callable[[Texts], list[list[list[bytes]]]],
    number: Pieces,
    vocabulary: str | None = None,
) -> TextTruth:
    """The truth of a tokenizer; ids are those of the pieces, without their words."""

    def ids(texts: Texts) -> list[list[int]]:
        found = number(strings(texts))
        return rows(found.merge_dims(1, -1) if found.shape.rank > 2 else found)

    def known(texts: Texts) -> list[list[bool]]:
        return [[b"[UNK]" not in word for word in words] for words in pieces(texts)]

    return told(TextTruth(words, ids, known, vocabulary, pieces=pieces))


def serve_pieces(folder: Path, number: Pieces, **tracked: object) -> None:
    """Save a model that answers with the flat ids of pieces."""
    save(folder, lambda texts: flat(number(texts)), **tracked)


def save_bert(folder: Path, *, lower_case: bool) -> TextTruth:
    """Pieces in a table."""
    table = tf.lookup.StaticVocabularyTable(filled(WORDPIECES), 1)
    make = functools.partial(tensorflow_text().BertTokenizer, table, lower_case=lower_case)
    tokenizer = make()
    serve_pieces(folder, tokenizer.tokenize, tokenizer=tokenizer, table=table)
    cut = tokenizer._basic_tokenizer.tokenize
    return of_wordpieces(cut, make(token_out_type=tf.string).tokenize, tokenizer.tokenize, "table")


def save_fast_bert(folder: Path, *, lower_case: bool) -> TextTruth:
    """Pieces in a flatbuffer; text is normalised, cut and looked up by two ops."""
    make = functools.partial(
        tensorflow_text().FastBertTokenizer,
        list(WORDPIECES),
        lower_case_nfd_strip_accents=lower_case,
    )
    tokenizer, speller = make(token_out_type=tf.int64), make(token_out_type=tf.string)
    serve_pieces(folder, tokenizer.tokenize, tokenizer=tokenizer)
    normalize = tokenizer._fast_bert_normalizer.normalize
    return of_offsets(normalize, speller._fast_wordpiece_tokenizer, tokenizer.tokenize)


def save_fast_wordpiece(folder: Path) -> TextTruth:
    """The op itself cuts texts into words."""
    make = functools.partial(tensorflow_text().FastWordpieceTokenizer, list(WORDPIECES))
    tokenizer = make(token_out_type=tf.int64)
    serve_pieces(folder, tokenizer.tokenize, tokenizer=tokenizer)
    return of_offsets(tf.identity, make(token_out_type=tf.string), tokenizer.tokenize)


def save_wordpiece(folder: Path) -> TextTruth:
    """The op of the table's kind on words that were cut by script, in lower case."""
    text = tensorflow_text()
    table = tf.lookup.StaticVocabularyTable(filled(WORDPIECES), 1)
    make = functools.partial(text.WordpieceTokenizer, table)
    tokenizer, speller = make(token_out_type=tf.int64), make(token_out_type=tf.string)

    def cut(texts: Tensor) -> Tensor:
        return text.UnicodeScriptTokenizer().tokenize(tf.strings.lower(texts, "utf-8"))

    def number(texts: Tensor) -> Tensor:
        return tokenizer.tokenize(cut(texts))

    serve_pieces(folder, number, tokenizer=tokenizer, table=table)
    return of_wordpieces(cut, lambda texts: speller.tokenize(cut(texts)), number, "table")


def of_offsets(normalize: Callable[[Tensor], Tensor], speller: Any, number: Pieces) -> TextTruth:
    """The truth of an op that takes whole texts: where its pieces begin and end tells the words."""

    def spell(texts: Texts) -> list[list[tuple[bytes, list[bytes]]]]:
        normal = normalize(strings(texts))
        found = map(rows, speller.tokenize_with_offsets(normal))
        return [grouped(*row) for row in zip(normal.numpy().tolist(), *found, strict=True)]

    return of_pieces(
        words=lambda texts: [[word for word, _ in words] for words in spell(texts)],
        pieces=lambda texts: [[made for _, made in words] for words in spell(texts)],
        number=number,
    )


def grouped(
    text: bytes, pieces: list[bytes], starts: list[int], ends: list[int]
) -> list[tuple[bytes, list[bytes]]]:
    """Words with their pieces: a piece that begins with ``##`` goes on with the word before."""
    words: list[tuple[int, int, list[bytes]]] = []
    for piece, start, end in zip(pieces, starts, ends, strict=True):
        if piece.startswith(b"##"):
            first, before, made = words.pop()
            assert before == start, "pieces of a word follow each other"
            words.append((first, end, [*made, piece]))
        else:
            words.append((start, end, [piece]))
    return [(text[start:end], made) for start, end, made in words]


for case, lower in (("lower", True), ("cased", False)):
    TEXT_CASES[f"bert_{case}"] = functools.partial(save_bert, lower_case=lower)
    TEXT_CASES[f"fast_bert_{case}"] = functools.partial(save_fast_bert, lower_case=lower)
TEXT_CASES["fast_wordpiece"] = save_fast_wordpiece
TEXT_CASES["wordpiece"] = save_wordpiece


# SentencePiece.


def decomposed(texts: Tensor) -> Tensor:
    """As in ALBERT: no marks, case folded."""
    text = tensorflow_text()
    bare = tf.strings.regex_replace(text.normalize_utf8(texts, "NFD"), r"\p{Mn}", "")
    return text.case_fold_utf8(bare)


def save_sentencepiece(
    folder: Path, make: Callable[[], tuple[Any, Any]], normalize: Callable[[Tensor], Tensor]
) -> TextTruth:
    """A model of SentencePiece; ``make`` gives a tokenizer to ids and one to pieces."""
    tokenizer, speller = make()
    serve_pieces(folder, lambda texts: tokenizer.tokenize(normalize(texts)), tokenizer=tokenizer)
    unknown = sentencepiece_unknown()

    def words(texts: Texts) -> list[list[bytes]]:
        return rows(normalize(strings(texts))[:, None])

    def ids(texts: Texts) -> list[list[int]]:
        return rows(tokenizer.tokenize(normalize(strings(texts))))

    def known(texts: Texts) -> list[list[bool]]:
        return [[piece != unknown for piece in row] for row in ids(texts)]

    def spelled(texts: Texts) -> list[list[list[bytes]]]:
        return [[row] for row in rows(speller.tokenize(normalize(strings(texts))))]

    return told(TextTruth(words, ids, known, None, pieces=spelled))


@functools.cache
def sentencepiece_unknown() -> int:
    """The unknown piece of the small model, as its own library says."""
    import sentencepiece

    model = sentencepiece.SentencePieceProcessor(model_proto=sentencepiece_model())
    return int(model.unk_id())


def sentencepiece_pair(**options: Any) -> tuple[Any, Any]:
    """The op of two types of output."""
    make = functools.partial(
        tensorflow_text().SentencepieceTokenizer, sentencepiece_model(), **options
    )
    return make(out_type=tf.int32), make(out_type=tf.string)


def fast_sentencepiece_pair(**options: Any) -> tuple[Any, Any]:
    """The op that reads a flatbuffer; pieces are spelled by the other, which must agree."""
    fast = tensorflow_text().FastSentencepieceTokenizer(sentencepiece_model(), **options)
    return fast, sentencepiece_pair(**options)[1]


ENDS = {"add_bos": True, "add_eos": True}
SENTENCEPIECES: dict[str, tuple[Callable[..., Any], dict[str, Any], Callable[[Tensor], Tensor]]] = {
    "sentencepiece": (sentencepiece_pair, {}, tf.identity),
    "sentencepiece_ends": (sentencepiece_pair, ENDS, tf.identity),
    "sentencepiece_best": (sentencepiece_pair, {"nbest_size": 0, "alpha": 0.0}, tf.identity),
    "sentencepiece_reversed": (sentencepiece_pair, {"reverse": True}, tf.identity),
    "sentencepiece_normalized": (sentencepiece_pair, {}, decomposed),
    "fast_sentencepiece": (fast_sentencepiece_pair, {}, tf.identity),
}
for name, (pair, options, normalize) in SENTENCEPIECES.items():
    make = functools.partial(pair, **options)
    TEXT_CASES[name] = functools.partial(save_sentencepiece, make=make, normalize=normalize)
