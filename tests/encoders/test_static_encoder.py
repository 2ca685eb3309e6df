"""Static encoders: means by the textbook, fitted weights that are the same bytes, no NaN."""

from __future__ import annotations

import json
import math
import pickle
import re
from collections import Counter
from itertools import repeat
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
    return write_vectors(tmp_path_factory.mktemp("static") / "vectors.npz", WORDS, MATRIX)


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    """Two words as text, alone in their folder."""
    (tmp_path / "mine").mkdir()
    path = tmp_path / "mine" / "glove.txt"
    path.write_text("a 1.0 2.5\nb 3.25 4.0\n")
    return path


def opened(path: Path, **options: Any) -> Any:
    return open_encoder(path, kind="static", **{"rule": "lower"} | options)


def known_words(text: str) -> list[str]:
    return [word for word in text.lower().split() if word in WORDS]


def textbook(kind: str, *, sample: list[str], texts: list[str]) -> NDArray[np.float64]:
    """The formulas in float64, a loop over words: weighted means at unit length."""
    holding = Counter(word for text in sample for word in {*known_words(text)})
    weights = dict.fromkeys(WORDS, 1.0)
    if kind == "idf":
        weights = {w: math.log((1 + len(sample)) / (1 + holding[w])) + 1 for w in WORDS}
    means = np.zeros((len(texts), DIM))
    for number, text in enumerate(texts):
        for word in known_words(text):
            means[number] += weights[word] * MATRIX[WORDS.index(word)].astype(float)
    norms = np.linalg.norm(means, axis=1, keepdims=True)
    unit: NDArray[np.float64] = np.divide(means, norms, out=np.zeros_like(means), where=norms > 0)
    return unit


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


def test_zeros(vectors: Path, tmp_path: Path) -> None:
    """Exactly: without a known word, and of words that cancel out."""
    encoder = opened(vectors).fit(SAMPLE)
    assert not encoder.encode(["nothing here", "", " \n"]).any()
    path = write_vectors(tmp_path / "v.npz", ["good", "bad"], np.array([[1, 2], [-1, -2]], "f4"))
    assert not opened(path, weights="none").encode(["good bad"]).any()
    # Of words that are stored twice the first vector counts, as for gensim.
    twice = write_vectors(tmp_path / "twice.npz", ["a", "b", "a"], np.eye(3, dtype=np.float32))
    assert opened(twice, weights="none").encode(["a"]).tolist() == [[1, 0, 0]]


def test_long_texts(vectors: Path) -> None:
    """Words are added up in several parts, beside short texts; sums do not drown in rounding."""
    texts = ["i love " * 50, "", "use", "to use " * 300 + "naïve", "love " * 64, "love " * 65]
    texts.append("to " * 300_000 + "love " * 300_000)
    found = opened(vectors, weights="none").encode(texts)
    wanted = textbook("none", sample=SAMPLE, texts=texts)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6)


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
    wanted = textbook("idf", sample=SAMPLE, texts=texts)
    np.testing.assert_allclose(
        shared_encoder.encode(texts), wanted.reshape(-1, DIM), rtol=0, atol=1e-6
    )


@pytest.fixture(scope="module")
def shared_encoder(vectors: Path) -> Any:
    return opened(vectors).fit(SAMPLE)


@pytest.mark.parametrize("bad", [np.inf, np.nan, 3e38])
def test_infinite_vectors(tmp_path: Path, bad: float) -> None:
    """A vector that is not finite, or not once added up, is an error where a text has the word."""
    path = write_vectors(tmp_path / "v.npz", ["a", "b"], np.array([[bad, 1], [1, 1]], np.float32))
    encoder = opened(path, weights="none")
    assert encoder.encode(["b"]).shape == (1, 2)
    with pytest.raises(VocabtoolError, match="not finite"):
        encoder.encode(["b", "a a"])


# Fitting.


