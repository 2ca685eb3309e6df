"""Tokenizers of GGUF, tiktoken, BPE folders and vocab.txt, and as the rule of other entries.

Each splits as the library that owns it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

import vocabtool
from tests.conftest import ROOT
from vocabtool import Index, Vocabulary, Words, open_encoder
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError

HARD = (
    *("", " ", "  ", "\n", "\n\n\n", "\t", "\r\n", "Hello world", " Hello  World!", "Hi, y'all!"),
    *("don't I'LL we'Ve 'S", "3 33 333 3333 33333 12345678", "a_b-c/d\\e//\n;;", "x" * 99),
    *("naïve Café e\u0301e\u0301 ÅÄö", "нещо на Български", "កាន់តែពិសេស", "日本語のカナ 한국어 ไทย"),
    *("🚀 (normal) 😶‍🌫️ ✅ 👩‍👩‍👧‍👦 🇩🇪 ☕️", "ΑΒΓ camelCaseΣ ÉTÉ", "lone\rCR", "the" * 30),
    *("def f(x):\n    return  x\n\n\n  ", "=-" * 40, "-" * 77 + "=" * 33, " " * 130 + "the"),
    *("İstanbul ß ﬁ Ⅳ", "\u2028\u0085a\ufeffb", "deadbeef VGhpcyBpcw==", "aaaaabaaaaaab" * 3),
    *("\n \n\n \t\t\n  x", "<s>the</s> [MASK] <|end|>", "\x01\x7f a", "no\u00a0break\u2009\u3000x"),
    "it's 'told he's there, 'RE",
)


GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
QWEN2 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
OF_GPT2 = ("gpt2", "r50k_base", "p50k_base", "p50k_edit")


def pieces_of(words: Words, text: str) -> list[bytes]:
    judged = words.look_up([text])
    assert judged.spelled is not None
    return [p for code in judged.codes.tolist() for p, _ in judged.spelled.of_word(code)]


def ids(words: Words, text: str, unknown: int = -1) -> list[int]:
    """Return the ids of a text's pieces by the vocabulary."""
    entries, numbers = words.vocabulary.positions, words.vocabulary.id_array()
    return [int(numbers[entries[p]]) if p in entries else unknown for p in pieces_of(words, text)]


def lines() -> list[str]:
    return [*(ROOT / "README.md").read_text("utf-8").splitlines(), *HARD * 3]


def write(path: Path, model: str, tokens: list[Any], **keys: Any) -> Path:
    """Write a GGUF file; keys are the methods ``add_...`` of the library."""
    library = pytest.importorskip("gguf", reason="gguf writes the files")
    writer = library.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_token_list(tokens)
    for key, value in keys.items():
        getattr(writer, f"add_{key}")(*(value if isinstance(value, tuple) else [value]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def parsed_proto(model: bytes) -> Any:
    return import_module("sentencepiece.sentencepiece_model_pb2").ModelProto.FromString(model)


def typed(tokenizer: Any) -> Tokenizer:
    assert isinstance(tokenizer, Tokenizer)
    return tokenizer


GGUFS = ("bert-bge", "gpt-2", "llama-bpe", "llama-spm")


@pytest.mark.parametrize("name", GGUFS)
def test_gguf_as_llama_cpp(name: str, shared: Path) -> None:
    """Every text of llama.cpp's own tests has llama.cpp's ids."""
    file = shared / "files" / "gguf" / f"ggml-vocab-{name}.gguf"
    texts = Path(f"{file}.inp").read_text("utf-8").split("\n__ggml_vocab_test__\n")
    wanted = Path(f"{file}.out").read_text("utf-8").split("\n")
    words = Words.of(file)
    assert words.how == "recovered"
    assert len(texts) == len(wanted) == 47
    for text, line in zip(texts, wanted, strict=True):
        assert ids(words, text) == list(map(int, line.split())), text


@cache
def sentence_model(model_type: str, options: tuple[tuple[str, Any], ...]) -> bytes:
    made = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines()), model_writer=made, model_type=model_type,
        vocab_size=900, hard_vocab_limit=False, minloglevel=2, **dict(options),
    )  # fmt: skip
    return made.getvalue()


