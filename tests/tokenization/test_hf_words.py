"""Words of a tokenizer.json, cut into chunks, equal those of the tokenizers library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sentencepiece
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.conftest import ROOT
from tests.tokenization.test_tokenizer_files import GPT2
from vocabtool import Words
from vocabtool.errors import InvalidFile, VocabtoolError

SENTENCES = [
    "the quick brown fox jumps over the lazy dog, the end",
    "the naïve 日本 fox's 287.9 cafés and the Café",
    "less is more, more is less; the quickest wins",
] * 9
AWKWARD = (
    *("", " ", "\n", "the  quick\tbrown\r\nfox", "naïve Café", "日本語のfox", "lone\rCR"),
    *("a\0b the\0", "\x01the \x01", "no\u00a0break\u2009space", "İstanbul ISTANBUL ß ﬁ Ⅳ"),
    *("👩‍👩‍👧‍👦 🇩🇪 ☕️", "d\ve\ff", "e\u0301 \u0301e \u0301", "▁the ▁ Ġthe ##e </w>", "[UNK] <unk>"),
    *("the [MASK] the[MASK]the", "<s>the</s> <|end|>", "x" * 10_000, "the" * 300),
    *("\u2028\u0085a\ufeffb", "the quick,brown;fox's 287.9!", "[mask] [ MASK ]"),
    *("\uff41\uff42\u3000\uff43", "\x7f\x1c\x1d the\x1e"),
)


def trained(
    model: Any, trainer: Any, pre_tokenizer: Any, normalizer: Any = None, **options: Any
) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(SENTENCES, trainer(show_progress=False, **options))
    return tokenizer


def word_level() -> Tokenizer:
    return trained(
        models.WordLevel(unk_token="[UNK]"),
        trainers.WordLevelTrainer,
        pre_tokenizers.Whitespace(),
        normalizers.Lowercase(),
        special_tokens=["[PAD]", "[UNK]"],
    )


def word_piece() -> Tokenizer:
    """Like BERT, with a template, truncation and padding, which must not matter."""
    tokenizer = trained(
        models.WordPiece(unk_token="[UNK]"),
        trainers.WordPieceTrainer,
        pre_tokenizers.BertPreTokenizer(),
        normalizers.BertNormalizer(),
        vocab_size=80,
        special_tokens=["[PAD]", "[UNK]", "[CLS]", "[MASK]"],
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [CLS]", special_tokens=[("[CLS]", 2)]
    )
    return tokenizer


def byte_level() -> Tokenizer:
    tokenizer = trained(
        models.BPE(),
        trainers.BpeTrainer,
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        vocab_size=300,
        special_tokens=["<|end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
    )
    tokenizer.post_processor = processors.ByteLevel()
    return tokenizer


def with_prefix() -> Tokenizer:
    """Byte-level with a blank before each text, and a mask that strips the blanks before it."""
    tokenizer = byte_level()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.add_special_tokens(
        [AddedToken("[MASK]", lstrip=True), AddedToken("the", single_word=True)]
    )
    return tokenizer


def suffixed() -> Tokenizer:
    return trained(
        models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
        trainers.BpeTrainer,
        pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation()]),
        normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents()]),
        vocab_size=60,
        special_tokens=["<unk>"],
        end_of_word_suffix="</w>",
    )


def unigram(normalizer: Any = None, pre_tokenizer: Any = None, *tokens: AddedToken) -> Tokenizer:
    tokenizer = trained(
        models.Unigram(),
        trainers.UnigramTrainer,
        pre_tokenizers.Metaspace(),
        normalizers.Replace(Regex(" {2,}"), " "),
        vocab_size=50,
        special_tokens=["<s>", "<unk>"],
        unk_token="<unk>",
    )
    tokenizer.normalizer = normalizer or tokenizer.normalizer
    tokenizer.pre_tokenizer = pre_tokenizer or tokenizer.pre_tokenizer
    tokenizer.add_tokens(list(tokens))
    return tokenizer


def split_first() -> Tokenizer:
    """Like T5 and XLM-RoBERTa: words between blanks, each with a marker before it."""
    cuts = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    return unigram(normalizers.NFKC(), pre_tokenizers.Sequence(cuts))


def marked(scheme: str, *tokens: AddedToken) -> Tokenizer:
    """A marker before each text and blank, or before the first text only."""
    cut = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    return unigram(normalizers.NFC(), cut, AddedToken("[MASK]", lstrip=True), *tokens)


def reaching_behind() -> Tokenizer:
    """A mask that strips the blanks behind it, so that texts must not be split there."""
    return marked("always", AddedToken("fox", rstrip=True, single_word=True))


MARKS = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])


def without_pre_tokenizer() -> Tokenizer:
    """Like Llama: the model splits the whole text."""
    document = json.loads(unigram(MARKS).to_str())
    return Tokenizer.from_str(json.dumps({**document, "pre_tokenizer": None}))


def falling_back() -> Tokenizer:
    """BPE without a pre-tokenizer; missing characters become bytes."""
    tokens = [*(f"<0x{i:02X}>" for i in range(256)), "▁", "t", "h", "e", "th", "the", "▁the"]
    vocabulary = {token: number for number, token in enumerate(["<unk>", *tokens])}
    merges = [("t", "h"), ("th", "e"), ("▁", "the")]
    tokenizer = Tokenizer(
        models.BPE(vocabulary, merges, byte_fallback=True, unk_token="<unk>", fuse_unk=True)
    )
    tokenizer.normalizer = MARKS
    return tokenizer


BEHIND = (  # the English endings
    r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = "(?i:'s|'t|'re|'ve|'m|'ll|'d)" + BEHIND
LLAMA_CPP = "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])" + BEHIND


def by_pattern(pattern: str) -> Tokenizer:
    """Like Llama 3: with a pattern in a step of its own."""
    tokenizer = byte_level()
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    write = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, write])
    return tokenizer


def by_table() -> Tokenizer:
    """Like XLM-RoBERTa: SentencePiece's table of characters, then words between blanks."""
    model = sentencepiece.SentencePieceNormalizer(rule_name="nmt_nfkc").serialized_model_proto()
    proto = import_module("sentencepiece.sentencepiece_model_pb2").ModelProto.FromString(model)
    table = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    steps = [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    return unigram(table, pre_tokenizers.Sequence(steps))


def with_token(make: Callable[[], Tokenizer], content: str, **options: bool) -> Tokenizer:
    tokenizer = make()
    tokenizer.add_tokens([AddedToken(content, **options)])
    return tokenizer


Maker = Callable[[], Tokenizer]
# Each with the place beside a blank where its texts are cut into chunks, or None.
CHUNKED: dict[str, tuple[Maker, str | None]] = {
    "WordLevel": (word_level, "behind"),
    "WordPiece": (word_piece, "behind"),
    "byte-level BPE": (byte_level, "before"),
    "byte-level with a blank before": (with_prefix, "before"),
    "BPE with a suffix": (suffixed, "behind"),
    "Unigram": (unigram, None),
    "Unigram between blanks": (split_first, "behind"),
    "Unigram, always a mark": (partial(marked, "always"), "before"),
    "Unigram, a first mark": (partial(marked, "first"), "before"),
    "Unigram, never a mark": (partial(marked, "never"), "before"),
    "Unigram, a token with its blank": (reaching_behind, None),
    "Unigram without pre-tokenizer": (without_pre_tokenizer, None),
    "BPE with bytes": (falling_back, "instead"),
    "a pattern": (partial(by_pattern, GPT2), "before"),
    "a published pattern": (partial(by_pattern, LLAMA3), "before"),
    "another spelling of it": (partial(by_pattern, LLAMA_CPP), "before"),
    "a table": (by_table, "before"),
    "marks in a token": (partial(with_token, word_piece, "<|x|>"), "behind"),
    "a mark": (partial(with_token, word_piece, ".", single_word=True), "behind"),
    "two marks after NFKD": (partial(with_token, word_piece, "…"), "behind"),
    "a blank in a token": (partial(with_token, word_piece, "the fox"), None),
    "a token of Llama": (partial(with_token, falling_back, "fox", normalized=False), "instead"),
    "a normalised token of Llama": (partial(with_token, falling_back, "fox"), None),
}
MAKERS: dict[str, Maker] = {name: maker for name, (maker, _) in CHUNKED.items()}
NAMES = sorted(MAKERS)
PRE_TOKENS = {n for n in NAMES if not any(each in n for each in ("without", "bytes", "Llama"))}


@cache
def made(name: str) -> Tokenizer:
    return MAKERS[name]()


@cache
def ours(name: str) -> Words:
    return of(made(name))


def of(tokenizer: Tokenizer) -> Words:
    """Return our words of a tokenizer, read from a file that is then deleted."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        tokenizer.save(str(file))
        return Words.of(file)


def theirs(tokenizer: Tokenizer, text: str) -> list[list[tuple[str, int]]]:
    """Return tokens and ids of each word: what the library gives one ``word_id``."""
    found = tokenizer.encode(text, add_special_tokens=False)
    words: dict[int | None, list[tuple[str, int]]] = {}
    tokens = zip(found.tokens, found.ids, strict=True)
    for number, token in zip(found.word_ids, tokens, strict=True):
        words.setdefault(number, []).append(token)
    return list(words.values())


def judged(words: Words, texts: list[str]) -> list[list[tuple[str, int, bool, int | None]]]:
    """Return word, id, known and number of pieces for each text."""
    found = words.look_up(texts)
    rows = list(
        zip(
            [word.decode("utf-8", "replace") for word in found.distinct.view("binary").to_pylist()],
            found.ids.tolist(),
            found.known.tolist(),
            [None] * len(found.ids) if found.pieces is None else found.pieces.tolist(),
            strict=True,
        )
    )
    codes = found.codes.tolist()
    return [[rows[code] for code in codes[a:b]] for a, b in pairwise(found.offsets.tolist())]


def check(name: str, texts: list[str]) -> None:
    """Compare ours of all texts at once with theirs of each, tokens and ids."""
    tokenizer, words = made(name), ours(name)
    unknown = words.vocabulary.unknown
    added = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    found = judged(words, texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vocabtool.tokenization.hf_tokenizer.SLICE_BYTES", 1)
        assert judged(words, texts) == found
    for text, row in zip(texts, found, strict=True):
        wanted = theirs(tokenizer, text)
        tokens = [token for word in wanted for token in word]
        counts = [1 if pieces is None else pieces for _, _, _, pieces in row]
        assert sum(counts) == len(tokens), text
        at = 0
        for (word, number, known, _), count in zip(row, counts, strict=True):
            own = tokens[at : at + count]
            at += count
            assert number == (own[0][1] if count == 1 else -1), (text, word)
            is_added = count == 1 and word.strip() == own[0][0].strip() in added
            no_unknown = unknown is None or all(i != unknown.id for _, i in own)
            assert known == (is_added or no_unknown), (text, word)
        if name in PRE_TOKENS:
            assert counts == list(map(len, wanted)), text


PARTS = (
    *(" ", "  ", "\n", "\u00a0", "\u3000", "'s", "12", "[MASK]", "é", "e\u0301", "<s>", "the"),
    *("fox", ",", "日", "x", "\u0301", ". ", "..", " fox", "the ", "<|x|>", "…", "the fox"),
)
ODD = st.sampled_from(" \t\n\r\0\v\f\u00a0▁Ġ#the,.'Éé\u0301日本[MASK]<unk>")
TEXT = st.text(ODD | st.characters(exclude_categories=["Cs"]), max_size=30) | st.lists(
    st.sampled_from(PARTS), max_size=9
).map("".join)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(TEXT, max_size=5))
@example(texts=[*AWKWARD])
@example(texts=[" ".join(AWKWARD), "\n".join(AWKWARD), "a.. ..b\fc d\ve f", " a", "a "])
@example(texts=["fox the fox.<|x|>.fox <s> the</s> <|x|>> x", "x y▁z ▁ w  v", "ας'.ΩΣ Σ. .Ω"])
def test_any_text(name: str, texts: list[str]) -> None:
    """The same tokens, ids and words for awkward and for random texts."""
    check(name, texts)


@pytest.mark.parametrize("name", NAMES)
def test_where_texts_are_cut_into_chunks(name: str) -> None:
    tokenizer: Any = ours(name).tokenizer
    assert tokenizer._cuts.chunking == CHUNKED[name][1]


def test_marks_are_cut() -> None:
    """BERT's punctuation is cut anywhere, unless an added token has two marks."""
    tokenizers: list[Any] = [ours(name).tokenizer for name in ("WordPiece", "marks in a token")]
    marks = pa.array([".,;:" * 1_000])
    assert [len(one._cuts.chunks(marks)[0]) for one in tokenizers] == [4_000, 1]


@pytest.mark.parametrize("name", [name for name in NAMES if "normalised" not in name])
def test_pieces(name: str) -> None:
    """A word has the pieces that it was counted with, if words begin alike."""
    words = ours(name)
    for text in ("the quickest fox", "the brownest, zzz 日 cafés", "quick 👩‍👧"):
        texts = [text]
        tokens = made(name).encode(text, add_special_tokens=False).tokens
        found = [piece for word, *_ in judged(words, texts)[0] for piece in words.pieces(word)]
        assert found == ([] if name == "WordLevel" else tokens)


def test_words() -> None:
    """Words are readable; the fingerprint changes with everything they depend on."""
    assert len({ours(name).fingerprint for name in NAMES}) == len(NAMES)
    spelled = {
        "WordLevel": ["the", "naïve", "fox", ","],
        "WordPiece": ["the", "naive", "fox", ","],
        "byte-level BPE": ["The", " naïve", " ", " fox", ","],
        "byte-level with a blank before": [" The", " naïve", " ", " fox", ","],
        "BPE with a suffix": ["The", "naive", "fox", ","],
        "Unigram": ["The", "naïve", "fox,"],
        "Unigram between blanks": ["The", "naïve", "fox,"],
        "Unigram, always a mark": ["The", "naïve", " ", "fox,"],
        "Unigram, a first mark": [" The", " naïve", " ", " fox,"],
        "Unigram, never a mark": ["The", " naïve", " ", " fox,"],
        "Unigram, a token with its blank": ["The", "naïve", " ", " ", "fox", ","],
        "Unigram without pre-tokenizer": ["The", "naïve", " ", "fox,"],
        "BPE with bytes": ["The", "naïve", " ", "fox,"],
    }
    for name, wanted in spelled.items():
        assert [word for word, *_ in judged(ours(name), ["The naïve  fox,"])[0]] == wanted


def test_bytes_that_are_not_utf8() -> None:
    """Invalid bytes are read as U+FFFD, and so are lone surrogates."""
    words = ours("byte-level BPE")
    assert [w for w, *_ in judged(words, [b"a\xff"])[0]] == ["a", "\ufffd"]  # type: ignore[list-item]  # texts may be bytes
    assert judged(words, ["a\ud800"]) == judged(words, ["a\ufffd\ufffd\ufffd"])
    assert words.describe()[0] == "read bytes that are not UTF-8 as U+FFFD"


def test_nothing_is_left_out() -> None:
    """Truncation, padding and the control tokens of a template do not matter."""
    tokenizer = Tokenizer.from_str(made("WordPiece").to_str())
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=50)
    text = "the quick brown fox"
    assert judged(of(tokenizer), [text]) == judged(ours("WordPiece"), [text])
    assert len(judged(of(tokenizer), [text])[0]) == 4
    assert of(tokenizer).fingerprint == ours("WordPiece").fingerprint