def test_needs_fit(vectors: Path) -> None:
    """Without a fit nothing is encoded, which is said; plain means need none."""
    for sample in ([], ["nothing here"]):
        with pytest.raises(VocabtoolError, match=r"how texts are split \(--rule, rule=\)"):
            opened(vectors).fit(sample)
    many = repeat("i love to use xapian", 150)  # of which only the sample is taken
    assert not opened(vectors).fit(many, most=100).needs_fit
    assert len([*many]) == 50
    encoder = opened(vectors)
    assert encoder.needs_fit
    with pytest.raises(VocabtoolError, match=r"encoder\.fit\(texts\)"):
        encoder.encode(["love"])
    with pytest.raises(ValueError, match="weights must be one of none, idf, got"):
        opened(vectors, weights="sif")
    plain = opened(vectors, weights="none")
    assert not plain.needs_fit
    assert plain.fit(SAMPLE) is plain


def test_fitted_weights_are_kept(vectors: Path, tmp_path: Path) -> None:
    """Written and read again they are the same; the same sample makes the same bytes."""
    for number in (1, 2):
        encoder = opened(vectors).fit(iter(SAMPLE))
        encoder.fitted.write(tmp_path / f"fit{number}.json")
    assert (tmp_path / "fit1.json").read_bytes() == (tmp_path / "fit2.json").read_bytes()
    for again in (
        opened(vectors, fitted=tmp_path / "fit1.json"),
        opened(vectors).with_weights(encoder.fitted),
    ):
        assert again.fingerprint == encoder.fingerprint
        assert np.array_equal(again.encode(TEXTS), encoder.encode(TEXTS))


def test_fitted_with_another(vectors: Path, tmp_path: Path) -> None:
    """Weights that were fitted with other vectors, another rule or weighting are refused."""
    fitted = opened(vectors).fit(SAMPLE).fitted
    other = write_vectors(tmp_path / "v.npz", WORDS, MATRIX + 1)
    changes: list[tuple[Path, dict[str, Any], str]] = [
        (vectors, {"rule": "keras"}, "not fitted with the rule 'keras'"),
        (vectors, {"weights": "none"}, "weights='none' cannot be combined"),
        (other, {}, "fitted with other word vectors.* --model of embed"),
    ]
    for file, options, message in changes:
        with pytest.raises(VocabtoolError, match=message):
            opened(file, fitted=fitted, **options)


def test_damaged_file(vectors: Path, tmp_path: Path) -> None:
    """What is wrong with a file of weights is said, with the file's name."""
    path = tmp_path / "fit.json"
    with pytest.raises(NotFound):
        opened(vectors, fitted=path)
    opened(vectors, weights="idf").fit(["love", "love to", "to"]).fitted.write(path)
    sound = json.loads(path.read_text())
    damages: list[tuple[dict[str, object], str]] = [
        ({"format": "other"}, "not a file of fitted weights"),
        ({"documents": 0}, "'documents' must be a positive integer"),
        ({"positions": [0]}, "positions and counts .* got 1 and 2 values"),
        ({"counts": [9, 1]}, "counts must be from 1 to 3"),
    ]
    for damage, message in damages:
        path.write_text(json.dumps(sound | damage))
        with pytest.raises(InvalidFile, match=rf"fit\.json: .*{message}"):
            opened(vectors, fitted=path)
    path.write_text("[" * 100_000)
    with pytest.raises(InvalidFile, match=r"fit\.json"):
        opened(vectors, fitted=path)


# What an encoder is.


def test_fingerprints_differ(vectors: Path, tmp_path: Path) -> None:
    """Rule, weighting, sample, words and numbers each make another fingerprint."""
    changed = MATRIX.copy()
    changed[-1, -1] += 1
    encoders = [
        opened(vectors, weights="none"),
        opened(vectors, rule="keras", weights="none"),
        opened(vectors, weights="idf"),
        opened(vectors, weights="idf").fit(SAMPLE),
        opened(vectors, weights="idf").fit(SAMPLE[1:]),
        opened(write_vectors(tmp_path / "a.npz", WORDS, changed), weights="none"),
        opened(write_vectors(tmp_path / "b.npz", [*WORDS[:-1], "x"], MATRIX), weights="none"),
    ]
    assert len({encoder.fingerprint for encoder in encoders}) == len(encoders)