def of_sentencepiece(path: Path, model: bytes, kind: str, **keys: Any) -> Path:
    """Write a SentencePiece model as llama.cpp's converter does."""
    parsed = parsed_proto(model)
    return write(
        path, kind, [piece.piece for piece in parsed.pieces],
        token_scores=[piece.score for piece in parsed.pieces],
        token_types=[piece.type for piece in parsed.pieces],
        unk_token_id=parsed.trainer_spec.unk_id,
        add_space_prefix=parsed.normalizer_spec.add_dummy_prefix, **keys,
    )  # fmt: skip


@pytest.mark.parametrize("prefix", [True, False])
def test_gguf_of_scored_pieces(prefix: bool, tmp_path: Path) -> None:
    """SentencePiece's BPE: equal to the library that trained it."""
    options = {
        "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
        "byte_fallback": True, "add_dummy_prefix": prefix,
    }  # fmt: skip
    model = sentence_model("bpe", tuple(options.items()))
    words = Words.of(of_sentencepiece(tmp_path / "m.gguf", model, "llama"))
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    for text in HARD:
        assert ids(words, text) == library.encode(text), text
    assert words.unknown("☃ 日本 the") == []


@pytest.mark.parametrize("extra", [True, False])
def test_gguf_of_unigrams(extra: bool, tmp_path: Path) -> None:
    """SentencePiece's unigram model with its table of characters (T5, XLM-R)."""
    model = sentence_model("unigram", (("remove_extra_whitespaces", extra),))
    spec = parsed_proto(model).normalizer_spec
    file = of_sentencepiece(
        tmp_path / "m.gguf", model, "t5", remove_extra_whitespaces=extra,
        precompiled_charsmap=spec.precompiled_charsmap,
    )  # fmt: skip
    words, library = Words.of(file), sentencepiece.SentencePieceProcessor(model_proto=model)
    for text in HARD:
        # of blanks alone, llama.cpp and SentencePiece differ; long runs have equal sums of scores
        if (extra or text.strip()) and len(text) < 60:
            assert ids(words, text, library.unk_id()) == library.encode(text), text
    assert words.unknown("the ☃ the") == ["☃"]


@cache
def word_pieces(lower: bool) -> Tokenizer:
    made: Any = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lower)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=900, special_tokens=special)
    made.train_from_iterator(lines(), trainer)
    return typed(made)


def in_order(vocabulary: Mapping[str, int]) -> list[str]:
    return sorted(vocabulary, key=vocabulary.__getitem__)


@pytest.mark.parametrize("lower", [True, False])
def test_gguf_of_word_pieces(lower: bool, tmp_path: Path) -> None:
    """BERT: the file marks starts of words; a special token in a text is text."""
    library = word_pieces(lower)
    entries = in_order(library.get_vocab())
    marked = [
        e if e.startswith("[") and e[1:] else e[2:] if e[:2] == "##" else f"▁{e}" for e in entries
    ]
    lowercase = ("tokenizer.ggml.normalizer.lowercase", lower)
    file = write(tmp_path / "m.gguf", "bert", marked, unk_token_id=1, bool=lowercase)
    words = Words.of(file)
    for text in HARD:
        if "[MASK]" not in text:
            assert ids(words, text) == library.encode(text).ids, text
    assert library.token_to_id("[MASK]") not in ids(words, "[MASK]")


@cache
def byte_pairs(pattern: str, suffix: str = "") -> Tokenizer:
    """Train byte-level BPE whose texts a pattern splits."""
    made: Any = Tokenizer(models.BPE(end_of_word_suffix=suffix))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    alphabet = [*pre_tokenizers.ByteLevel.alphabet()]
    trainer = trainers.BpeTrainer(
        vocab_size=1_200, initial_alphabet=alphabet, end_of_word_suffix=suffix, min_frequency=2
    )
    made.train_from_iterator(lines(), trainer)
    return typed(made)


def merges_of(tokenizer: Tokenizer) -> list[str]:
    listed = json.loads(tokenizer.to_str())["model"]["merges"]
    return [merge if isinstance(merge, str) else " ".join(merge) for merge in listed]


