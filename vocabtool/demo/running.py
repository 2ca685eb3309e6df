"""The demo, step by step: from text to vectors, words, an index and answers.

Each step tells what it did, in figures and with the command that does the same. How that is shown
to a person is in ``story.py``.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vocabtool.demo import sentence_encoder
from vocabtool.demo.asking import Answer, Found, Fusion, ask
from vocabtool.demo.documentation import documentation
from vocabtool.demo.folder import DemoFolder
from vocabtool.demo.questions import questions
from vocabtool.demo.training import DIMENSIONS, train
from vocabtool.documents.reading import Document
from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import printable

if TYPE_CHECKING:
    from vocabtool.index.index import Index
    from vocabtool.oov.report import OovReport

FOLDER: Final = "vocabtool-demo"
DRAWN: Final = 100  # queries asked
SHOWN: Final = 5  # the first that vectors alone miss
EXAMPLES: Final = 8  # unknown words told


@dataclass(frozen=True, slots=True)
class Step:
    """Something that was done. ``seconds``: how long it took; ``command``: what does the same."""

    title: str
    seconds: float
    told: tuple[str, ...] = ()
    command: str | None = None


@dataclass(frozen=True, slots=True)
class Demo:
    """What was built in ``folder``, and what came of it.

    ``documents``: how many; ``words``: entries of the model's vocabulary; ``unknown_rate``: the
    share of all tokens that it does not know. ``answers``: to all queries that were drawn;
    ``candidates``: words that could have been drawn. ``notes``: what the documentation lacks.
    """

    folder: Path
    documents: int
    words: int
    unknown_rate: float
    answers: tuple[Answer, ...]
    candidates: int
    seconds: float
    notes: tuple[str, ...]

    @property
    def missed(self) -> tuple[Answer, ...]:
        """The answers that vectors alone do not find."""
        return tuple(answer for answer in self.answers if not answer.finds("dense"))

    @property
    def shown(self) -> tuple[Answer, ...]:
        """Those that the story tells of: the first that vectors alone miss, whatever hybrid did."""
        return self.missed[:SHOWN]

    def found(self, fusion: Fusion) -> Found:
        """How well one way of searching did on all queries that were drawn."""
        return Found.of(self.answers, fusion)


class _Clock:
    """Tells each step with the time since the one before."""

    def __init__(self, tell: Callable[[Step], None] | None) -> None:
        """The first step begins now."""
        self._tell = tell
        self._start = self._last = time.perf_counter()

    def step(self, title: str, *told: str, command: str | None = None) -> None:
        now = time.perf_counter()
        if self._tell is not None:
            self._tell(Step(title, now - self._last, told, command))
        self._last = now

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.perf_counter() - self._start


def run(
    folder: str | Path = FOLDER, *, tell: Callable[[Step], None] | None = None, seed: int = 0
) -> Demo:
    """Build everything in ``folder`` and ask; ``tell`` is called after each step.

    With the same Python and ``seed`` it comes out the same.
    Raises :class:`VocabtoolError` where something else is in the folder, :class:`NotFound` where
    this Python lacks its documentation, :class:`UnsupportedFormat` where TensorFlow is missing.
    """
    place, clock = DemoFolder(Path(folder)), _Clock(tell)
    place.check()
    import_tensorflow()  # a demo without it is told before anything is written
    clock.step("TensorFlow is loaded")
    found = documentation()
    place.prepare()
    documents = found.documents
    _write(place, documents, found.notes, clock)
    _train(place, documents, clock)
    words = _extract(place, clock)
    report = _count(place, words, documents, clock)
    index = _index(place, documents, clock)
    answers, candidates = _ask(place, index, words, documents, seed, clock)
    return Demo(
        *(place.path, len(documents), len(words.vocabulary), report.token_rate),
        *(answers, candidates, clock.seconds, found.notes),
    )


def _write(
    place: DemoFolder, documents: Sequence[Document], notes: Sequence[str], clock: _Clock
) -> None:
    place.save_documents(documents)
    size = sum(len(document.text) for document in documents)
    told = f"{len(documents):,} texts of its documentation, {size / 1e6:.1f} million characters"
    clock.step("What every Python has", told, f"in {place.documents}", *notes)


def _train(place: DemoFolder, documents: Sequence[Document], clock: _Clock) -> None:
    text = sentence_encoder.cut([document.text for document in documents])
    trained = train(text)
    sentence_encoder.save(place.model, trained)
    told = (
        f"vectors of {len(trained.words) - 1:,} words and {DIMENSIONS} numbers, from which words "
        f"stand near which in {len(text.words):,}",
        f"saved in {place.model}: a SavedModel in the shape of the Universal Sentence Encoder",
    )
    clock.step("A small sentence encoder is trained", *told)


def _extract(place: DemoFolder, clock: _Clock) -> Words:
    """The way from text to words, and the words, read off the model's files again."""
    from vocabtool.formats import vocabulary_files

    words = Words.of(place.model)
    vocabulary_files.save(words.vocabulary, place.vocabulary)
    told = f"{len(words.vocabulary):,} entries, called {words.vocabulary.name} in the model"
    command = f"vocabtool extract {_quoted(place.model)}"
    clock.step("Its vocabulary is read out of its files", told, command=command)
    return words


def _count(
    place: DemoFolder, words: Words, documents: Sequence[Document], clock: _Clock
) -> OovReport:
    from vocabtool.oov.counter import OovCounter

    counter = OovCounter(words)
    counter.count([string_array([document.text for document in documents])])
    report = counter.report(model=str(place.model), sources=(str(place.documents),))
    commonest = [printable(found.word) for found in report.commonest(EXAMPLES)]
    told = (
        f"{report.tokens_unknown:,} of {report.tokens:,} words in the texts, "
        f"{report.token_rate:.1%}; {report.distinct_unknown:,} different ones",
        f"the commonest of them: {', '.join(commonest)}",
    )
    command = f"vocabtool oov {_quoted(place.model)} {_quoted(place.documents)}"
    clock.step("What it does not know", *told, command=command)
    return report


def _index(place: DemoFolder, documents: Sequence[Document], clock: _Clock) -> Index:
    from vocabtool.index.index import Index

    index = Index.create(place.index, str(place.model))
    with index.writer() as writer:
        writer.add(documents)
    told = f"{len(index):,} documents by their vectors and by their words, in {place.index}"
    model, folder = _quoted(place.model), _quoted(place.path / "another-index")
    command = f"vocabtool index {_quoted(place.documents)} --model {model} -o {folder}"
    clock.step("They are indexed", told, command=command)
    return index


def _ask(
    place: DemoFolder,
    index: Index,
    words: Words,
    documents: Sequence[Document],
    seed: int,
    clock: _Clock,
) -> tuple[tuple[Answer, ...], int]:
    from vocabtool.encoders.opening import open_encoder

    encoder = open_encoder(str(place.model))
    drawn, candidates = questions(documents, words, index.snapshot(), count=DRAWN, seed=seed)
    place.save_questions(drawn)
    answers = tuple(ask(index, encoder, question) for question in drawn)
    told = f"{len(drawn):,} queries, drawn by a rule from {candidates:,} unknown words"
    folder = _quoted(place.index)
    files = f"--queries {_quoted(place.queries)} --qrels {_quoted(place.qrels)}"
    clock.step("It is asked", told, command=f"vocabtool eval {folder} {files}")
    return answers, candidates


def _quoted(path: Path) -> str:
    """A path as a person would type it into a shell."""
    return shlex.quote(str(path))
