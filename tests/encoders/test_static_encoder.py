"""Static encoders: means by the textbook, fitted weights that are the same bytes, no NaN."""

from __future__ import annotations

import json
import math
import os
import pickle
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.encoder_cases import MATRIX, WORDS, write_vectors
from vocabtool import WordVectors, open_encoder
from vocabtool.errors import InvalidFile, NotFound, VocabtoolError

DIM = MATRIX.shape[1]
SAMPLE = ["i love xapian", "to use or not to use", "i use it", "naïve naïve love", "nothing here"]
TEXTS = [*SAMPLE, "", "日本 to love", "to to to to naïve"]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An archive of seven words."""
    return write_vectors(tmp_path_factory.mktemp("static") / "vectors.npz", WORDS, MATRIX)


def opened(path: Path, **options: Any) -> Any:
    """By the rule that the oracle can."""
    return open_encoder(path, kind="static", **{"rule": "lower"} | options)


def known_words(text: str) -> list[str]:
    """The oracle's rule."""
    return [word for word in text.lower().split() if word in WORDS]


def textbook_weights(kind: str, sample: list[str]) -> dict[str, float]:
    """The formulas, word by word in float64."""
    words = [known_words(text) for text in sample]
    standing = Counter(word for text in words for word in text)
    holding = Counter(word for text in words for word in set(text))
    total = sum(standing.values())
    return {
        word: {
            "none": 1.0,
            "idf": math.log((1 + len(sample)) / (1 + holding[word])) + 1,
            "sif": 1e-3 / (1e-3 + standing[word] / total),
        }[kind]
        for word in WORDS
    }


def textbook_means(texts: list[str], weights: dict[str, float]) -> NDArray[np.float64]:
    """Weighted means in float64, a loop over words."""
    means = np.zeros((len(texts), DIM))
    for number, text in enumerate(texts):
        words = known_words(text)
        for word in words:
            vector = MATRIX[WORDS.index(word)].astype(float)
            means[number] += weights[word] * vector / len(words)
    return means


def textbook(
    kind: str, *, remove: bool, sample: list[str], texts: list[str]
) -> NDArray[np.float64]:
    """Arora, Liang, Ma 2017, algorithm 1; then unit length."""
    weights = textbook_weights(kind, sample)
    means = textbook_means(texts, weights)
    if remove:
        component = np.linalg.svd(textbook_means(sample, weights))[2][0]
        means -= np.outer(means @ component, component)
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(means, norms, out=np.zeros_like(means), where=norms > 0)
    return unit


@pytest.mark.parametrize("remove", [False, True])
@pytest.mark.parametrize("kind", ["none", "idf", "sif"])
def test_textbook(vectors: Path, kind: str, remove: bool) -> None:
    """Each weighting, with and without its component, is the formula's to 1e-6."""
    encoder = opened(vectors, weights=kind, remove_component=remove).fit(SAMPLE)
    wanted = textbook(kind, remove=remove, sample=SAMPLE, texts=TEXTS)
    np.testing.assert_allclose(encoder.encode(TEXTS), wanted, rtol=0, atol=1e-6)


def test_gensim_reads_the_same(tmp_path: Path) -> None:
    """A file in word2vec's format: the mean that gensim makes of it without weights."""
    gensim = pytest.importorskip("gensim.models", reason="gensim is not installed")
    keyed = gensim.KeyedVectors(DIM)
    keyed.add_vectors(WORDS, MATRIX)
    for binary in (True, False):
        path = tmp_path / f"vectors.{binary}"
        keyed.save_word2vec_format(str(path), binary=binary)
        held = gensim.KeyedVectors.load_word2vec_format(str(path), binary=binary)
        wanted = held.get_mean_vector(["to", "love", "to"], pre_normalize=False)
        found = opened(path, weights="none").encode(["to love to"])[0]
        np.testing.assert_allclose(found, wanted / np.linalg.norm(wanted), rtol=0, atol=1e-6)


@pytest.mark.parametrize("remove", [False, True])
def test_unknown_is_zero(vectors: Path, remove: bool) -> None:
    """A text without a known word, and an empty one, get zeros exactly."""
    encoder = opened(vectors, weights="sif", remove_component=remove).fit(SAMPLE)
    assert not encoder.encode(["nothing here", "", " \n"]).any()


def test_nothing_left_is_zero(vectors: Path) -> None:
    """A text that is nothing but the component gets zeros, not rounding errors made long."""
    encoder = opened(vectors, weights="none", remove_component=True).fit(["xapian"])
    assert not encoder.encode(["xapian", "xapian xapian"]).any()
    assert np.linalg.norm(encoder.encode(["love"])) == pytest.approx(1)


