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

from vocabtool.choices import Fusion
from vocabtool.documents import Document
from vocabtool.encoders.train import TrainedVectors, train
from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.formats.vocabulary_files import save
from vocabtool.index.index import Index
from vocabtool.oov.counter import OovCounter
from vocabtool.system.messages import plural
from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.text_arrays import as_bytes, string_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import printable

MIN_CHARACTERS: Final = 60  # minimum length of a docstring; "Return x." is too short
PASSAGE_WORDS: Final = 200  # short, so that a single occurrence of a word affects the vector
MAX_DOCUMENTS: Final = 10_000
MIN_DOCUMENTS: Final = 1_000  # minimum for training word vectors
# Folders of other packages and of tests.
SKIPPED_FOLDERS: Final = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})


def documentation(library: Path | None = None) -> tuple[Document, ...]:
    """Return the topics of ``help`` and the docstrings of source files, in a fixed order.

    ``library``: folder of the source files; ``None``: Python's standard library. Raises
    :class:`NotFound` if there are too few texts.
    """
    library = library or Path(sysconfig.get_path("stdlib"))
    texts: dict[str, str] = {}
    with suppress(ImportError):  # missing in some distributions
        from pydoc_data.topics import topics

        texts = {f"topics.{name}": topics[name].strip() for name in sorted(topics)}
    for file in sorted(library.rglob("*.py")):
        parts = file.relative_to(library).with_suffix("").parts
        if SKIPPED_FOLDERS.isdisjoint(parts[:-1]):
            with warnings.catch_warnings(), suppress(SyntaxError, ValueError):  # templates
                warnings.simplefilter("ignore")  # invalid escapes in some files
                module = ".".join(parts).removesuffix(".__init__")
                source = file.read_bytes()
                try:
                    tree = ast.parse(source)
                except SystemError:  # a fault of CPython before 3.11.5, gh-106905
                    tree = ast.parse(source)
                own = ast.get_docstring(tree) or ""
                for name, text in ((module, own), *_docstrings(tree, module)):
                    if len(text) >= MIN_CHARACTERS:
                        texts.setdefault(name, text)
    documents = []
    for name, text in texts.items():
        passages: list[str] = []
        for paragraph in text.split("\n\n"):
            if passages and len(f"{passages[-1]} {paragraph}".split()) <= PASSAGE_WORDS:
                passages[-1] += f"\n\n{paragraph}"
            else:
                passages.append(paragraph)
        for number, passage in enumerate(passages, 1):
            id_ = f"{name}#{number}" if len(passages) > 1 else name
            fields = {"module": name.partition(".")[0]}
            documents.append(Document(id_, f"{name}\n\n{passage}", fields))
    if len(documents) < MIN_DOCUMENTS:
        raise NotFound(
            f"{library}: expected at least {MIN_DOCUMENTS:,} texts of Python's own documentation, "
            f"got {len(documents):,}; run the demo with a Python whose library consists of "
            ".py files (python.org, pyenv, conda)"
        )
    return tuple(documents[:MAX_DOCUMENTS])


