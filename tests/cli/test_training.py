"""What the demo reads and trains on, against what can be computed by hand."""

from __future__ import annotations

import inspect
import json.decoder
import textwrap
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from vocabtool.cli import demo as training
from vocabtool.cli.demo import MIN_DOCUMENTS, documentation
from vocabtool.errors import NotFound

LONG = "It is described at some length, so that there is something to learn from it."


def texts_of(folder: Path, source: str) -> dict[str, str]:
    """What is read of a library of this source file, and of others that make it enough."""
    many = "".join(f'def f{number}():\n    """{LONG}"""\n' for number in range(MIN_DOCUMENTS))
    (folder / "many.py").write_text(many)
    (folder / "part.py").write_text(textwrap.dedent(source))
    found = documentation(folder)
    assert len({document.id for document in found}) == len(found)
    return {each.id: each.text for each in found if each.id.startswith("part")}


def test_docstrings_are_those_that_python_shows() -> None:
    """A docstring read out of the source is what `inspect` says of the running object."""
    found = {document.id: document.text for document in documentation()}
    objects = {
        "json.decoder.JSONDecoder.raw_decode": json.decoder.JSONDecoder.raw_decode,
        "textwrap.TextWrapper.fill": textwrap.TextWrapper.fill,
        "collections.Counter.most_common": Counter.most_common,
    }
    for name, of in objects.items():
        assert found[name] == f"{name}\n\n{inspect.getdoc(of)}"
    assert "topics.assert" in found


def test_what_is_read_of_a_source_file(tmp_path: Path) -> None:
    """Modules, classes, methods and functions, also below `if` and `try`; nothing is run."""
    source = f'''
        """The module. {LONG}"""
        if True:
            def chosen():
                """First. {LONG}"""
                def inner():
                    """Inside. {LONG}"""
        else:
            def chosen():
                """Second. {LONG}"""
        try:
            class Tried:
                """Class. {LONG}"""
                async def method(self):
                    """Method. {LONG}"""
        except ImportError:
            def instead():
                """Instead. {LONG}"""
        def short():
            """Too short."""
        raise SystemExit("it was run")
    '''
    assert texts_of(tmp_path, source) == {
        "part": f"part\n\nThe module. {LONG}",
        "part.chosen": f"part.chosen\n\nFirst. {LONG}",
        "part.Tried": f"part.Tried\n\nClass. {LONG}",
        "part.Tried.method": f"part.Tried.method\n\nMethod. {LONG}",
        "part.instead": f"part.instead\n\nInstead. {LONG}",
    }


def test_long_texts_are_cut_between_paragraphs(tmp_path: Path) -> None:
    """Paragraphs are put together up to so many words; a longer one stands alone, uncut."""
    half, more = ("w " * 100).strip(), ("u " * 300).strip()
    found = texts_of(tmp_path, f'"""{half}\n\n{half}\n\none\n\n{more}"""')
    assert found == {
        "part#1": f"part\n\n{half}\n\n{half}",
        "part#2": "part\n\none",
        "part#3": f"part\n\n{more}",
    }


def test_a_python_without_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is said plainly, and what to do about it."""
    monkeypatch.setitem(__import__("sys").modules, "pydoc_data.topics", None)
    with pytest.raises(NotFound, match=r"Python's own documentation.*python\.org"):
        documentation(tmp_path)


def test_training_is_the_formulas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nearness counted pair by pair, smoothed positive PMI, NumPy's full decomposition."""
    monkeypatch.setattr(training, "MAX_WORDS", 30)
    monkeypatch.setattr(training, "DIMENSIONS", 5)
    generator = np.random.default_rng(0)
    words = [f"{a}{b}" for a in "abcdef" for b in "abcdef"]
    chances = np.arange(1, 37) / np.arange(1, 37).sum()
    texts = [generator.choice(words, 20, p=chances).tolist() for _ in range(60)]
    chosen, vectors = training.train([" ".join(text) for text in texts], "whitespace")
    count = Counter(word for text in texts for word in text)
    assert sorted(count[word] for word in chosen) == sorted(count.values())[-30:]
    near = np.zeros((30, 30))
    for text in texts:
        ids = [chosen.index(word) if word in chosen else None for word in text]
        for (i, a), (j, b) in product(enumerate(ids), repeat=2):
            if a is not None and b is not None and 0 < abs(i - j) <= training.WINDOW:
                near[a, b] += 1 / abs(i - j)
    smooth = near.sum(axis=0) ** training.SMOOTHING
    expected = np.outer(near.sum(axis=1), smooth / smooth.sum())
    with np.errstate(divide="ignore"):
        left, strength, _ = np.linalg.svd(np.maximum(np.log(near / expected), 0))
    rows = left[:, :5] * np.sqrt(strength[:5])
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    share = np.array([count[word] for word in chosen]) / count.total()
    rows *= (training.COMMON / (training.COMMON + share))[:, None]
    np.testing.assert_allclose(vectors @ vectors.T, rows @ rows.T, rtol=1e-4, atol=1e-8)