def between_blanks(model: Any) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer


def test_unknown_tokens() -> None:
    """Without an unknown token, skipped parts are unknown; its name in a text is a normal word."""
    bpe = between_blanks(models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")]))
    found = [("ab", 2, True, 1), ("aéb", 2, False, 1), ("é", -1, False, 0)]
    assert judged(of(bpe), ["ab aéb é"]) == [found]
    level = between_blanks(models.WordLevel({"a": 0}, unk_token="none"))
    assert judged(of(level), ["a b"]) == [[("a", 0, True, None), ("b", -1, False, None)]]
    level = between_blanks(models.WordLevel({"a": 0, "unk": 1}, unk_token="unk"))
    assert judged(of(level), ["unk x"]) == [[("unk", 1, True, None), ("x", 1, False, None)]]
    level.normalizer = normalizers.NFKC()
    level.add_tokens([AddedToken("new", normalized=False)])
    wanted = [("new", 2, True, None), ("new", 1, False, None)]
    assert judged(of(level), ["new \uff4e\uff45\uff57"]) == [wanted]


DESCRIBED = {
    "WordPiece": (
        "keep 4 added tokens whole: [PAD], [UNK], [CLS], ...",
        "remove control characters, replace white space by blanks",
        "put blanks around Chinese characters",
        "remove accents",
        "lower-case",
        "split at white space and around each punctuation mark",
        "split each word from left to right into the longest pieces, '##' before all but the "
        "first (WordPiece); words of more than 100 characters are unknown",
    ),
    "Unigram": (
        "keep 2 added tokens whole: <s>, <unk>",
        "'Replace', pattern \"{'Regex': ' {2,}'}\", content ' '",
        "replace blanks by '▁', put one before every part, split before each one",
        "split each word into its most likely pieces (Unigram)",
    ),
}


@pytest.mark.parametrize("name", DESCRIBED)
def test_describe(name: str) -> None:
    """The steps in plain words."""
    assert ours(name).how == "recovered"
    assert ours(name).describe()[1:] == DESCRIBED[name]


def test_the_vocabulary_that_says_how(tmp_path: Path) -> None:
    """A vocabulary with a tokenizer is chosen before a larger one, with a note."""
    word_piece().save(str(tmp_path / "tokenizer.json"))
    longer = {f"w{number}": number for number in range(5_000)}
    (tmp_path / "vocab.json").write_text(json.dumps(longer), "utf-8")
    words = Words.of(tmp_path)
    assert words.vocabulary.name == "tokenizer.json"
    (note,) = words.notes
    assert "MODEL#NAME" in note
    assert note.endswith(": vocab.json")
    assert Words.of(tmp_path, name="tokenizer.json").notes == ()
    with pytest.raises(VocabtoolError, match=r"list of words.*--rule"):
        Words.of(tmp_path, name="vocab.json")


def changed(tokenizer: Tokenizer, **parts: Any) -> bytes:
    return json.dumps({**json.loads(tokenizer.to_str()), **parts}).encode()


def replacing(pattern: dict[str, str], content: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


DRAWS_LOTS = json.loads(Tokenizer(models.BPE({"a": 0}, [], dropout=0.5)).to_str())["model"]


GROWING = {"type": "Sequence", "normalizers": [replacing({"String": "a"}, "a" * 10)] * 9}
MANY = {"type": "Sequence", "normalizers": [{"type": "Lowercase"}] * 1_001}
ENDLESS = {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Removed", "invert": False}
LIBRARY = "tokenizer.json: the tokenizers library rejects"


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("normalizer", {"type": "Nonsense"}, LIBRARY),
        ("normalizer", {"type": "Precompiled", "precompiled_charsmap": ""}, LIBRARY),
        ("normalizer", MANY, "tokenizer.json: 1,002 normalizers and pre-tokenizers"),
        ("normalizer", GROWING, "1,000,000,000 times as long"),
        ("normalizer", {"type": "Prepend", "prepend": "a" * 5000}, "prepend 5,000 bytes"),
        # A pattern that takes too long on a text makes the library's Rust code panic.
        ("pre_tokenizer", ENDLESS, "the tokenizers library fails on a text: "),
        ("model", DRAWS_LOTS, r"at random \(dropout 0.5\)"),
    ],
)
def test_refused_files(tmp_path: Path, part: str, value: dict[str, Any], message: str) -> None:
    """Files that the library rejects or that inflate texts are rejected with a reason."""
    file = tmp_path / "tokenizer.json"
    file.write_bytes(changed(made("WordLevel"), **{part: value}))
    error = VocabtoolError if part == "model" else InvalidFile
    with pytest.raises(error, match=message):
        Words.of(file).look_up(["a" * 40 + "b"])


@pytest.mark.parametrize("name", ["WordPiece", "Unigram"])
def test_damaged_files(tmp_path: Path, name: str) -> None:
    """A truncated or damaged file gives words or a VocabtoolError."""
    data = made(name).to_str().encode()
    file = tmp_path / "tokenizer.json"
    outcomes: Counter[str] = Counter()
    for at in range(0, len(data), len(data) // 60):
        for damaged in (data[:at], data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]):
            file.write_bytes(damaged)
            try:
                Words.of(file).look_up(list(AWKWARD[:12]))
                outcomes["words"] += 1
            except VocabtoolError:
                outcomes["refused"] += 1
    assert outcomes["words"] > 5
    assert outcomes["refused"] > 60


def test_the_command(tmp_path: Path) -> None:
    """``words`` on the command line; forking after it causes no warning."""
    made("WordPiece").save(str(tmp_path / "tokenizer.json"))
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    code = (
        "import os, sys\n"
        "from vocabtool.cli.main import cli\n"
        "assert not cli.main(standalone_mode=False)\n"
        "sys.stdout.flush()\n"
    )
    fork = "child = os.fork()\nos.waitpid(child, 0) if child else os._exit(0)\n"
    # This tests the tokenizers library; Python 3.12 itself warns about any thread.
    run = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c"]
    options: dict[str, Any] = {"capture_output": True, "text": True, "env": environment}
    shown = subprocess.run([*run, code + fork, "words", tmp_path, "the fox %"], cwd=ROOT, **options)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "%\t1\tunknown\t[UNK](unknown)" in shown.stdout
