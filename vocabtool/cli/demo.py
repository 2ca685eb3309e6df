"""The command ``demo``, which shows all steps offline, on Python's own documentation."""

from __future__ import annotations

import ast
import json
import random
import re
import shutil
import sysconfig
import time
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click
import numpy as np

from vocabtool import Document, Index, NotFound, OovCounter, VocabtoolError, Words, train
from vocabtool.choices import Fusion
from vocabtool.vocabulary import printable

MIN_CHARACTERS, MIN_DOCUMENTS = 60, 1_000  # "Return x." is too short; few texts train no vectors
SKIPPED: Final = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})
MODEL_WORDS: Final = 3_000  # rarer words are unknown to the model
QUESTIONS: Final = 100  # of each kind
PLACES: Final = 10  # a document in these first places counts as found
MARK: Final = b"Made by `vocabtool demo`, which builds it anew when it is run again.\n"
FILES: Final = ("documents.jsonl", "vectors.npz", "index")
FUSIONS: Final[tuple[Fusion, ...]] = ("dense", "keyword", "coverage")
NAMES: Final = ("vectors", "keywords", "hybrid")  # of the fusions
KINDS: Final = {False: "half of the words are others", True: "one word is unknown"}
EXPLANATION: Final = """
  Vectors find documents by words of similar meaning, but drop a word that the model does not know.
  Keywords find this word, but no other words. Hybrid search finds most of both kinds.
  A question of the first kind has eight words of a document. Four of them are replaced by words
  with similar vectors. A question of the second kind has three words of a document. The model does
  not know one of them, and at most three documents have it."""


def documentation() -> list[Document]:
    """Return the docstrings of Python's library. Raises :class:`NotFound` if there are too few."""
    library = Path(sysconfig.get_path("stdlib"))
    texts: dict[str, str] = {}
    for file in sorted(library.rglob("*.py")):
        names = file.relative_to(library).with_suffix("").parts
        if not SKIPPED.isdisjoint(names[:-1]):
            continue
        with warnings.catch_warnings(), suppress(SyntaxError, ValueError, SystemError):
            warnings.simplefilter("ignore")  # invalid escapes in some files
            module = ".".join(names).removesuffix(".__init__")
            for name, text in _docstrings(ast.parse(file.read_bytes()), module):
                if len(text) >= MIN_CHARACTERS:
                    texts.setdefault(name, text)
    if len(texts) < MIN_DOCUMENTS:
        got = f"got {len(texts):,} texts, wanted at least {MIN_DOCUMENTS:,}"
        raise NotFound(f"{library}: Python's own documentation is not in its .py files: {got}")
    return [Document(name, f"{name}\n\n{text}", {}) for name, text in texts.items()]


def _docstrings(node: Any, name: str) -> Iterator[tuple[str, str]]:
    """Yield names and docstrings of a module, its classes, and the functions of both."""
    yield name, ast.get_docstring(node) or ""
    for inner in node.body if isinstance(node, ast.Module | ast.ClassDef) else ():
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(inner, f"{name}.{inner.name}")


def draw_questions(
    documents: Sequence[Document], words: Words, index: Index, *, unknown: bool
) -> Iterator[tuple[str, str]]:
    """Yield questions (see ``EXPLANATION``), each with the id of the document it was made from."""
    texts = [document.text.lower() for document in documents]
    words_of = [list(dict.fromkeys(re.findall(r"\b[a-z]{5,20}\b", text))) for text in texts]
    frequency = Counter(word for row in words_of for word in row)
    strange = {*words.unknown(" ".join(frequency))}
    place = {word: at for at, word in enumerate(word for word in frequency if word not in strange)}
    known = [*place]
    if index.encoder is None:
        raise NotFound(f"{index.name}: has no model")
    vectors = index.encoder.encode(known)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    generator = random.Random(0)  # noqa: S311 - not for security
    for at in generator.sample(range(len(documents)), len(documents)):
        rare = [word for word in words_of[at] if word in strange and frequency[word] <= 3]
        own = [w for w in words_of[at] if w in place and frequency[w] < 0.1 * len(documents)]
        own.sort(key=lambda word: frequency[word])
        if len(own) < 8 or (unknown and not rare):
            continue
        question = [generator.choice(rare), *own[-2:]] if unknown else own[-4:]
        for word in [] if unknown else own[:4]:
            near = (known[i] for i in np.argsort(-vectors @ vectors[place[word]])[:50])
            others = (w for w in near if w[:4] not in texts[at] and w not in question)
            question += islice(others, 1)
        yield " ".join(question), documents[at].id