@pytest.mark.parametrize(
    ("pre", "pattern"), [("gpt-2", GPT2), ("qwen2", QWEN2), ("llama-bpe", LLAMA3)]
)
def test_gguf_of_byte_pairs(pre: str, pattern: str, tmp_path: Path) -> None:
    """User-defined tokens are kept whole, control tokens are text."""
    library = byte_pairs(pattern)
    tokens = [*in_order(library.get_vocab()), "<|user|>", "<|control|>"]
    types = [1] * (len(tokens) - 2) + [4, 3]
    file = write(
        tmp_path / "m.gguf", "gpt2", tokens, tokenizer_pre=pre, token_types=types,
        token_merges=merges_of(library),
    )  # fmt: skip
    words = Words.of(file)
    for text in HARD:
        assert ids(words, text) == library.encode(text).ids, text
    assert ids(words, "a<|user|>") == [*library.encode("a").ids, len(tokens) - 2]
    assert ids(words, "<|control|>") == library.encode("<|control|>").ids


REFUSED: dict[str, tuple[str, dict[str, Any], type[VocabtoolError], str]] = {
    "unknown pattern": ("gpt2", {"tokenizer_pre": "new-2027", "token_merges": ["a b"]},
                        UnsupportedFormat, "pre-tokenizer 'new-2027'.*--rule tokenizer:FILE"),
    "unknown model": ("rwkv", {}, UnsupportedFormat, "tokenizer 'rwkv' is not supported"),
    "no merges": ("gpt2", {"tokenizer_pre": "gpt-2"}, InvalidFile, "no merges"),
    "no scores": ("llama", {}, InvalidFile, "no scores"),
    "no types": ("t5", {"token_scores": [0.0] * 5}, InvalidFile, "no types"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_gguf(case: str, tmp_path: Path) -> None:
    """Each error names the file and what is wrong; entries are read all the same."""
    model, keys, kind, message = REFUSED[case]
    file = write(tmp_path / "m.gguf", model, ["<unk>", "a", "b", "ab", "▁a"], **keys)
    with pytest.raises(kind, match=f"m.gguf.*{message}"):
        Words.of(file)
    assert len(vocabtool.extract(file)) == 5


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([b"a", b"a"], "1 tokens occur twice"),
        ([b"\xff"], "not UTF-8"),
        ([b"a" * 1_000], "a token has 1,000 characters; wanted at most 512"),
    ],
)
def test_refused_tokens(tokens: list[bytes], message: str, tmp_path: Path) -> None:
    """Tokens that occur twice, are not text, or are too long."""
    file = write(tmp_path / "m.gguf", "llama", tokens, token_scores=[0.0] * len(tokens))
    with pytest.raises(InvalidFile, match=message):
        Words.of(file)


def ranks_of(tokenizer: Tokenizer) -> dict[bytes, int]:
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]  # GPT-2's alphabet of bytes
    others = [byte for byte in range(256) if byte not in plain]
    number = {chr(byte): byte for byte in plain}
    number |= {chr(256 + at): byte for at, byte in enumerate(others)}
    tokens = [bytes(map(number.__getitem__, token)) for token in in_order(tokenizer.get_vocab())]
    return {token: rank for rank, token in enumerate(sorted(tokens, key=len))}


def write_ranks(file: Path, ranks: Mapping[bytes, int]) -> Path:
    file.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % rank for t, rank in ranks.items()))
    return file


def encoding(name: str, ranks: dict[bytes, int], patch: pytest.MonkeyPatch) -> Any:
    """Return tiktoken's encoding of a name with other ranks."""
    tiktoken = pytest.importorskip("tiktoken", reason="the oracle of ranks")
    openai_public = import_module("tiktoken_ext.openai_public")
    for loader in ("load_tiktoken_bpe", "data_gym_to_mergeable_bpe_ranks"):
        patch.setattr(openai_public, loader, lambda *_, **__: ranks)
    facts = openai_public.ENCODING_CONSTRUCTORS[name]()
    facts.pop("explicit_n_vocab", None)
    return tiktoken.Encoding(**facts)


