"""Steps give the same bytes as the ops of TensorFlow and tensorflow-text.

All characters of Unicode 12 are compared, one by one and in texts. For newer characters, ICU in
TensorFlow and Python's tables differ in version. Invalid bytes are random.
"""

# own process: TensorFlow

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import chain
from typing import Any, get_args

import pytest

pytest.importorskip("tensorflow_text", reason="the oracle of these tests is TensorFlow Text")

import sentencepiece
import tensorflow as tf
import tensorflow_text as tft
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tensorflow_text.python.ops import bert_tokenizer, regex_split_ops

from tests.tokenization.test_sentencepiece_words import trained
from tests.unicode12 import AWKWARD, assigned, assigned_text
from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.lookup import SentencePieceTokenizer, WordPiece, read_fast_wordpiece
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.steps import (
    BertNormalize,
    BertSplit,
    CaseFold,
    Characters,
    DropEmpty,
    Form,
    Join,
    Lower,
    NormalizeUtf8,
    RegexReplace,
    RegexSplit,
    ScriptSplit,
    SplitAtAny,
    SplitOn,
    SplitWhitespace,
    Strip,
    Transcode,
    WhitespaceSplit,
)
from vocabtool.tokenization.text_arrays import Step, Tokens, string_array
from vocabtool.vocabulary import Vocabulary

SENTENCES = (
    *("naïve Café", "didn't", "GOOD-bye", "日本語 テキスト", "👩\u200d🚀 x", "a\0b C", "lone\rCR"),
    *("no\u00a0break", "İstanbul", "", " ", "x" * 10_000, "ΑΣ ΣΑΣ", "tab\tnl\nvt\vff\f end "),
    *("[unused7] [UNK]", "e\u0301 \u0345", "! ?", "ﬁ ½ ²", "가각 \u1112\u1161\u11ab", "ab \u3000"),
    *(",a,,b ,c,", "a  b", " x y z ", "\u2028", "ß ẞ", "ΑΣ ΣΑΣ ΑΣ."),
)
NO_ENTRIES = Vocabulary("none", "sentencepiece", ByteStrings.of(()))
BROKEN = (
    b"\xff\xfeAB c",
    b"a\xe2\x82 b",
    b"\xf0\x9f\x98 x",
    b"\xed\xa0\x80z",
    b"\xc0\xafQ\xcc\x81",
)
BYTES = st.binary(max_size=8) | st.lists(
    st.sampled_from(
        [b"a", b"B ", b"\xe2", b"\x82", b"\xe3\x80", b"\x80", b"\xc2", b"\xa0", b"\xcc"]
    )
).map(b"".join)
COMMON = st.text("aBz ,.\t\n\v\r\0'!-éÉİΣσ日\u00a0\u200d\u0301👩", max_size=12).map(str.encode)
TEXTS = st.lists(assigned_text().map(str.encode) | COMMON | BYTES, min_size=1, max_size=20)

Texts = Sequence[bytes]
Oracle = Callable[[Texts], list[list[bytes]]]


@functools.cache
def all_texts(every: int) -> list[bytes]:
    """Sentences, invalid ones, and each ``every``th character alone and between others."""
    between = (f"{c} a{c}.b" for c in assigned()[::every])
    return [*(text.encode() for text in chain(SENTENCES, AWKWARD, between)), *BROKEN]


def whole_texts(op: Callable[[Texts], Any]) -> Oracle:
    """An op that gives one text for each."""
    return lambda texts: [[text] for text in op(texts).numpy().tolist()]


def lists(op: Callable[[Texts], Any]) -> Oracle:
    """An op that gives a ragged tensor of words."""
    return lambda texts: op(texts).to_list()


def regex_split(delimiter: str, keep: str) -> Oracle:
    """The op without its wrapper, which puts both patterns in parentheses."""

    def split(texts: Texts) -> Any:
        found = regex_split_ops.gen_regex_split_ops.regex_split_with_offsets(texts, delimiter, keep)
        return tf.RaggedTensor.from_row_splits(found.tokens, found.row_splits)

    return lists(split)


def fast_words(texts: Texts) -> list[list[bytes]]:
    """Words of the op that splits texts itself, by the positions of its pieces."""
    tokenizer = tft.FastWordpieceTokenizer(["[UNK]", "x"], max_bytes_per_word=10**9)
    _, starts, ends = (part.to_list() for part in tokenizer.tokenize_with_offsets(texts))
    return [
        [text[start:end] for start, end in zip(*bounds, strict=True)]
        for text, *bounds in zip(texts, starts, ends, strict=True)
    ]


