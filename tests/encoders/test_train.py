"""Word vectors of one's own corpus: the formulae, the limits, and the file as a MODEL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import vocabtool
from tests.cli.running import run
from vocabtool import InvalidFile, NotFound, VocabtoolError, train
from vocabtool.documents import ReadOptions

WINDOW = 3


def drawn(seed: int = 0, texts: int = 60, words: int = 36) -> list[str]:
    """Texts of 20 words; a few words are common, many are rare."""
    generator = np.random.default_rng(seed)
    chances = 1 / np.arange(1, words + 1)
    rows = generator.choice(words, (texts, 20), p=chances / chances.sum())
    return [" ".join(f"w{word}" for word in row) for row in rows]


def textbook(texts: Iterable[str], chosen: list[str], window: int) -> NDArray[np.float64]:
    place = {word: row for row, word in enumerate(chosen)}
    near = np.zeros((len(chosen), len(chosen)))
    for text in texts:
        ids = [place.get(word) for word in text.split()]
        for (i, a), (j, b) in product(enumerate(ids), repeat=2):
            if a is not None and b is not None and 0 < abs(i - j) <= window:
                near[a, b] += window + 1 - abs(i - j)
    smooth = near.sum(axis=0) ** 0.75
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(near / np.outer(near.sum(axis=1), smooth / smooth.sum())), 0)


def trained(*sources: Iterable[str], **options: Any) -> Any:
    """Few dimensions, whole words between blanks; a batch of texts from each source."""
    given = {"rule": "whitespace", "dim": 5, "window": WINDOW, "min_count": 1}
    return train([iter(texts) for texts in sources], **{**given, **options})


def same(one: Any, other: Any) -> bool:
    return bool(one.words == other.words and one.vectors.tobytes() == other.vectors.tobytes())


# The formulae.


@pytest.mark.parametrize("dim", [1, 5, 29])
def test_textbook(dim: int) -> None:
    """Pairs counted one by one and NumPy's full SVD give the same cosines."""
    texts = drawn()
    model = trained(texts, dim=dim, max_words=30)
    count = Counter(word for text in texts for word in text.split())
    assert model.words == sorted(count, key=lambda word: (-count[word], word))[:30]
    assert (model.documents, model.tokens) == (60, 1_200)
    left, strength, _ = np.linalg.svd(textbook(texts, model.words, WINDOW))
    rows = left[:, :dim] * np.sqrt(strength[:dim])
    wanted = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(model.vectors @ model.vectors.T, wanted @ wanted.T, atol=1e-4)
    assert same(trained(texts[::-1], dim=dim, max_words=30), model)
    first = trained(texts, dim=29, max_words=30).vectors[:, :dim]  # what --dim keeps
    first = first / np.linalg.norm(first, axis=1, keepdims=True)
    np.testing.assert_allclose(first @ first.T, wanted @ wanted.T, atol=1e-4)