def test_opposites_are_zero(tmp_path: Path) -> None:
    """Words whose vectors cancel out leave a zero vector, not NaN."""
    path = write_vectors(tmp_path / "v.npz", ["good", "bad"], np.array([[1, 2], [-1, -2]], "f4"))
    assert not opened(path, weights="none").encode(["good bad"]).any()


def test_long_texts(vectors: Path) -> None:
    """A text whose words are added up in several parts, beside short and empty ones."""
    texts = ["i love " * 50, "", "use", "to use " * 300 + "naïve", "love " * 64, "love " * 65]
    found = opened(vectors, weights="none").encode(texts)
    wanted = textbook("none", remove=False, sample=SAMPLE, texts=texts)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


def test_a_million_words_are_exact(vectors: Path) -> None:
    """Sums of a giant text do not drown in rounding."""
    giant = "to " * 300_000 + "love " * 300_000
    found = opened(vectors, weights="none").encode([giant])[0]
    total = MATRIX[2].astype(float) + MATRIX[0].astype(float)
    np.testing.assert_allclose(found, total / np.linalg.norm(total), rtol=0, atol=1e-6)


WORDS_OF_TEXTS = st.sampled_from([*WORDS, "unknown", "XAPIAN", "a-word-of-more-than-15-bytes"])
SOME_TEXTS = st.lists(
    st.lists(st.tuples(WORDS_OF_TEXTS, st.sampled_from([" ", "  ", "\n", "\t"]))).map(
        lambda pairs: "".join(word + blank for word, blank in pairs)
    ),
    max_size=8,
)


@given(texts=SOME_TEXTS)
def test_any_texts(shared_encoder: Any, texts: list[str]) -> None:
    """Whatever the texts, known words and blanks: the formula's vectors."""
    wanted = textbook("idf", remove=False, sample=SAMPLE, texts=texts)
    np.testing.assert_allclose(
        shared_encoder.encode(texts), wanted.reshape(-1, DIM), rtol=0, atol=1e-6
    )


@pytest.fixture(scope="module")
def shared_encoder(vectors: Path) -> Any:
    """One that remembers what came before."""
    return opened(vectors).fit(SAMPLE)


def test_word_that_repeats(tmp_path: Path) -> None:
    """Of words that are stored twice the first vector counts, as for gensim."""
    path = write_vectors(tmp_path / "v.npz", ["a", "b", "a"], np.eye(3, dtype=np.float32))
    assert opened(path, weights="none").encode(["a"]).tolist() == [[1, 0, 0]]


@pytest.mark.parametrize("bad", [np.inf, np.nan, 3e38])
def test_infinite_vectors(tmp_path: Path, bad: float) -> None:
    """A vector that is not finite, or not once added up, is an error where a text has the word."""
    path = write_vectors(tmp_path / "v.npz", ["a", "b"], np.array([[bad, 1], [1, 1]], np.float32))
    encoder = opened(path, weights="none")
    assert encoder.encode(["b"]).shape == (1, 2)
    with pytest.raises(VocabtoolError, match="not finite"):
        encoder.encode(["b", "a a"])
    with pytest.raises(VocabtoolError, match="infinite or NaN"):
        opened(path, weights="none", remove_component=True).fit(["a a"])


# Fitting.


def test_needs_fit(vectors: Path) -> None:
    """Without a fit nothing is encoded, and the error says how to fit; plain means need none."""
    for options in ({}, {"weights": "none", "remove_component": True}):
        encoder = opened(vectors, **options)
        assert encoder.needs_fit
        with pytest.raises(VocabtoolError, match=r"encoder\.fit\(texts\)"):
            encoder.encode(["love"])
        assert not encoder.fit(SAMPLE).needs_fit
    plain = opened(vectors, weights="none")
    assert not plain.needs_fit
    assert plain.fit(SAMPLE) is plain


def test_fit_facts(vectors: Path) -> None:
    """Counts of words, documents and totals, by hand."""
    fitted = opened(vectors, weights="sif").fit(["to use or to", "love"]).fitted
    assert fitted is not None
    assert (fitted.documents, fitted.words) == (2, 4)
    assert fitted.positions.tolist() == [0, 2, 3]
    assert fitted.counts.tolist() == [1, 2, 1]
    fitted = opened(vectors, weights="idf").fit(["to use or to", "love to"]).fitted
    assert fitted is not None
    assert fitted.counts.tolist() == [1, 2, 1]