DELIMITER = f"({bert_tokenizer._DELIM_REGEX_PATTERN})"
KEEP = f"({bert_tokenizer._KEEP_DELIM_NO_WHITESPACE_PATTERN})"
PATTERNS = (
    *(
        (DELIMITER, KEEP),
        (DELIMITER, "()"),
        (DELIMITER, DELIMITER),
        (r"(\[unused\d+\]|\s)", "(.*)"),
    ),
    *(("(a|b)(B)?", "(a)"), ("B(a)", "(a)"), ("(^a)", "()"), (r"(\ba)", "()"), ("(.)", "(é)")),
    *(("a", "a"), ("([^a-z]+)", "(.*)"), ("(a$)", "()"), ("B()", "()"), (r"(\p{Greek}+)", r"(Σ+)")),
)

STEPS: list[tuple[Step, Oracle]] = [
    *(
        (
            NormalizeUtf8(form),
            whole_texts(functools.partial(tft.normalize_utf8, normalization_form=form)),
        )
        for form in get_args(Form)
    ),
    (CaseFold(), whole_texts(tft.case_fold_utf8)),
    *(
        (BertNormalize(lower), whole_texts(tft.FastBertNormalizer(lower).normalize))
        for lower in (True, False)
    ),
    *((RegexSplit(*patterns), regex_split(*patterns)) for patterns in PATTERNS[:2]),
    *(
        (ScriptSplit(keep), lists(tft.UnicodeScriptTokenizer(keep).tokenize))
        for keep in (True, False)
    ),
    (WhitespaceSplit(), lists(tft.WhitespaceTokenizer().tokenize)),
    (BertSplit(), fast_words),
]


def each(op: Callable[[bytes], Any]) -> Oracle:
    """An op that takes one text."""

    def cut(texts: Texts) -> list[list[bytes]]:
        results = [op(text).numpy() for text in texts]
        return [[result] if isinstance(result, bytes) else list(result) for result in results]

    return cut


def split_v1(text: bytes, delimiter: str, skip_empty: bool) -> Any:
    sparse = tf.compat.v1.string_split([text], delimiter=delimiter, skip_empty=skip_empty)
    return sparse.values


STRING_OPS: list[tuple[Step, Callable[[bytes], Any]]] = [
    (Lower(), tf.strings.lower),
    (Lower(utf8=True), lambda x: tf.strings.lower(x, encoding="utf-8")),
    (Strip(), tf.strings.strip),
    *(
        (
            RegexReplace(pattern, rewrite),
            lambda x, p=pattern, r=rewrite: tf.strings.regex_replace(x, p, r),
        )
        for pattern, rewrite in [
            (r"([^\w\s])", r" \1 "),
            ("[!\"#$%&'()*+,-./:;<=>?@\\[\\\\\\]^_`{|}~']", ""),
            (r"\p{Mn}", ""),
            (r"\pN+|\s", "0"),
            ("^.", "\\0\\0"),
            ("x*", "-"),
            ("", "_"),
            (r"(a)|(B)", r"\2\1"),
        ]
    ),
    (SplitWhitespace(), tf.strings.split),
    *(
        (SplitOn(sep), lambda x, s=sep: tf.strings.split(x, sep=s))
        for sep in (b",", b" ", b", ", b"aa")
    ),
    *(
        (SplitAtAny(d, skip), lambda x, d=d, s=skip: split_v1(x, d, s))
        for d in (b" ", b",;", b"", b"^]-\\ ")
        for skip in (True, False)
    ),
    (Join(b"[START] ", b" [END]"), lambda x: tf.strings.join(["[START]", x, "[END]"], " ")),
    (Join(b"", b"!"), lambda x: tf.strings.join([x, "!"])),
    (Transcode(), lambda x: tf.strings.unicode_transcode(x, "UTF-8", "UTF-8")),
    (Characters(), lambda x: tf.strings.unicode_split(x, "UTF-8")),
]
MORE: list[tuple[Step, Oracle]] = [
    *((RegexSplit(*patterns), regex_split(*patterns)) for patterns in PATTERNS[2:]),
    *((step, each(op)) for step, op in STRING_OPS),
]


