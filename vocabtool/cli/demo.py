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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any, Final

import click
import numpy as np

from vocabtool.choices import Fusion
from vocabtool.documents import Document
from vocabtool.encoders.train import train
from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.index.index import Index
from vocabtool.oov.counter import OovCounter
from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.text_arrays import string_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import printable

MIN_CHARACTERS: Final = 60  # of a text; "Return x." is too short
MIN_DOCUMENTS: Final = 1_000  # for training word vectors
# Folders of other packages and of tests.
SKIPPED: Final = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})
MODEL_WORDS: Final = 3_000  # rarer words are unknown to the model
QUESTIONS: Final = 100  # of each kind
PLACES: Final = 10  # a document in these first places counts as found
MARK: Final = b"Made by `vocabtool demo`, which builds it anew when it is run again.\n"
FILES: Final = ("documents.jsonl", "vectors.npz", "model", "index")
FUSIONS: Final[dict[Fusion, str]] = {
    **{"dense": "vectors", "keyword": "keywords", "coverage": "hybrid"}
}
KINDS: Final = {False: "half of the words are others", True: "one word is unknown"}
EXPLANATION: Final = """
  Vectors find documents by words of similar meaning, but drop a word that the model does not know.
  Keywords find this word, but no other words. Hybrid search finds most of both kinds.
  The first kind has eight words of a document, four of them replaced by the nearest words in the
  model's vectors. The second kind has three words, one of them in at most three documents."""


def documentation() -> list[Document]:
    """Return the docstrings of Python's library. Raises :class:`NotFound` if there are too few."""
    library = Path(sysconfig.get_path("stdlib"))
    texts: dict[str, str] = {}
    for file in sorted(library.rglob("*.py")):
        parts = file.relative_to(library).with_suffix("").parts
        if not SKIPPED.isdisjoint(parts[:-1]):
            continue
        with warnings.catch_warnings(), suppress(SyntaxError, ValueError, SystemError):
            warnings.simplefilter("ignore")  # invalid escapes in some files
            tree, module = ast.parse(file.read_bytes()), ".".join(parts).removesuffix(".__init__")
            for name, text in ((module, ast.get_docstring(tree)), *_docstrings(tree, module)):
                if text and len(text) >= MIN_CHARACTERS:
                    texts.setdefault(name, text)
    if len(texts) < MIN_DOCUMENTS:
        raise NotFound(
            f"{library}: expected at least {MIN_DOCUMENTS:,} texts of Python's own documentation, "
            f"got {len(texts):,}; run the demo with a Python whose library consists of .py files"
        )
    return [Document(name, f"{name}\n\n{text}", {}) for name, text in texts.items()]