def test_texts_are_apart_and_blocks_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pair spans two texts; every pair that spans two blocks or batches is counted."""
    texts = drawn(texts=100)
    whole = trained(texts)
    monkeypatch.setattr("vocabtool.encoders.train.BLOCK", 121)  # the last one has 1 word
    assert same(trained(texts[:7], texts[7:]), whole)
    assert not same(trained([" ".join(texts)]), whole)


def test_words_that_get_no_vector() -> None:
    """Rare ones, those of more than 100 bytes, with NUL; words around them are as far as before."""
    long = "x" * 101
    texts = [f"a {long} b \0 c once", "a b c", "b a c"] * 4 + ["naïve \udcff a b"] * 2
    model = trained(texts, min_count=2, dim=2)
    assert model.words == ["a", "b", "c", "once", "naïve", "\udcff"]
    spaced = [text.replace(long, "?").replace("\0", "!") for text in texts]
    assert same(trained(spaced, dim=2, max_words=3), trained(texts, dim=2, max_words=3))
    alone = trained(["a b", "b a", "c"], dim=2)
    assert alone.words == ["a", "b", "c"]
    assert alone.vectors[2].tolist() == [0, 0]  # without any neighbour


# The file.


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors of small texts, with a rule that would not be guessed."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "texts.jsonl").write_text("".join(f'{{"text": "{text}"}}\n' for text in drawn()))
    done = run("train", folder / "texts.jsonl", "-o", folder / "words.npz", *OPTIONS)
    assert done.returncode == 0, done.stderr
    assert (
        b"words.npz: 36 words, 4 dimensions, trained on 1,200 words of 60 documents" in done.stderr
    )
    assert done.stdout == b""
    return folder / "words.npz"


RULE = "regex:[a-z0-9]+"
OPTIONS = ("--dim", "4", "--rule", RULE, "--min-count", "1")


def test_it_is_a_model_everywhere(model: Path, tmp_path: Path) -> None:
    """Every command takes it, and none needs a rule."""
    texts = str(model.with_name("texts.jsonl"))
    assert vocabtool.Words.of(model).how == "recovered"
    encoder = vocabtool.open_encoder(model, weights="none")
    assert (encoder.notes, encoder.options.rule) == ((), RULE)
    np.testing.assert_allclose(np.linalg.norm(encoder.encode(["w1-w2"]), axis=1), 1, atol=1e-6)
    assert f"rule: {RULE}".encode() in run("inspect", model).stdout
    for command in (
        ("oov", model, texts),
        ("index", texts, "--model", model, "-o", tmp_path / "index"),
        ("search", tmp_path / "index", "w1"),
    ):
        done = run(*command)
        assert done.returncode == 0, done.stderr
        assert b"no --rule given" not in done.stderr


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (["tokenizer:/etc/passwd"], "tokenizer:/etc/passwd"),
        (["ptb", "lower"], "got 2"),
        (["regex:" + "x" * 5_000], "at most 4,096 characters"),
        ([5], "words of type int64"),
    ],
)
def test_a_rule_that_no_model_may_state(rule: list[Any], reason: str, tmp_path: Path) -> None:
    """A file cannot make vocabtool open another one, or have several rules."""
    path, vectors = tmp_path / "words.npz", np.ones((1, 2), np.float32)
    np.savez(path, words=np.array(["a"]), vectors=vectors, rule=np.array(rule))
    for opened in (vocabtool.open_encoder, vocabtool.Words.of):
        with pytest.raises(VocabtoolError, match=r"words\.npz") as caught:
            opened(path)
        assert reason in str(caught.value)


# Errors.


@pytest.mark.parametrize(
    ("texts", "options", "reason"),
    [
        ([], {}, "no document"),
        (["", " "], {}, "got 0 among 0 words"),
        (["a b", "c d"], {"min_count": 2}, "--min-count 2 times or more, got 0 among 4 words"),
        (["a b c"] * 3, {"dim": 3}, "more than 3 different words .* got 3 among 9 words"),
        (["a", "b"], {"dim": 1}, "no two words"),
        (["a b"], {"rule": "bert-uncased"}, "cannot be used. A rule must find whole words"),
        (["a b"], {"rule": "regex:("}, "not a valid RE2 pattern"),
    ],
)
def test_errors(texts: list[str], options: dict[str, Any], reason: str) -> None:
    """Texts with nothing to learn, and settings that cannot work."""
    with pytest.raises(VocabtoolError, match=reason):
        trained(texts, **options)
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        trained(texts, window=0)
    with pytest.raises(ValueError, match=r"dim must be a whole number, got 2\.5"):
        trained(texts, dim=2.5)


def test_invalid_rows_and_files(tmp_path: Path) -> None:
    """A row that is not one is an error with its place, or skipped and counted; so are names."""
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "a b"}\n{"text": 5}\n')
    with pytest.raises(InvalidFile, match=r"texts\.jsonl:2"):
        train(path, min_count=1)
    assert train(path, read=ReadOptions(on_error="skip"), min_count=1, dim=1).words == ["a", "b"]
    for text in ("Is it so?", "long text " * 1_000):
        with pytest.raises(NotFound, match=r"pass texts as iter\(texts\)$") as caught:
            train([text])
        assert len(str(caught.value)) < 200
    command = ("train", path, "--on-error", "skip", "--min-count", "1", "--dim", "1", "-o")
    for output, code, reason in (
        (tmp_path / "words.npz", 0, b"1 row skipped"),
        (tmp_path / "words.txt", 2, b"expected a file that ends in .npz"),
        (tmp_path / "no" / "words.npz", 3, b"the folder does not exist"),
    ):
        done = run(*command, output, cwd=tmp_path)
        assert (done.returncode, reason in done.stderr) == (code, True), done.stderr
        assert b"Traceback" not in done.stderr


def test_progress() -> None:
    """Three steps; each ends at its end, and the reading of an iterator has no known end."""
    shown: list[tuple[str, float]] = []
    trained(drawn(), progress=lambda step, share: shown.append((step, share)))
    last = dict(shown)
    assert list(last) == ["texts read", "neighbours counted", "vectors computed"]
    assert [*last.values()] == [0, 1, 1]