def repaired(step: Step, texts: Texts) -> Texts:
    """Decoded text that some ops get: invalid bytes replaced."""
    if isinstance(step, ScriptSplit):
        return [text.decode("utf-8", "replace").encode() for text in texts]
    return texts


@pytest.mark.parametrize(
    ("step", "oracle"), STEPS, ids=lambda value: "oracle" if callable(value) else str(value)[:30]
)
def test_every_character_of_unicode_12(step: Step, oracle: Oracle, full: bool) -> None:
    """Each assigned character (or one in ten) alone, and inside a word."""
    if isinstance(step, BertNormalize):  # from the op's own model
        model = tft.FastBertNormalizer(step.lower)._model.numpy().tobytes()
        assert BertNormalize.read(model) == step
    texts = repaired(step, all_texts(every=1 if full else 10))
    cut = step.apply(Tokens.whole(string_array(texts))).to_lists()
    different = [row for row in zip(texts, oracle(texts), cut, strict=True) if row[1] != row[2]]
    assert different == []


@pytest.mark.parametrize(
    ("step", "oracle"),
    [*STEPS, *MORE],
    ids=lambda value: "oracle" if callable(value) else str(value)[:40],
)
@example(texts=[*(text.encode() for text in SENTENCES), *BROKEN])
@given(texts=TEXTS)
@settings(max_examples=settings().max_examples // 2)
def test_any_text(step: Step, oracle: Oracle, texts: Texts) -> None:
    """Random texts of assigned characters, and random bytes: the same as the op."""
    texts = repaired(step, texts)
    assert step.apply(Tokens.whole(string_array(texts))).to_lists() == oracle(texts)


@pytest.mark.parametrize(("delimiter", "keep"), [("(", "()"), ("(b)", "(")])
def test_no_regular_expression(delimiter: str, keep: str) -> None:
    """If the op fails for a pattern, the step raises an error."""
    with pytest.raises(tf.errors.InvalidArgumentError):
        regex_split(delimiter, keep)([b"abc"])
    with pytest.raises(VocabtoolError, match="RE2 rejects"):
        RegexSplit(delimiter, keep).apply(Tokens.whole(string_array(["abc"])))


# Subword pieces.

ENTRIES = (
    *("[UNK]", "a", "ab", "##b", "##bc", "##é", "é", "naïve", "##日", "日本", "##ing", "x", "didn"),
    *("!", "##!", "##", "#", "'", "t", "cafe", "##s", "İ", "##İ", "goOd"),
)
IDS = {entry.encode(): at for at, entry in enumerate(ENTRIES)}
WORDS = st.lists(
    st.lists(
        st.sampled_from([*(e.encode() for e in ENTRIES), b"z", b"##", b"\xff", b"\xe3\x80"])
    ).map(lambda parts: b"".join(parts).replace(b"##", b"", 1))
    | BYTES,
    min_size=1,
    max_size=20,
)
LONG = [
    b"a" + b"b" * 99,
    b"a" + b"b" * 100,
    "é".encode() * 50,
    "é".encode() * 51,
    b"",
    b"##",
    b"###",
]


@functools.cache
def table() -> tf.lookup.StaticVocabularyTable:
    """The entries, and one bucket for all other words."""
    ids = tf.range(len(ENTRIES), dtype=tf.int64)
    return tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(list(ENTRIES), ids), 1
    )


OPTIONS: list[dict[str, Any]] = [
    *({}, {"unknown_token": None}, {"split_unknown_characters": True}, {"unknown_token": "zz"}),
    *({"max_chars_per_token": 1}, {"max_bytes_per_word": 3}, {"suffix_indicator": "#"}),
    {"split_unknown_characters": True, "unknown_token": None, "max_chars_per_token": 2},
    {"split_unknown_characters": True, "max_bytes_per_word": 5},
]


def spelled(options: dict[str, Any]) -> dict[str, Any]:
    """Options for our class: text as bytes."""
    return {k: v.encode() if isinstance(v, str) else v for k, v in options.items()}


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(words=WORDS)
def test_wordpieces(options: dict[str, Any], words: Texts) -> None:
    """The same pieces and ids with all options."""
    words = [*words, *LONG]
    make = functools.partial(tft.WordpieceTokenizer, table(), **options)
    wanted = [make(token_out_type=out).tokenize(words).to_list() for out in (tf.string, tf.int64)]
    wordpiece = WordPiece(IDS, unknown_id=len(ENTRIES), **spelled(options))
    found = [wordpiece.cut(word)[0] for word in words]
    assert [[piece for piece, _ in row] for row in found] == wanted[0]
    assert [[number for _, number in row] for row in found] == wanted[1]