def test_component(vectors: Path) -> None:
    """The first right singular vector, up to 1e-6, its largest entry positive."""
    encoder = opened(vectors, weights="sif", remove_component=True).fit(SAMPLE)
    assert encoder.fitted is not None
    component = encoder.fitted.component
    assert component is not None
    means = textbook_means(SAMPLE, textbook_weights("sif", SAMPLE))
    wanted = np.linalg.svd(means)[2][0]
    wanted *= np.sign(wanted[np.argmax(np.abs(wanted))])
    np.testing.assert_allclose(component, wanted, rtol=0, atol=1e-6)


def test_fit_is_lazy(vectors: Path) -> None:
    """Of endless texts only the sample is taken."""
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield "i love to use xapian"

    assert opened(vectors).fit(endless(), most=100).needs_fit is False
    assert taken == 100


def test_nothing_to_fit(vectors: Path) -> None:
    """A sample without a known word is an error that names the rule."""
    for sample in ([], [""], ["nothing here"]):
        with pytest.raises(VocabtoolError, match="rule by which texts become words"):
            opened(vectors).fit(sample)


def test_fitted_file(vectors: Path, tmp_path: Path) -> None:
    """Written and read again it is the same; the same sample makes the same bytes."""
    for number in (1, 2):
        encoder = opened(vectors, weights="sif", remove_component=True).fit(iter(SAMPLE))
        assert encoder.fitted is not None
        encoder.fitted.write(tmp_path / f"fit{number}.json")
    assert (tmp_path / "fit1.json").read_bytes() == (tmp_path / "fit2.json").read_bytes()
    again = opened(vectors, fitted=tmp_path / "fit1.json")
    assert again.fingerprint == encoder.fingerprint
    assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_with_weights(vectors: Path) -> None:
    """Weights that were kept make the encoder that they were fitted for, and no other."""
    wanted = opened(vectors, weights="sif").fit(SAMPLE)
    assert wanted.fitted is not None
    again = opened(vectors, weights="sif").with_weights(wanted.fitted)
    assert again.fingerprint == wanted.fingerprint
    assert np.array_equal(again.encode(TEXTS), wanted.encode(TEXTS))
    with pytest.raises(VocabtoolError, match="'idf' are wanted, 'sif' were fitted"):
        opened(vectors, weights="idf").with_weights(wanted.fitted)
    with pytest.raises(VocabtoolError, match="fit is without one"):
        opened(vectors, weights="sif", remove_component=True).with_weights(wanted.fitted)


def test_fitted_with_another(vectors: Path, tmp_path: Path) -> None:
    """Weights that were fitted with other vectors, another rule or weighting are refused."""
    fitted = opened(vectors, weights="sif").fit(SAMPLE).fitted
    other = write_vectors(tmp_path / "v.npz", WORDS, MATRIX + 1)
    with pytest.raises(VocabtoolError, match="fitted with other word vectors"):
        opened(other, fitted=fitted)
    with pytest.raises(VocabtoolError, match="another rule than 'keras'"):
        opened(vectors, rule="keras", fitted=fitted)
    with pytest.raises(VocabtoolError, match="'idf' are wanted, 'sif' were fitted"):
        opened(vectors, weights="idf", fitted=fitted)
    with pytest.raises(VocabtoolError, match="fit is without one"):
        opened(vectors, remove_component=True, fitted=fitted)