@pytest.mark.parametrize("name", [*OF_GPT2, "cl100k_base", "o200k_base", "o200k_harmony"])
def test_named_encodings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ids and the bytes of tiktoken, with any ranks."""
    ranks = ranks_of(byte_pairs(LLAMA3))
    library = encoding(name, ranks, monkeypatch)
    file = write_ranks(tmp_path / "own.tiktoken", ranks)
    words = Words.of(file, rule=f"tiktoken:{name}")
    assert words.how == "named"
    for text in HARD:
        assert ids(words, text) == library.encode_ordinary(text), text
    assert b"".join(map(str.encode, words.pieces("naïve"))) == "naïve".encode()
    with pytest.raises(VocabtoolError, match=r"own\.tiktoken.*--rule tiktoken:ENCODING"):
        Words.of(file)


def test_published_ranks(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that OpenAI publishes is known by its content; Whisper's ranks need a name."""
    folder = shared / "files" / "tiktoken"
    known = Words.of(folder / "r50k_base.tiktoken")
    named = Words.of(folder / "multilingual.tiktoken", rule="tiktoken:gpt2")
    assert (known.how, named.how) == ("recovered", "named")
    for words in (known, named):
        stored = zip(words.vocabulary.stored, words.vocabulary.id_array().tolist(), strict=True)
        ranks = {token: rank for token, rank in stored if token}
        library = encoding("r50k_base", ranks, monkeypatch)
        for text in HARD:
            assert ids(words, text) == library.encode_ordinary(text), text


