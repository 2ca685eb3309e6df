"""Python callables as encoders: what comes back is checked, and what tells one from another."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.encoder_cases import halves, lengths
from vocabtool import open_encoder
from vocabtool.errors import NotFound, OperatorFailed, VocabtoolError

Answer = Callable[[list[str]], Any]


def told(answer: Answer, **options: Any) -> Any:
    """An encoder of a local function, which no source tells apart."""
    return open_encoder(answer, fingerprint="test", **options)


def test_batches() -> None:
    """The callable gets strings, one to tell the dimensions, then never more than asked for."""
    asked: list[list[str]] = []

    def answer(texts: list[str]) -> Any:
        asked.append(texts)
        return [[len(text)] for text in texts]

    encoder = told(answer, max_batch=2)
    assert encoder.dim == 1
    assert encoder.encode([]).shape == (0, 1)
    assert [len(texts) for texts in asked] == [1]
    asked.clear()
    found = encoder.encode([b"a", "bb", b"\xff", "", "ccccc"])
    assert asked == [["a", "bb"], ["\ufffd", ""], ["ccccc"]]
    assert found.tolist() == [[1], [2], [1], [0], [5]]


def sound_at_first(answer: Answer) -> Answer:
    """A callable that gives a vector of two numbers for the text that tells how long they are."""
    answers = iter([lambda texts: [[1.0, 2.0]] * len(texts)])

    def answer_(texts: list[str]) -> Any:
        return next(answers, answer)(texts)

    return answer_


WRONG: list[tuple[Answer, str]] = [
    (lambda texts: np.zeros((len(texts) + 1, 2)), r"shape \(2, 2\), got \(3, 2\)"),
    (lambda texts: np.zeros((len(texts), 3)), r"shape \(2, 2\), got \(2, 3\)"),
    (lambda texts: [["a", "b"]] * len(texts), "numbers, got <U1"),
    (lambda texts: [[1.0], [2.0, 3.0]], "list .*numbers"),
    (lambda texts: [[1.0, float("nan")]] * len(texts), "row 0 .*NaN"),
    (lambda texts: [[0.0, 0.0], [1e300, 0.0]], "row 1 .*float32"),
]


@pytest.mark.parametrize(("answer", "message"), WRONG)
def test_wrong_answers(answer: Answer, message: str) -> None:
    """What is no matrix of finite numbers is refused, with the texts that it was for."""
    with pytest.raises(VocabtoolError, match=r"numbers, got float64 of shape \(1, 0\)"):
        told(lambda texts: np.zeros((len(texts), 0)))
    encoder = told(sound_at_first(answer), max_batch=2)
    with pytest.raises(VocabtoolError, match=message) as caught:
        encoder.encode(["a", "b", "c"])
    assert "called with texts 0 to 1" in str(caught.value)
    later = told(lambda texts: np.zeros((len(texts), 2 + ("c" in texts))), max_batch=2)
    with pytest.raises(VocabtoolError, match="called with texts 2 to 2"):
        later.encode(["a", "b", "c"])


class Model:
    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def __call__(self, texts: list[str]) -> Any:
        return [[len(text) * self.factor] for text in texts]

    def encode(self, texts: list[str]) -> Any:
        return self(texts)


class Versioned(Model):
    @property
    def fingerprint(self) -> str:
        return f"versioned {self.factor}"


def constant(value: float) -> Answer:
    def answer(texts: list[str]) -> Any:
        return [[value]] * len(texts)

    return answer


def test_fingerprint_of_source() -> None:
    """Functions by source code, and the notes say what that leaves out."""
    assert open_encoder(lengths).fingerprint == open_encoder(lengths).fingerprint
    assert open_encoder(lengths).fingerprint != open_encoder(halves).fingerprint
    assert any("covers the source code of" in note for note in open_encoder(lengths).notes)
    assert open_encoder(lengths, fingerprint="1").fingerprint != open_encoder(lengths).fingerprint
    assert not any("source" in note for note in open_encoder(lengths, fingerprint="1").notes)
    # An attribute of that name is taken.
    one, two = open_encoder(Versioned(1)), open_encoder(Versioned(2))
    assert one.fingerprint != two.fingerprint
    assert one.fingerprint == open_encoder(Versioned(1)).fingerprint
    assert pickle.loads(pickle.dumps(two)).encode(["abc"]).tolist() == [[6]]


NAMELESS: list[Answer] = [lambda texts: [[1.0]] * len(texts), constant(1.0), partial(lengths)]


@pytest.mark.parametrize("nameless", [*NAMELESS, Model(), Model().encode])
def test_no_fingerprint(nameless: Answer) -> None:
    """What holds values that no source shows wants a fingerprint to be given."""
    with pytest.raises(VocabtoolError, match=r"an attribute `fingerprint` \(in Python also"):
        open_encoder(nameless)
    assert open_encoder(nameless, fingerprint="mine").encode(["abc"]).shape[0] == 1


# By name.

MODULE = """
from vocabtool import open_encoder

def encode(texts):
    return [[1.0, len(text)] for text in texts]

class Model:
    def __call__(self, texts):
        return [[2.0, len(text)] for text in texts]

class Needy:
    def __init__(self, path):
        pass

def make():
    return lambda texts: [[3.0, len(text)] for text in texts]

ready = open_encoder(encode, max_batch=3)
held = Model
nothing = 17
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "my_encoders.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_encoders", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "first"), [("encode", 1), ("Model", 2), ("held", 2), ("make", 3), ("ready", 1)]
)
def test_by_name(here: Path, name: str, first: float) -> None:
    """A function, a class, a function that makes one, an encoder: from the current folder."""
    encoder = open_encoder(f"python:my_encoders:{name}")
    assert encoder.encode(["abc"]).tolist() == [[first, 3]]
    again = open_encoder(f"python:my_encoders:{name}")
    assert again.fingerprint == encoder.fingerprint
    told = [note for note in encoder.notes if "covers the source code of" in note]
    shown = {"held": "Model", "ready": "encode"}.get(name, name)
    assert [f"my_encoders.{shown}," in note for note in told] == [True]
    if name == "encode":
        assert pickle.loads(pickle.dumps(encoder)).fingerprint == encoder.fingerprint


def test_names_that_are_none(here: Path) -> None:
    """What is missing is named, and what there is; what a module itself lacks shows."""
    (here / "broken.py").write_text("import surely_not_there\n")
    for name, error, told in (
        ("not_there:encode", NotFound, "no module 'not_there'"),
        ("my_encoders:nothere", NotFound, "no such attribute; the module has .*encode, held, make"),
        ("my_encoders", VocabtoolError, "python:package"),
        ("my_encoders:nothing", VocabtoolError, "encoder or a callable, got int"),
        ("broken:encode", ModuleNotFoundError, "surely_not_there"),
        ("my_encoders:Needy", TypeError, "path"),
    ):
        with pytest.raises(error, match=told):
            open_encoder(f"python:{name}")


def broken(texts: list[str]) -> Any:
    raise KeyError("no weights")


def test_what_a_callable_raises() -> None:
    """When it is opened, with its name as an error of ours; later as it is."""
    with pytest.raises(OperatorFailed, match=r"broken.*KeyError: 'no weights'"):
        open_encoder(broken)
    with pytest.raises(KeyError, match="no weights"):
        told(sound_at_first(broken)).encode(["a"])