@functools.cache
def fast_wordpieces(end_to_end: bool, detokenizes: bool) -> tuple[Any, Any]:
    """The op, with pieces and with ids."""
    pieces, ids = (
        tft.FastWordpieceTokenizer(
            list(ENTRIES),
            max_bytes_per_word=20,
            no_pretokenization=not end_to_end,
            support_detokenization=detokenizes,
            token_out_type=out,
        )
        for out in (tf.string, tf.int32)
    )
    return pieces, ids


@pytest.mark.parametrize("end_to_end", [True, False])
@pytest.mark.parametrize("detokenizes", [True, False])
@given(texts=WORDS | TEXTS)
def test_flatbuffer(end_to_end: bool, detokenizes: bool, texts: Texts) -> None:
    """The tokenizer read from the op's buffer gives the same as the op."""
    to_pieces, to_ids = fast_wordpieces(end_to_end, detokenizes)
    wordpiece, cuts_texts = read_fast_wordpiece(to_ids._model.numpy().tobytes())
    assert cuts_texts == end_to_end
    texts = [*texts, *LONG]
    words = [[text] for text in texts]
    if end_to_end:
        words = BertSplit().apply(Tokens.whole(string_array(texts))).to_lists()
    found = [[piece for word in row for piece in wordpiece.cut(word)[0]] for row in words]
    assert [[piece for piece, _ in row] for row in found] == to_pieces.tokenize(texts).to_list()
    assert [[number for _, number in row] for row in found] == to_ids.tokenize(texts).to_list()


# SentencePiece.


@given(text=assigned_text().map(str.encode) | BYTES)
def test_byte_fallback_knows_everything(text: bytes) -> None:
    """With byte fallback no piece is unknown, and the words are those of the text."""
    tokenizer = SentencePieceTokenizer(trained("as Mistral's"), NO_ENTRIES, Rule(()))
    (words,), (pieces,) = tokenizer.words([text]), tokenizer.cut([text])
    assert all(word.known for word in words)
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.model)
    assert library.unk_id() not in [number for _, number in pieces]
    assert all(b"<0x" not in word.text or b"<0x" in text for word in words)


def test_models_are_checked_before_they_are_trusted() -> None:
    """A truncated table, offsets outside it, and an empty model are rejected."""
    model = trained("unigram")
    proto = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto.FromString(model)
    table = proto.normalizer_spec.precompiled_charsmap
    start = model.index(table)
    size = int.from_bytes(table[:4], "little")
    outside = model[: start + 4] + b"\xff\xff\xff\x7f" + model[start + 8 :]
    endless = model[:start] + (size + len(table)).to_bytes(4, "little") + model[start + 4 :]
    for damaged, reason in [
        (outside, "an offset outside the table"),
        (endless, "truncated"),
        (model[:-5], "runs"),
        (b"", "does not begin with pieces"),
        (b"\n\x05\n\x03abc", "rejects the model"),
    ]:
        with pytest.raises(InvalidFile, match=reason):
            SentencePieceTokenizer(damaged, NO_ENTRIES, Rule(())).cut([b"alpha"])


@settings(max_examples=50)
@given(data=st.data())
def test_any_damage_is_refused_or_harmless(data: st.DataObject) -> None:
    """A damaged model gives an error of ours, or some pieces."""
    model = bytearray(trained("unigram"))
    for _ in range(data.draw(st.integers(1, 4))):
        model[data.draw(st.integers(0, len(model) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = SentencePieceTokenizer(bytes(model), NO_ENTRIES, Rule(())).words(
            [b"alpha", "naïve ☃".encode()]
        )
    except VocabtoolError:
        return
    assert len(found) == 2


def test_empty_padding_is_dropped() -> None:
    """In the texts that have it, and in those that have nothing else."""
    cut = SplitOn(b",").apply(Tokens.whole(string_array(["a,,b", "", ","])))
    assert DropEmpty().apply(cut).to_lists() == [[b"a", b"b"], [], []]