DAMAGES: list[tuple[dict[str, object], str]] = [
    ({"format": "other"}, "not a file of fitted weights"),
    ({"weights": "bm25"}, "wanted one of none, idf, sif"),
    ({"documents": 0}, "no whole numbers"),
    ({"positions": [2, 0]}, "not ascending"),
    ({"positions": [0]}, "1 positions and 2 counts"),
    ({"counts": [1, 4]}, "wanted 1 to 3"),
    ({"component": "long"}, "could not convert"),
    ({"component": [0.6, float("nan")]}, "unit length"),
    ({"rule": None}, "no fingerprints"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
def test_damaged_file(
    vectors: Path, tmp_path: Path, damage: dict[str, object], message: str
) -> None:
    """What is wrong with a file of weights is said, with the file's name."""
    path = tmp_path / "fit.json"
    opened(vectors, weights="idf").fit(["love", "love to", "to"]).fitted.write(path)
    record = json.loads(path.read_text())
    assert (record["positions"], record["counts"]) == ([0, 2], [2, 2])
    path.write_text(json.dumps(record | damage))
    with pytest.raises(InvalidFile, match=message) as caught:
        opened(vectors, fitted=path)
    assert str(path) in str(caught.value)


def test_no_json(vectors: Path, tmp_path: Path) -> None:
    """What is no JSON, or not there."""
    path = tmp_path / "fit.json"
    with pytest.raises(NotFound):
        opened(vectors, fitted=path)
    path.write_text("[" * 100_000)
    with pytest.raises(InvalidFile, match=r"fit\.json"):
        opened(vectors, fitted=path)


def test_rows_that_are_not_there(vectors: Path) -> None:
    """Positions and a component beyond the matrix are refused, though fingerprints are right."""
    fitted = opened(vectors, weights="sif", remove_component=True).fit(SAMPLE).fitted
    assert fitted is not None
    from dataclasses import replace

    for wrong in (
        replace(fitted, positions=fitted.positions + 100),
        replace(fitted, component=np.ones(1, np.float32)),
    ):
        with pytest.raises(InvalidFile, match="do not fit"):
            opened(vectors, fitted=wrong)


# What an encoder is.


def test_fingerprints_differ(vectors: Path, tmp_path: Path) -> None:
    """Rule, weighting, component, sample, words and numbers each make another fingerprint."""
    changed = MATRIX.copy()
    changed[-1, -1] += 1
    encoders = [
        opened(vectors, weights="none"),
        opened(vectors, rule="keras", weights="none"),
        opened(vectors, weights="idf"),
        opened(vectors, weights="idf").fit(SAMPLE),
        opened(vectors, weights="idf").fit(SAMPLE[1:]),
        opened(vectors, weights="sif").fit(SAMPLE),
        opened(vectors, weights="sif", remove_component=True).fit(SAMPLE),
        opened(write_vectors(tmp_path / "a.npz", WORDS, changed), weights="none"),
        opened(write_vectors(tmp_path / "b.npz", [*WORDS[:-1], "x"], MATRIX), weights="none"),
    ]
    assert len({encoder.fingerprint for encoder in encoders}) == len(encoders)


def test_format_does_not_matter(vectors: Path, tmp_path: Path) -> None:
    """The same words and numbers in another format are the same encoder."""
    text = tmp_path / "glove.txt"
    lines = (
        f"{word} {' '.join(map(repr, row))}\n"
        for word, row in zip(WORDS, MATRIX.tolist(), strict=True)
    )
    text.write_text("".join(lines))
    one, other = opened(vectors, weights="none"), opened(text, weights="none")
    assert one.fingerprint == other.fingerprint
    assert np.array_equal(one.encode(TEXTS), other.encode(TEXTS))
    assert one.notes == ()
    assert "were converted once" in other.notes[0]


@pytest.mark.parametrize("variable", ["VOCABTOOL_CACHE", "XDG_CACHE_HOME"])
def test_nothing_is_written_beside_a_model(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix that has to be converted lies in the user's cache; that is said once."""
    folder, cache = tmp_path / "mine", tmp_path / "cache"
    folder.mkdir()
    text = folder / "glove.txt"
    text.write_text("a 1.0 2.5\nb 3.25 4.0\n")
    monkeypatch.delenv("VOCABTOOL_CACHE")
    monkeypatch.setenv(variable, str(cache))
    encoders = [opened(text, weights="none") for _ in range(2)]
    for encoder in encoders:
        np.testing.assert_allclose(encoder.encode(["a"]), [[0.3713907, 0.9284767]], atol=1e-7)
    assert [path.name for path in folder.iterdir()] == ["glove.txt"]
    (written,) = cache.rglob("*.npy")
    first = f"the vectors were converted once, to {written}, which can be deleted"
    assert [encoder.notes for encoder in encoders] == [(first,), ()]


def test_a_file_put_in_the_place_of_another_is_another(tmp_path: Path) -> None:
    """Though its name, size and time are the same."""
    text, other = tmp_path / "glove.txt", tmp_path / "other.txt"
    text.write_text("a 1.0 2.5\nb 3.25 4.0\n")
    before = opened(text, weights="none")
    facts = text.stat()
    other.write_text("a 1.0 2.5\nb 3.25 5.0\n")
    other.replace(text)
    os.utime(text, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    assert opened(text, weights="none").fingerprint != before.fingerprint


def test_no_folder_for_converted_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be made, and no home: what to do is said."""
    text = tmp_path / "glove.txt"
    text.write_text("a 1.0 2.5\nb 3.25 4.0\n")
    next_step = r"to be converted once: name a folder for that in \$VOCABTOOL_CACHE$"
    monkeypatch.setenv("VOCABTOOL_CACHE", str(text))
    with pytest.raises(NotFound, match=rf"glove\.txt/vectors/.* cannot be made .*{next_step}"):
        opened(text, weights="none")
    monkeypatch.delenv("VOCABTOOL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(NotFound, match=f"there is no home folder, .*{next_step}"):
        opened(text, weights="none")


def test_a_matrix_beside_the_file_is_used(tmp_path: Path) -> None:
    """As ``WordVectors.matrix`` makes it."""
    text = tmp_path / "glove.txt"
    text.write_text("a 1.0 2.5\nb 3.25 4.0\n")
    WordVectors.open(text).matrix()
    (beside,) = tmp_path.glob("*.npy")
    encoder = opened(text, weights="none")
    assert encoder.notes == ()
    beside.unlink()
    np.testing.assert_allclose(encoder.encode(["a"]), [[0.3713907, 0.9284767]], atol=1e-7)
    assert "converted once" in opened(text, weights="none").notes[0]


def test_pickled_is_small(tmp_path: Path) -> None:
    """Pickled it is a path, not a matrix; its fingerprint holds while the file is the same."""
    rows = np.random.default_rng(0).standard_normal((50_000, 2)).astype(np.float32)
    path = write_vectors(tmp_path / "v.npz", [f"w{number}" for number in range(50_000)], rows)
    encoder = opened(path, weights="none")
    before = encoder.fingerprint
    sent = pickle.dumps(encoder)
    assert len(sent) < 1_000
    assert pickle.loads(sent).fingerprint == before
    write_vectors(path, [f"w{number}" for number in range(50_000)], rows + 1)
    assert pickle.loads(sent).fingerprint != before


def test_other_words_beside_an_array(tmp_path: Path) -> None:
    """Unpickled beside another list of words it is another encoder: the array is not all."""
    path, words = tmp_path / "v.npy", tmp_path / "v.txt"
    np.save(path, np.eye(2, dtype=np.float32))
    words.write_text("a\nb\n")
    encoder = opened(path, weights="none")
    before, sent = encoder.fingerprint, pickle.dumps(encoder)
    assert pickle.loads(sent).fingerprint == before
    words.write_text("a\nc\n")
    assert pickle.loads(sent).fingerprint != before


def test_moved_away(vectors: Path, tmp_path: Path) -> None:
    """Unpickled where the file is gone, it says so."""
    path = tmp_path / "v.npz"
    shutil.copy(vectors, path)
    sent = pickle.dumps(opened(path, weights="none"))
    path.unlink()
    with pytest.raises(NotFound, match=r"v\.npz"):
        pickle.loads(sent)


CASED = r"regex:[^\s!-/:-@\[-`{-~]+"
CASED_WITH_MARKS = CASED + r"|[!-/:-@\[-`{-~]"
CASES = [
    (["love", "to"], "keras"),
    (["love", "to", ",", "."], "ptb"),
    (["Love", "to"], CASED),
    (["Love", "to", ",", "."], CASED_WITH_MARKS),
    (["<UNK>", *(f"w{number}" for number in range(200))], "keras"),
]


@pytest.mark.parametrize(("entries", "rule"), CASES)
def test_guessed_rule(tmp_path: Path, entries: list[str], rule: str) -> None:
    """Capitals and punctuation marks among the entries decide the rule, and the notes tell it."""
    path = write_vectors(tmp_path / "v.npz", entries, np.eye(len(entries), dtype=np.float32))
    encoder = opened(path, weights="none", rule=None)
    assert f"no rule was named: {rule} is taken" in encoder.notes[0]
    named = opened(path, weights="none", rule=rule)
    assert named.fingerprint == encoder.fingerprint
    assert named.notes == ()


def test_cased_rule(tmp_path: Path) -> None:
    """Words and marks apart, in the case they have."""
    words = open_encoder(
        write_vectors(tmp_path / "v.npz", ["Love"], np.ones((1, 2))), rule=CASED_WITH_MARKS
    ).words
    assert words is not None
    found = words.split(["Love, love.\nLOVE-42"]).to_pylist()[0]
    cut = [word["word"].decode() for word in found]
    assert cut == ["Love", ",", "love", ".", "LOVE", "-", "42"]


def test_wrong_arguments(vectors: Path, tmp_path: Path) -> None:
    """What is no weighting, no batch and no file is refused."""
    with pytest.raises(ValueError, match="wanted one of none, idf, sif"):
        opened(vectors, weights="bm25")
    with pytest.raises(ValueError, match="at least 1"):
        opened(vectors, max_batch=0)
    with pytest.raises(NotFound):
        opened(tmp_path / "nowhere.txt")
    with pytest.raises(VocabtoolError, match="not a rule"):
        opened(vectors, rule="none")