def _docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Yield names and docstrings of classes and functions, except those inside functions."""
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.If | ast.Try | ast.ExceptHandler):
            yield from _docstrings(inner, name)
        elif isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{name}.{inner.name}", ast.get_docstring(inner) or ""
            if isinstance(inner, ast.ClassDef):
                yield from _docstrings(inner, f"{name}.{inner.name}")


MAX_WORDS: Final = 3_000
DIMENSIONS: Final = 64
WINDOW: Final = 5  # words on each side that count as near
COMMON: Final = 1e-3  # a word of this frequency has half the weight


def train_words(texts: Iterable[str], rule: str) -> TrainedVectors:
    """Train vectors of the most frequent words, so that rare words are unknown to the model."""
    return train(iter(texts), rule=rule, max_words=MAX_WORDS, dim=DIMENSIONS, window=WINDOW)


def save_sentence_encoder(folder: Path, texts: Sequence[str]) -> None:
    """Train a TensorFlow SavedModel that contains all text processing, and save it.

    It accepts texts, shape (n,), and returns means of word vectors: float32, shape (n, dim). Raises
    :class:`UnsupportedFormat` if TensorFlow is not installed.
    """
    tf: Any = import_tensorflow()
    trained = train_words((text.lower() for text in texts), r"regex:[\pL\pM\pN_]+|[^\pL\pM\pN_\s]")
    words = trained.words
    common = COMMON / (COMMON + trained.counts / trained.tokens)  # weakens common words
    vectors = trained.vectors * common[:, None].astype(np.float32)
    model = tf.Module()
    ids = tf.range(1, len(words) + 1, dtype=tf.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(words), ids)
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
    tf.saved_model.save(model, str(folder), signatures=encode)
    (folder / "fingerprint.pb").unlink(missing_ok=True)  # differs between saves


MARK: Final = b"Made by `vocabtool demo`, which builds it anew when it is run again.\n"
ABOUT: Final = b"""
documents.jsonl   Python's own documentation, one text per line
model/            the trained model, a SavedModel; without TensorFlow, vectors.npz instead
vocabulary.txt    the words that the model knows, extracted from its files
index/            the index for `vocabtool search`
queries.jsonl     random queries with a word that the model does not know, for `vocabtool eval`
qrels.tsv         the document that each query was made from, for `vocabtool eval`
"""
FILES: Final = ("documents.jsonl", "vocabulary.txt", "vectors.npz", "queries.jsonl", "qrels.tsv")


def tell_story(folder: Path, seed: int = 0) -> None:
    """Run all steps of the demo in ``folder``, and print the result of each.

    - Raises :class:`VocabtoolError` if the folder contains other files.
    - Raises :class:`NotFound` if this Python has no documentation, or the folder is not writable.
    """
    start = now = time.perf_counter()
    about = folder / "ABOUT.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_own = about.is_file() and about.read_bytes().startswith(MARK)
        if not is_own and any(folder.iterdir()):
            raise VocabtoolError(
                f"{folder}: contains files that the demo has not made; name a new folder"
            )
        for path in (
            folder / name for name in (*FILES, "model", "index")
        ):  # remove a symbolic link, not its target
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        about.write_bytes(MARK + ABOUT)
    except OSError as error:
        raise NotFound(f"{folder}: cannot be written to: {error.strerror}") from error

    documents = documentation()
    texts = [document.text for document in documents]
    corpus = folder / "documents.jsonl"
    rows = ({"id": each.id, "text": each.text, **each.fields} for each in documents)
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    count = (
        f"{len(texts):,} texts of Python's documentation, {sum(map(len, texts)) / 1e6:.1f} million"
    )
    now = _tell_step(now, "Documents are collected", f"{count} characters, in {corpus}")

    told = [f"vectors of {MAX_WORDS:,} words, computed from the words near them in these texts"]
    try:
        path = folder / "model"
        save_sentence_encoder(path, texts)
    except UnsupportedFormat:
        path = folder / "vectors.npz"
        train_words(texts, "ptb").save(path)
        told.append("no SavedModel: TensorFlow is not installed (pip install '.[tensorflow]')")
    now = _tell_step(now, "A small sentence encoder is trained", *told, f"saved in {path}")

    words = Words.of(path)
    save(words.vocabulary, folder / "vocabulary.txt")
    count = f"{len(words.vocabulary):,} entries, named {words.vocabulary.name} in the model"
    model, source = quote(str(path)), quote(str(corpus))  # quoted for a shell
    command = f"$ vocabtool extract {model}"
    now = _tell_step(now, "Its vocabulary is extracted from its files", count, command)
    counter = OovCounter(words)
    counter.count([string_array(texts)])
    report = counter.report(model=str(path), sources=(str(corpus),))
    now = _tell_step(
        now,
        "Unknown words are counted",
        f"{report.tokens_unknown:,} of {report.tokens:,} words in the texts are unknown, "
        f"{report.token_rate:.1%}; {report.distinct_unknown:,} distinct words",
        f"among them: {', '.join(printable(each.word) for each in report.commonest(6))}",
        f"$ vocabtool oov {model} {source}",
    )

    index = Index.create(folder / "index", path, sample=texts)
    with index.writer() as writer:
        writer.add(documents)
    now = _tell_step(
        now,
        "The documents are indexed",
        f"{len(index):,} documents, by vectors and by words, in {index.name}",
        f"$ vocabtool index {source} --id-field id --keep module --no-calibrate "
        f"--model {model} -o {quote(str(folder / 'another-index'))}",
    )

    _ask(index, list(islice(draw_questions(documents, words, index, seed), QUERIES)), folder)
    seconds = time.perf_counter() - start
    click.echo(f"\nAll files are in {folder}. The demo took {seconds:.0f} s.")


def _tell_step(since: float, title: str, *lines: str) -> float:
    now = time.perf_counter()
    click.echo("\n  ".join([f"{title} ({now - since:.1f} s)", *lines]) + "\n")
    return now


QUERIES: Final = 100
MAX_SHOWN: Final = 5  # queries that are printed: the first that vectors alone miss
MAX_HOLDERS: Final = 3  # documents that contain the unknown word of a query
ORDINARY: Final = (0.01, 0.1)  # share of documents that contain a known word of a query
PLACES: Final = 10  # a document in these first places counts as found
DEPTH: Final = 100  # number of hits that are searched for the document
SHOWN: Final[tuple[Fusion, ...]] = ("dense", "coverage")
FUSIONS: Final[dict[Fusion, str]] = {
    "dense": "vectors alone",
    "keyword": "keywords alone",
    "rrf": "reciprocal rank fusion",
    "coverage": "hybrid by coverage (the default)",
}


def draw_questions(
    documents: Sequence[Document], words: Words, index: Index, seed: int
) -> Iterator[tuple[str, str, str]]:
    """Yield triples: a query, the unknown word in the query, and the id of a document.

    The query consists of three words of this document.
    """
    lookup = words.look_up([document.text for document in documents])
    spellings = [spelling.decode() for spelling in as_bytes(lookup.distinct)]
    texts = np.split(lookup.codes, lookup.offsets[1:-1])
    codes_of = [list(dict.fromkeys(codes.tolist())) for codes in texts]
    frequency = Counter(code for codes in codes_of for code in codes)
    plain = {code for code in frequency if re.fullmatch("[a-z]{5,20}", spellings[code])}
    rare = {code for code in plain if frequency[code] <= MAX_HOLDERS and not lookup.known[code]}
    low, high = (share * len(documents) for share in ORDINARY)
    ordinary = {code for code in plain if low <= frequency[code] <= high and lookup.known[code]}
    generator = random.Random(seed)  # noqa: S311 - not for security
    for at in generator.sample(range(len(documents)), len(documents)):
        unknown = [code for code in codes_of[at] if code in rare]
        known = [code for code in codes_of[at] if code in ordinary]
        if unknown and len(known) >= 2:
            taken = [generator.choice(unknown), *generator.sample(known, 2)]
            text = " ".join(spellings[code] for code in sorted(taken, key=codes_of[at].index))
            found = index.search(text, k=1, explain=True).query.words
            holders = [word.document_frequency or 0 for word in found if not word.known]
            if all(word.counts for word in found) and 1 <= sum(holders) <= MAX_HOLDERS:
                yield text, spellings[taken[0]], documents[at].id


def _ask(index: Index, questions: Sequence[tuple[str, str, str]], folder: Path) -> None:
    """Run all queries, and print at which rank each query finds the document it was made from."""
    now = time.perf_counter()
    asked, judged = "", "query-id\tcorpus-id\tscore\n"
    for number, (text, _, document) in enumerate(questions, 1):
        asked += json.dumps({"_id": str(number), "text": text}) + "\n"
        judged += f"{number}\t{document}\t1\n"
    (folder / "queries.jsonl").write_text(asked)
    (folder / "qrels.tsv").write_text(judged)
    places: dict[Fusion, list[float]] = {fusion: [] for fusion in FUSIONS}
    for fusion, found in places.items():
        for text, _, document in questions:
            ids = [hit.id for hit in index.search(text, k=DEPTH, fusion=fusion)]
            found.append(ids.index(document) + 1 if document in ids else np.inf)
    path = quote(index.name)
    _tell_step(
        now,
        "Queries are run",
        f"{len(questions)} queries of three words from one document, without stop words: one word",
        f"of 5 to 20 letters that the model does not know, in at most {MAX_HOLDERS} documents, and",
        f"two known words that are in {ORDINARY[0]:.0%} to {ORDINARY[1]:.0%} of all documents",
        f"$ vocabtool eval {path} --queries {quote(str(folder / 'queries.jsonl'))} "
        f"--qrels {quote(str(folder / 'qrels.tsv'))}",
    )
    missed = [at for at, place in enumerate(places["dense"]) if place > PLACES]
    for number, at in enumerate(missed[:MAX_SHOWN], 1):
        text, unknown, document = questions[at]
        click.echo(f"Query {number}: {text}\n  made from {document}")
        query = index.search(text, k=1, explain=True).query
        for word in query.words:
            known = "known" if word.known else "unknown to the model"
            held_by = plural(word.document_frequency or 0, "document", "documents")
            click.echo(f"    {word.surface}: {known}, in {held_by}")
        click.echo(f"  the unknown word has {query.m or 0:.0%} of the query's idf weight,")
        click.echo(f"  so keyword search makes up {query.weight or 0:.0%} of the score")
        encoder = index.encoder
        if encoder and np.array_equal(*encoder.encode([text, text.replace(unknown, "xqzzyvw")])):
            click.echo("  any other unknown word would give the same vector")
        for fusion in SHOWN:
            place = places[fusion][at]
            where = f"not among the first {DEPTH}" if place == np.inf else f"at place {place}"
            click.echo(f"  {FUSIONS[fusion]}: {where}")
            for rank, hit in enumerate(index.search(text, k=3, fusion=fusion, explain=True), 1):
                told = hit.explanation.words if hit.explanation else ()
                held = f"  (contains {', '.join(word.surface for word in told)})" if told else ""
                click.echo(f"   {' >'[hit.id == document]}{rank}. {hit.id}{held}")
        click.echo(f"  $ vocabtool search {path} {quote(text)} --explain\n")
    hybrid = sum(places["coverage"][at] <= PLACES for at in missed)
    click.echo(f"These are the first {len(missed[:MAX_SHOWN])} queries that vectors alone miss.")
    click.echo(f"Vectors alone miss {len(missed)} queries; hybrid search finds {hybrid} of them.")
    click.echo(
        f"How many of all {len(questions)} queries find the document that they were made from, "
        "by its place:"
    )
    click.echo(f"  {'':34}    1   1 to 10")
    for fusion, name in FUSIONS.items():
        ten = sum(place <= PLACES for place in places[fusion])
        click.echo(f"  {name:34}{places[fusion].count(1):5}   {ten:5}")