def test_ranks_with_a_pattern(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``tekken.json`` says its pattern; ids count its special tokens."""
    ranks = ranks_of(byte_pairs(LLAMA3))
    library = encoding("o200k_base", ranks, monkeypatch)
    pattern = library._pat_str
    file = tmp_path / "tekken.json"
    listed = [
        {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
        for token, rank in ranks.items()
    ]
    config = {"pattern": pattern, "default_num_special_tokens": 30,
              "default_vocab_size": len(ranks) + 30, "version": "v3"}  # fmt: skip
    file.write_text(json.dumps({"config": config, "vocab": listed}))
    words = Words.of(file)
    for text in HARD:
        assert ids(words, text) == [30 + each for each in library.encode_ordinary(text)], text


def test_refused_rules() -> None:
    """Entries of another kind, and an unknown encoding."""
    glove = ROOT / "data" / "small_glove.txt"
    for rule, message in {
        "tiktoken:cl200k": "unknown encoding 'cl200k'.*cl100k_base",
        "tiktoken:cl100k_base": "of the 256 byte values are not entries",
        "bert-uncased": "needs pieces that begin with ##",
    }.items():
        with pytest.raises(VocabtoolError, match=message):
            Words.of(glove, rule=rule)


def test_every_tokenizer_as_a_rule(tmp_path: Path) -> None:
    """``tokenizer:FILE`` takes GGUF, folders and Keras; an index keeps the rule alone."""
    library = byte_pairs(GPT2)
    tokens = in_order(library.get_vocab())
    file = write(
        tmp_path / "m.gguf", "gpt2", tokens, tokenizer_pre="gpt-2", token_merges=merges_of(library)
    )
    entries = vocabtool.extract(file)
    own = Words.of(file)
    for path in (file, tmp_path):
        words = Words.of(entries, rule=f"tokenizer:{path}")
        assert (words.how, words.fingerprint) == ("named", own.fingerprint)
    rule = f"tokenizer:{file}"
    index = Index.create(tmp_path / "index", dim=2, vocabulary=entries, rule=rule)
    with index.writer() as writer:
        writer.add([{"id": "1", "text": "the storage"}], np.ones((1, 2), np.float32))
    file.unlink()
    (copy,) = (tmp_path / "index").glob("tokenizer-*")
    assert json.loads(copy.read_bytes())["model"]["type"] == "BPE"
    assert Index.open(tmp_path / "index").verify().documents == 1
    assert Words.of(entries, rule=f"tokenizer:{copy}").fingerprint == own.fingerprint
    data = bytearray(copy.read_bytes())
    data[-1] ^= 1
    copy.write_bytes(data)
    with pytest.raises(VocabtoolError, match=copy.name):
        Index.open(tmp_path / "index").verify()
    keras = tmp_path / "keras.json"
    config = {"num_words": None, "filters": "!", "lower": True, "split": " ", "char_level": False,
              "oov_token": None, "word_index": json.dumps({"the": 1, "cat": 2}),
              "index_word": json.dumps({"1": "the", "2": "cat"}), "word_counts": "{}",
              "word_docs": "{}", "index_docs": "{}", "document_count": 1}  # fmt: skip
    keras.write_text(json.dumps({"class_name": "Tokenizer", "config": config}))
    words = Words.of(vocabtool.extract(keras), rule=f"tokenizer:{keras}")
    assert words.unknown("The CAT! sat") == ["sat"]


TEXTS = ["the storages", "", "    return  zzz", "日本☃ 🎉", "the the permission"]
MARKED = {
    "▁": ["▁the", "▁sto", "rage", "s"],
    "Ġ": ["Ġthe", "Ġsto", "rage", "s"],
    " ": [" the", " sto", "rage", "s"],
    "##": ["the", "sto", "##rage", "##s"],
    "</w>": ["the</w>", "sto", "rage</w>", "s"],
    "@@": ["the", "sto@@", "rage", "s"],
}


def listed(folder: Path, entries: Sequence[str], **changes: Any) -> Vocabulary:
    """Return a vocabulary of these entries."""
    file = folder / "entries.json"
    file.write_text(json.dumps({entry: number for number, entry in enumerate(entries)}), "utf-8")
    return replace(vocabtool.extract(file), marker=None, **changes)


@pytest.fixture(scope="module", params=["wordpiece", "byte-level", "sentencepiece"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trained tokenizer as a file."""
    folder = tmp_path_factory.mktemp("tokenizer")
    if request.param == "sentencepiece":
        model = sentence_model("unigram", (("remove_extra_whitespaces", False),))
        (folder / "spiece.model").write_bytes(model)
        return folder / "spiece.model"
    made = word_pieces(lower=False) if request.param == "wordpiece" else byte_pairs(GPT2)
    made.save(str(folder / "tokenizer.json"))
    return folder / "tokenizer.json"


def library(file: Path, text: str) -> tuple[list[str], list[bool]]:
    """Return the pieces of the tokenizer's library, and the known ones."""
    if file.suffix == ".model":
        processor = sentencepiece.SentencePieceProcessor(model_file=str(file))
        known = [i != processor.unk_id() for i in processor.encode(text)]
        return processor.encode(text, out_type=str), known
    pieces = Tokenizer.from_file(str(file)).encode(text, add_special_tokens=False).tokens
    return pieces, [piece != "[UNK]" for piece in pieces]


@pytest.fixture
def vectors(tokenizer: Path, tmp_path: Path) -> Path:
    """``w.npy`` next to ``w.txt``: the pieces in another order than the tokenizer's."""
    entries = [*vocabtool.extract(tokenizer).stored][::-1]
    rows = np.random.default_rng(0).normal(size=(len(entries), 5)).astype(np.float32)
    np.save(tmp_path / "w.npy", rows)
    (tmp_path / "w.txt").write_bytes(b"".join(entry + b"\n" for entry in entries))
    return tmp_path / "w.npy"


def means(tokenizer: Path, vectors: Path) -> NDArray[np.float64]:
    """Return the mean of the rows of each text's known pieces, of unit length."""
    entries = vectors.with_suffix(".txt").read_text("utf-8").split("\n")[:-1]
    matrix = np.load(vectors).astype(np.float64)
    found = np.zeros((len(TEXTS), matrix.shape[1]))
    for at, text in enumerate(TEXTS):
        pairs = zip(*library(tokenizer, text), strict=True)
        rows = [entries.index(piece) for piece, known in pairs if known]
        if rows:
            mean = matrix[rows].mean(axis=0)
            found[at] = mean / np.linalg.norm(mean)
    return found


@pytest.mark.parametrize("marker", MARKED)
@pytest.mark.parametrize("rule", ["whitespace", "lower", "keras", "ptb", "words", "regex:[a-z]+"])
def test_pieces_get_no_word_rule(marker: str, rule: str, tmp_path: Path) -> None:
    """With any marker and any rule."""
    entries = listed(tmp_path, MARKED[marker], kind="list")
    with pytest.raises(VocabtoolError, match=r"subword pieces .*--rule tokenizer:FILE"):
        Words.of(entries, rule=rule)
    unmarked = listed(tmp_path, ["日", "本"], kind="unigram")
    with pytest.raises(VocabtoolError, match=r"subword pieces \(unigram\)"):
        Words.of(unmarked, rule=rule)


GLOVE = ROOT / "data" / "small_glove.txt"
STRANGE = ["#", "##", "@@", "▁", "</w>", "Ġ", " ", "##a", "▁▁", "x@@", "#metoo", "Ġorġ"]


@pytest.mark.parametrize("strange", [[], STRANGE])
def test_lists_of_words_keep_their_rules(strange: list[str], tmp_path: Path) -> None:
    """Real words that look like markers, as in web crawls."""
    words = [*vocabtool.extract(GLOVE), *strange]
    entries = listed(tmp_path, words, kind="vectors")
    assert Words.of(entries, rule="ptb").unknown("the market") == []
    gensim = pytest.importorskip("gensim")
    folder = Path(gensim.__file__).parent / "test" / "test_data"
    for name in ("lee_fasttext.vec", "euclidean_vectors.bin", "test_glove.txt", "toy-model.vec"):
        assert Words.of(folder / name, rule="lower").how == "named"


def test_words_by_a_tokenizer(tokenizer: Path, vectors: Path, tmp_path: Path) -> None:
    """Pieces with the ids of these entries; a word is known if all its pieces are."""
    words = Words.of(vectors.with_suffix(".txt"), rule=f"tokenizer:{tokenizer}")
    entries = [*words.vocabulary]
    for text in TEXTS:
        pieces, known = library(tokenizer, text)
        assert pieces_of(words, text) == [piece.encode() for piece in pieces]
        (row,) = words.split([text]).to_pylist()
        assert all(word["known"] for word in row) == all(known)
        single = [word for word in row if word["pieces"] == 1 and word["known"]]
        assert all(entries[word["id"]] in pieces for word in single)
    own = Words.of(tokenizer)
    assert words.fingerprint == own.fingerprint
    # A piece that is not an entry makes a word unknown, although the tokenizer knows it.
    missing = pieces_of(own, "the")[-1].decode()
    left = listed(tmp_path, [entry for entry in own.vocabulary if entry != missing], kind="list")
    assert own.unknown("the") == []
    assert Words.of(left, rule=f"tokenizer:{tokenizer}").unknown("the") == ["the"]


def test_a_folder_of_a_tokenizer(tokenizer: Path, vectors: Path, tmp_path: Path) -> None:
    """A folder means the tokenizer.json or .model in it; an empty folder is an error."""
    (tmp_path / "empty").mkdir()
    entries = vectors.with_suffix(".txt")
    with pytest.raises(VocabtoolError, match=r"empty: no such file .*folder"):
        Words.of(entries, rule=f"tokenizer:{tmp_path}/empty")
    of_folder = Words.of(entries, rule=f"tokenizer:{tokenizer.parent}")
    of_file = Words.of(entries, rule=f"tokenizer:{tokenizer}")
    assert of_folder.split(TEXTS).equals(of_file.split(TEXTS))


def test_another_tokenizer_is_refused(tokenizer: Path, tmp_path: Path) -> None:
    """Another tokenizer, or a file that is not one, is rejected with a reason."""
    for rule, message in {
        f"tokenizer:{tokenizer}": "not the tokenizer of this model.*MODEL#NAME",
        f"tokenizer:{GLOVE}": r"expected a tokenizer\.json",
        f"tokenizer:{tmp_path}/none.json": r"no such file.*tokenizer\.json",
    }.items():
        with pytest.raises(VocabtoolError, match=message):
            Words.of(GLOVE, rule=rule)


def test_an_encoder_of_pieces(tokenizer: Path, vectors: Path) -> None:
    """The mean of the rows of a text's pieces; an error without the tokenizer."""
    with pytest.raises(VocabtoolError, match=r"--rule tokenizer:FILE"):
        open_encoder(vectors)
    with pytest.raises(VocabtoolError, match=r"--rule tokenizer:FILE"):
        open_encoder(vectors, rule="ptb")
    encoder = open_encoder(vectors, rule=f"tokenizer:{tokenizer}", weights="none")
    np.testing.assert_allclose(encoder.encode(TEXTS), means(tokenizer, vectors), atol=1e-6)