def _docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, str | None]]:
    """Yield names and docstrings of classes and functions, except those inside functions."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name}.{inner.name}", ast.get_docstring(inner)
        if isinstance(inner, ast.ClassDef):
            yield from _docstrings(inner, f"{name}.{inner.name}")


def save_encoder(folder: Path, texts: Sequence[str]) -> Path:
    """Train a small encoder, and save it: a TensorFlow SavedModel that contains all text
    processing, or a file of word vectors if TensorFlow is not installed.
    """
    try:
        tf: Any = import_tensorflow()
    except UnsupportedFormat:
        train(iter(texts), rule="ptb", max_words=MODEL_WORDS, dim=64).save(folder / "vectors.npz")
        return folder / "vectors.npz"
    lower, rule = (text.lower() for text in texts), r"regex:[\pL\pM\pN_]+|[^\pL\pM\pN_\s]"
    trained = train(lower, rule=rule, max_words=MODEL_WORDS, dim=64)
    common = 1e-3 / (1e-3 + trained.counts / trained.tokens)  # weakens common words
    vectors = trained.vectors * common[:, None].astype(np.float32)
    model = tf.Module()
    ids = tf.range(1, len(trained.words) + 1, dtype=tf.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(trained.words), ids)
    model.words = tf.lookup.StaticHashTable(initializer, 0)
    model.vectors = tf.Variable(np.vstack([np.zeros_like(vectors[:1]), vectors]))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])  # type: ignore[untyped-decorator] # TensorFlow has no types
    def encode(inputs: Any) -> Any:
        lower = tf.strings.lower(inputs, encoding="utf-8")
        spaced = tf.strings.regex_replace(lower, r"([^\pL\pM\pN_\s])", r" \1 ")
        tokens = tf.compat.v1.strings.split(spaced, result_type="SparseTensor")
        found = model.words.lookup(tokens.values)
        sparse = tf.SparseTensor(tokens.indices, found, tokens.dense_shape)
        return tf.nn.safe_embedding_lookup_sparse(model.vectors, sparse, combiner="mean")

    model.__call__ = encode
    tf.saved_model.save(model, str(folder / "model"), signatures=encode)
    return folder / "model"


def draw_questions(
    documents: Sequence[Document], words: Words, index: Index, *, unknown: bool
) -> Iterator[tuple[str, str]]:
    """Yield pairs of a question and the id of the document that it was made from.

    ``unknown``: two known words of the document, and one that the model does not know and at most
    three documents contain. Otherwise: eight known words, of which the four rarest are replaced by
    the nearest words in the model's vectors.
    """
    texts = [document.text.lower() for document in documents]
    words_of = [list(dict.fromkeys(re.findall(r"\b[a-z]{5,20}\b", text))) for text in texts]
    frequency = Counter(word for row in words_of for word in row)
    strange = {*words.unknown(" ".join(frequency))}
    place = {word: at for at, word in enumerate(word for word in frequency if word not in strange)}
    known = [*place]
    vectors = index.encoder.encode(known)  # type: ignore[union-attr] # the index has a model
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


def count_right(index: Index, questions: Sequence[tuple[str, str]]) -> list[int]:
    """Return for each fusion how many questions find the right document in the first places."""
    texts = [text for text, _ in questions]
    counts = []
    for fusion in FUSIONS:
        pairs = zip(index.search_many(texts, k=PLACES, fusion=fusion), questions, strict=True)
        counts.append(sum(any(hit.id == wanted for hit in hits) for hits, (_, wanted) in pairs))
    return counts


def tell_story(folder: Path) -> None:
    """Run all steps of the demo in ``folder``, and print the result of each.

    Raises :class:`VocabtoolError` if the folder contains files that the demo has not made.
    """
    start, about = time.perf_counter(), folder / "ABOUT.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()) and not (about.is_file() and about.read_bytes() == MARK):
            raise VocabtoolError(
                f"{folder}: contains files that the demo has not made; name a new folder"
            )
        for path in (folder / name for name in FILES):  # of a symbolic link, not its target
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
        about.write_bytes(MARK)
    except OSError as error:
        raise NotFound(f"{folder}: cannot be written to: {error.strerror}") from error
    documents = documentation()
    texts = [document.text for document in documents]
    corpus = folder / "documents.jsonl"
    rows = (json.dumps({"id": row.id, "text": row.text}) for row in documents)
    corpus.write_text("\n".join(rows) + "\n", "utf-8")
    _tell("Documents are collected", f"{len(texts):,} texts of Python's documentation, in {corpus}")
    path = save_encoder(folder, texts)
    _tell("A small encoder is trained on them", f"saved in {path}")
    words = Words.of(path)
    model, source = quote(str(path)), quote(str(corpus))
    count = f"{len(words.vocabulary):,} entries"
    _tell("Its vocabulary is taken out of its files", count, f"$ vocabtool extract {model}")
    counter = OovCounter(words)
    counter.count([string_array(texts)])
    report = counter.report(model=str(path), sources=(str(corpus),))
    rate = f"{report.tokens_unknown:,} of {report.tokens:,} words, {report.token_rate:.1%}"
    some = ", ".join(printable(row.word) for row in report.commonest(6))
    command = f"$ vocabtool oov {model} {source}"
    _tell("The words that it does not know are counted", f"{rate}; among them {some}", command)
    index = Index.create(folder / "index", path, sample=texts)
    with index.writer() as writer:
        writer.add(documents)
    _tell("The documents are indexed", f"in {index.name}, by vectors and by words")
    _ask(documents, words, index)
    seconds = time.perf_counter() - start
    click.echo(f"\nAll files are in {folder}. The demo took {seconds:.0f} s.")


def _ask(documents: Sequence[Document], words: Words, index: Index) -> None:
    """Ask both kinds of questions, and print how often each search finds the right document."""
    sums = [0] * len(FUSIONS)
    click.echo(f"How many of {QUESTIONS} questions find the right document in {PLACES} hits:")
    click.echo(f"  {'':30}" + "".join(f"{name:>10}" for name in FUSIONS.values()))
    for unknown, kind in KINDS.items():
        drawn = draw_questions(documents, words, index, unknown=unknown)
        questions = list(islice(drawn, QUESTIONS))
        right = count_right(index, questions)
        sums = [one + other for one, other in zip(sums, right, strict=True)]
        click.echo(f"  {kind:30}" + "".join(f"{count:>10}" for count in right))
        click.echo(f"    such as: {questions[0][0]}  (from {questions[0][1]})")
    click.echo(f"  {'both kinds':30}" + "".join(f"{count:>10}" for count in sums))
    click.echo(EXPLANATION)
    click.echo(f"  $ vocabtool search {quote(index.name)} {quote(questions[0][0])} --explain")


def _tell(title: str, *lines: str) -> None:
    click.echo("\n  ".join([title, *lines]) + "\n")