def tell_story(folder: Path) -> None:
    """Run all steps in ``folder``, and print their results. Refuse a folder with other files."""
    start = time.perf_counter()
    about = folder / "ABOUT.txt"
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (about.is_file() and about.read_bytes() == MARK):
        raise VocabtoolError(f"{folder}: has files that the demo did not make; name a new folder")
    for path in (folder / name for name in FILES):
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
    about.write_bytes(MARK)
    documents = documentation()
    texts = [document.text for document in documents]
    corpus = folder / "documents.jsonl"
    rows = (json.dumps({"id": row.id, "text": row.text}) for row in documents)
    corpus.write_text("\n".join(rows) + "\n", "utf-8")
    _tell("Documents are collected", f"{len(texts):,} texts of Python's documentation, in {corpus}")
    path = folder / "vectors.npz"
    train(iter(texts), rule="ptb", max_words=MODEL_WORDS, dim=64).save(path)
    _tell("A small encoder is trained on them", f"saved in {path}")
    words = Words.of(path)
    model, entries = quote(str(path)), f"{len(words.vocabulary):,} entries"
    _tell("Its vocabulary is taken out of its files", entries, f"$ vocabtool extract {model}")
    counter = OovCounter(words)
    counter.count([texts])
    report = counter.report()
    rate = f"{report.tokens_unknown:,} of {report.tokens:,} words, {report.token_rate:.1%}"
    some = ", ".join(printable(row.word_bytes) for row in report.commonest(6))
    command = f"$ vocabtool oov {model} {quote(str(corpus))}"
    _tell("The words that it does not know are counted", f"{rate}; among them {some}", command)
    index = Index.create(folder / "index", path, sample=texts)
    with index.writer() as writer:
        writer.add(documents)
    _tell("The documents are indexed", f"in {index.name}, by vectors and by words")
    question = _compare_fusions(documents, words, index)
    command = f"$ vocabtool search {quote(index.name)} {quote(question)} --explain"
    click.echo(f"{EXPLANATION}\n  {command}")
    click.echo(f"\nAll files are in {folder}. The demo took {time.perf_counter() - start:.0f} s.")


def _compare_fusions(documents: Sequence[Document], words: Words, index: Index) -> str:
    """Print how many questions each fusion answers. Return a question of the last kind."""
    sums = np.zeros(len(FUSIONS), int)
    click.echo(f"How many of {QUESTIONS} questions find the right document in {PLACES} hits:")
    _row("", NAMES)
    for unknown, kind in KINDS.items():
        drawn = draw_questions(documents, words, index, unknown=unknown)
        questions = list(islice(drawn, QUESTIONS))
        if not questions:
            raise NotFound(f"{index.name}: no document has the words for a question ({kind})")
        counts = []
        for fusion in FUSIONS:
            answers = index.search_many([text for text, _ in questions], k=PLACES, fusion=fusion)
            pairs = zip(answers, questions, strict=True)
            counts.append(sum(any(hit.id == right for hit in hits) for hits, (_, right) in pairs))
        sums += counts
        _row(kind, counts)
        click.echo(f"    such as: {questions[0][0]}  (from {questions[0][1]})")
    _row("both kinds", sums)
    return questions[0][0]


def _row(name: str, cells: Iterable[object]) -> None:
    click.echo(f"  {name:30}" + "".join(f"{cell:>10}" for cell in cells))


def _tell(title: str, *lines: str) -> None:
    click.echo("\n  ".join([title, *lines]) + "\n")