@pytest.mark.parametrize("variable", ["VOCABTOOL_CACHE", "XDG_CACHE_HOME"])
def test_nothing_is_written_beside_a_model(
    variable: str, glove: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A matrix that has to be converted lies in the cache, said once; one beside it is used."""
    cache = tmp_path / "cache"
    monkeypatch.delenv("VOCABTOOL_CACHE")
    monkeypatch.setenv(variable, str(cache))
    encoders = [opened(glove, weights="none") for _ in range(2)]
    for encoder in encoders:
        np.testing.assert_allclose(encoder.encode(["a"]), [[0.3713907, 0.9284767]], atol=1e-7)
    assert [path.name for path in glove.parent.iterdir()] == ["glove.txt"]
    (written,) = cache.rglob("*.npy")
    first = f"the word vectors were converted to {written}; this cached file can be deleted"
    assert [encoder.notes for encoder in encoders] == [(first,), ()]
    written.unlink()
    WordVectors.open(glove).matrix()
    assert opened(glove, weights="none").notes == ()
    assert list(cache.rglob("*.npy")) == []


def test_no_folder_for_converted_vectors(glove: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to do is said."""
    monkeypatch.setenv("VOCABTOOL_CACHE", str(glove))
    told = r"glove\.txt/vectors: cannot be created .*set \$VOCABTOOL_CACHE to a folder for them$"
    with pytest.raises(NotFound, match=told):
        opened(glove, weights="none")


def test_pickled(tmp_path: Path) -> None:
    """A path, not a matrix: another encoder where the file or the words beside it changed."""
    path, words = tmp_path / "v.npy", tmp_path / "v.txt"
    np.save(path, np.eye(20_000, 2, dtype=np.float32))
    entries = [f"w{number}" for number in range(20_000)]
    words.write_text("\n".join(entries))
    encoder = opened(path, weights="none")
    before, sent = encoder.fingerprint, pickle.dumps(encoder)
    assert len(sent) < 1_000
    assert pickle.loads(sent).fingerprint == before
    words.write_text("\n".join(reversed(entries)))
    assert pickle.loads(sent).fingerprint != before
    words.write_text("\n".join(entries))
    np.save(path, np.ones((20_000, 2), np.float32))
    assert pickle.loads(sent).fingerprint != before
    path.unlink()
    with pytest.raises(NotFound, match=r"v\.npy"):
        pickle.loads(sent)


CASED = r"regex:[^\s!-/:-@\[-`{-~]+"
CASED_WITH_MARKS = CASED + r"|[!-/:-@\[-`{-~]"


@pytest.mark.parametrize(
    ("entries", "rule", "told"),
    [
        (["love", "to"], "keras", "hardly any .* not both entries"),
        (["love", "to", ",", "."], "ptb", "hardly any .* are entries"),
        (["Love", "to", ",", "."], CASED_WITH_MARKS, "many .* are entries"),
    ],
)
def test_guessed_rule(tmp_path: Path, entries: list[str], rule: str, told: str) -> None:
    """Capitals and punctuation marks among the entries decide the rule, and the notes tell it."""
    path = write_vectors(tmp_path / "v.npz", entries, np.eye(len(entries), dtype=np.float32))
    encoder = opened(path, weights="none", rule=None)
    assert re.match(f"no --rule given: using {re.escape(rule)}, because {told}", encoder.notes[0])
    named = opened(path, weights="none", rule=rule)
    assert named.fingerprint == encoder.fingerprint
    assert named.notes == ()
    if rule == CASED_WITH_MARKS:  # words and marks apart, in the case they have
        found = named.words.split(["Love, love.\nLOVE-42"]).to_pylist()[0]
        cut = [word["word"].decode() for word in found]
        assert cut == ["Love", ",", "love", ".", "LOVE", "-", "42"]
