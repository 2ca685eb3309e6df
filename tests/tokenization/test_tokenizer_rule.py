"""Vocabularies of subword pieces need their tokenizer, not a rule of whole words."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import vocabtool
from tests.conftest import ROOT
from vocabtool import Index, VocabtoolError, Vocabulary, Words, open_encoder

SENTENCES = ["the storage permissions", "naïve 日本 cafés", "def f(x):    return x", "unknowable"]
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


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vocabtool", *map(str, arguments)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.fixture(scope="module", params=["wordpiece", "byte-level", "sentencepiece"])
def tokenizer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trained tokenizer as a file."""
    folder = tmp_path_factory.mktemp("tokenizer")
    lines = [*(ROOT / "README.md").read_text("utf-8").splitlines()[:300], *SENTENCES * 9]
    if request.param == "sentencepiece":
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=str(folder / "spiece"),
            vocab_size=800,
            remove_extra_whitespaces=False,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        return folder / "spiece.model"
    made: Any
    trainer: Any
    if request.param == "wordpiece":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        trainer = trainers.WordPieceTrainer(vocab_size=800, special_tokens=["[UNK]"])
    else:
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        trainer = trainers.BpeTrainer(vocab_size=1_000, initial_alphabet=alphabet)
    made.train_from_iterator(lines, trainer)
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


def pieces_of(words: Words, text: str) -> list[str]:
    judged = words.look_up([text])
    assert judged.spelled is not None
    return [p.decode() for code in judged.codes.tolist() for p, _ in judged.spelled.of_word(code)]


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
        assert pieces_of(words, text) == pieces
        (row,) = words.split([text]).to_pylist()
        assert all(word["known"] for word in row) == all(known)
        single = [word for word in row if word["pieces"] == 1 and word["known"]]
        assert all(entries[word["id"]] in pieces for word in single)
    own = Words.of(tokenizer)
    assert words.fingerprint == own.fingerprint
    # A piece that is not an entry makes a word unknown, although the tokenizer knows it.
    missing = pieces_of(own, "the")[-1]
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
        f"tokenizer:{tokenizer}": "not the tokenizer of this model.*--name",
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


def test_an_index_keeps_its_tokenizer(tokenizer: Path, tmp_path: Path) -> None:
    """An index opens after the file is deleted, and ``verify`` reads the copy."""
    entries = vocabtool.extract(tokenizer)
    with pytest.raises(VocabtoolError, match=r"--rule tokenizer:FILE"):
        Index.create(tmp_path / "index", dim=2, vocabulary=entries)
    assert not (tmp_path / "index").exists()
    moved = tmp_path / tokenizer.name
    moved.write_bytes(tokenizer.read_bytes())
    rule = f"tokenizer:{moved}"
    index = Index.create(tmp_path / "index", dim=2, vocabulary=entries, rule=rule)
    with index.writer() as writer:
        writer.add([{"id": "1", "text": TEXTS[0]}], np.ones((1, 2), np.float32))
    moved.unlink()
    opened = Index.open(tmp_path / "index")
    found = opened.search("storage permissions", vector=np.ones(2, np.float32), explain=True)
    assert [word.known for word in found.query.words] == [True, True]
    assert opened.verify().documents == 1
    other = tmp_path / "index" / f"tokenizer-{'0' * 64}"
    other.write_text("of an index that was here before")
    with opened.writer() as writer:
        writer.delete(["1"])
    (copy,) = (tmp_path / "index").glob("tokenizer-*")
    assert copy != other
    data = bytearray(copy.read_bytes())
    data[-1] ^= 1
    copy.write_bytes(data)
    with pytest.raises(VocabtoolError, match=copy.name):
        Index.open(tmp_path / "index").verify()


def test_commands(tokenizer: Path, vectors: Path, tmp_path: Path) -> None:
    """``words``, ``oov``, ``diff``, ``embed`` and ``index`` accept it, and need it."""
    rule = ("--rule", f"tokenizer:{tokenizer}")
    entries = vectors.with_suffix(".txt")
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(TEXTS), "utf-8")
    for asked in (
        ("words", entries, "the", "--rule", "lower"),
        ("oov", entries, corpus, "--rule", "whitespace"),
        ("embed", corpus, "--model", vectors, "-o", tmp_path / "shards"),
        ("index", corpus, "--model", vectors, "-o", tmp_path / "refused"),
    ):
        done = run(*asked)
        assert done.returncode == 3
        assert "--rule tokenizer:FILE" in done.stderr
    shown = run("words", entries, TEXTS[0], *rule, "--format", "json")
    (text,) = json.loads(shown.stdout)["texts"]
    pieces = [piece for word in text["words"] for piece in word["pieces"]]
    assert pieces == library(tokenizer, TEXTS[0])[0]
    counted = json.loads(run("oov", entries, corpus, *rule, "--format", "json").stdout)
    own = json.loads(run("oov", tokenizer, corpus, "--format", "json").stdout)
    assert counted["tokens"] == own["tokens"]
    told = run("diff", entries, tokenizer, "--corpus", corpus, *rule, "--format", "json")
    use = json.loads(told.stdout)["use"]["tokens"]
    each = [library(tokenizer, line) for line in TEXTS]
    assert use["all"] == sum(len(pieces) for pieces, _ in each)
    assert use["both"] == sum(sum(known) for _, known in each)
    for command in ("index", "embed"):
        given = (command, corpus, "--model", vectors, *rule, "--weights", "none")
        made = run(*given, "-o", tmp_path / command)
        assert made.returncode == 0, made.stderr
    found = run("search", tmp_path / "index", "permission", "--explain")
    assert "permission" in found.stdout, found.stderr
