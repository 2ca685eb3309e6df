"""``demo``: the whole story offline, on text that every Python has, told while it is made.

A small model is trained on Python's own documentation; its words are read out again, what it does
not know is counted, the documents are indexed, and queries whose answer is known are asked, by
vectors alone and with keywords.
"""

from __future__ import annotations

import ast
import json
import random
import re
import shutil
import sysconfig
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import islice
from pathlib import Path
from shlex import quote
from textwrap import wrap
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Fusion
from vocabtool.documents import Document
from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.open_encoder import open_encoder
from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.formats.vocabulary_files import save
from vocabtool.index.index import Index
from vocabtool.oov.counter import OovCounter
from vocabtool.search.hits import WordSummary
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.checked_model import import_tensorflow
from vocabtool.tokenization.text_arrays import as_bytes, string_array
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary, printable

# What Python says about itself: topics of ``help``, and docstrings read out of the source files of
# the standard library. Nothing of it is imported or run, and ``python -OO`` does not strip them.

MIN_CHARACTERS: Final = 60  # of a docstring: "Return x." says nothing
PASSAGE_WORDS: Final = 200  # of which a word that stands once is still a part
MAX_DOCUMENTS: Final = 10_000
MIN_DOCUMENTS: Final = 1_000  # that vectors of words can be made of
MAX_FILE_BYTES: Final = 4 << 20
# What others installed, and what tests the library instead of documenting it.
PASSED_OVER: Final = frozenset({"site-packages", "dist-packages", "test", "tests", "idle_test"})


def documentation(library: Path | None = None) -> tuple[Document, ...]:
    """What this Python says about itself, in a fixed order; ids are unique.

    ``library``: a folder other than its standard library.
    Raises :class:`NotFound` where that is too little to show anything with.
    """
    library = library or Path(sysconfig.get_path("stdlib"))
    documents: list[Document] = []
    with suppress(ImportError):  # a distribution may leave it out
        from pydoc_data.topics import topics

        for name in sorted(topics):
            documents += _passages(f"topics.{name}", topics[name].strip(), "topics")
    modules = []
    for file in library.rglob("*.py"):
        inside = file.relative_to(library)
        if PASSED_OVER.isdisjoint(inside.parts) and file.stat().st_size <= MAX_FILE_BYTES:
            parts = inside.parent.parts if file.stem == "__init__" else inside.with_suffix("").parts
            modules.append((".".join(parts), file))
    seen = set()
    for module, file in sorted(modules):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # some files have escapes that Python warns of
            try:
                tree = ast.parse(file.read_bytes())
            except (SyntaxError, ValueError):  # templates, and what lib2to3 translates
                continue
        for name, text in _docstrings(tree, module):
            if len(text) >= MIN_CHARACTERS and name not in seen:
                seen.add(name)
                documents += _passages(name, text, module.partition(".")[0])
    if len(documents) < MIN_DOCUMENTS:
        raise NotFound(
            f"{library}: wanted Python's own documentation, {MIN_DOCUMENTS:,} texts or more, found "
            f"{len(documents):,}. Run the demo with a Python that has its standard library as .py "
            "files (python.org, a distribution's full package, pyenv, conda)"
        )
    return tuple(documents[:MAX_DOCUMENTS])


def _passages(name: str, text: str, module: str) -> Iterator[Document]:
    """A text below its name; a long one cut between paragraphs, ``name#2`` and so on."""
    parts: list[list[str]] = [[]]
    words = 0
    for paragraph in text.split("\n\n"):
        words += len(paragraph.split())
        if parts[-1] and words > PASSAGE_WORDS:
            parts.append([])
            words = len(paragraph.split())
        parts[-1].append(paragraph)
    for number, part in enumerate(parts, 1):
        id_ = f"{name}#{number}" if len(parts) > 1 else name
        yield Document(id_, "\n\n".join([name, *part]), {"module": module})


def _docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    """Of a module or class and what stands in it, also below an ``if``; not inside functions."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if text := ast.get_docstring(node):
            yield name, text
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return
    for inner in ast.iter_child_nodes(node):
        if isinstance(inner, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docstrings(inner, f"{name}.{inner.name}")
        elif isinstance(inner, ast.If | ast.Try | ast.ExceptHandler):
            yield from _docstrings(inner, name)


# Training: positive pointwise mutual information of words that stand near each other, then a
# truncated singular value decomposition (Levy and Goldberg, "Neural Word Embedding as Implicit
# Matrix Factorization", 2014). Rare words get no vector: the model does not know them.

MAX_WORDS: Final = 3_000
DIMENSIONS: Final = 64
WINDOW: Final = 5  # words to either side count as near
SMOOTHING: Final = 0.75  # the exponent of a neighbour's count, so that rare ones surprise less
COMMON: Final = 1e-3  # a word of this frequency counts half
SAVED_MODEL_RULE: Final = r"regex:[\pL\pM\pN_]+|[^\pL\pM\pN_\s]"  # of lower-case text
WORD_VECTORS_RULE: Final = "ptb"


def train(texts: Sequence[str], rule: str) -> tuple[list[str], NDArray[np.float32]]:
    """The commonest words and their vectors, shape (n, dim); the same texts give the same vectors.

    ``rule``: how texts become words, as in ``Words.of``.
    """
    no_words = Vocabulary("words", "list", ByteStrings.of([]))
    lookup = Words.of(no_words, rule=rule).look_up([text.lower() for text in texts])
    words = lookup.distinct.to_pylist()
    frequency = np.bincount(lookup.codes, minlength=len(words))
    chosen = sorted(range(len(words)), key=lambda code: (-frequency[code], words[code]))[:MAX_WORDS]
    numbers = np.full(len(words), -1)
    numbers[chosen] = np.arange(len(chosen))
    text_of = np.repeat(np.arange(len(texts)), np.diff(lookup.offsets))
    counts = count_neighbours(numbers[lookup.codes], text_of, len(chosen))
    vectors = reduce_dimensions(surprise(counts))
    share = frequency[chosen] / len(lookup.codes)
    weighted = vectors * (COMMON / (COMMON + share))[:, None]
    return [words[code] for code in chosen], weighted.astype(np.float32)


def count_neighbours(ids: NDArray[np.int64], texts: NDArray[np.int64], size: int) -> Any:
    """How often words are near each other, nearer ones counting more: sparse, (size, size)."""
    from scipy.sparse import coo_matrix

    total = coo_matrix((size, size), dtype=np.float64).tocsr()
    for distance in range(1, WINDOW + 1):
        left, right = ids[:-distance], ids[distance:]
        near = (left >= 0) & (right >= 0) & (texts[:-distance] == texts[distance:])
        ones = np.full(int(near.sum()), 1 / distance)
        total = total + coo_matrix((ones, (left[near], right[near])), (size, size)).tocsr()
    return total + total.T


def surprise(counts: Any) -> Any:
    """Positive pointwise mutual information of a sparse matrix of counts."""
    pairs = counts.tocoo()
    rows = np.asarray(counts.sum(axis=1)).ravel()
    columns = np.asarray(counts.sum(axis=0)).ravel() ** SMOOTHING
    expected = rows[pairs.row] * columns[pairs.col] / columns.sum()
    pairs.data = np.maximum(np.log(pairs.data / expected), 0)
    return pairs.tocsr()


def reduce_dimensions(matrix: Any, dimensions: int = DIMENSIONS) -> NDArray[np.float64]:
    """Rows of unit length in few dimensions; the start is fixed, so there is no chance in it."""
    from scipy.sparse.linalg import svds

    left, strength, _ = svds(matrix, k=dimensions, v0=np.ones(matrix.shape[0]))
    vectors = left * np.sqrt(strength)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9))


def save_sentence_encoder(folder: Path, texts: Sequence[str], tf: Any) -> None:
    """Train, and write a SavedModel of TensorFlow (``tf``) that does all text processing itself.

    It takes texts, shape (n,), and gives float32, shape (n, dim): the mean of a text's word
    vectors, where unknown words count as zeros.
    """
    words, vectors = train(texts, SAVED_MODEL_RULE)

    class SentenceEncoder(tf.Module):  # type: ignore[misc] # TensorFlow has no types
        def __init__(self) -> None:
            super().__init__()
            ids = tf.range(1, len(words) + 1, dtype=tf.int64)
            initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(words), ids)
            self.words = tf.lookup.StaticHashTable(initializer, 0)
            self.vectors = tf.Variable(np.vstack([np.zeros_like(vectors[:1]), vectors]))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "inputs")])  # type: ignore[untyped-decorator] # the same
        def __call__(self, inputs: Any) -> Any:
            lower = tf.strings.lower(inputs, encoding="utf-8")
            spaced = tf.strings.regex_replace(lower, r"([^\pL\pM\pN_\s])", r" \1 ")
            tokens = tf.compat.v1.strings.split(spaced, result_type="SparseTensor")
            ids = tf.SparseTensor(
                tokens.indices, self.words.lookup(tokens.values), tokens.dense_shape
            )
            return tf.nn.safe_embedding_lookup_sparse(self.vectors, ids, combiner="mean")

    encoder = SentenceEncoder()
    tf.saved_model.save(encoder, str(folder), signatures=encoder.__call__)
    (folder / "fingerprint.pb").unlink(missing_ok=True)  # tells one save from the next


MARK: Final = b"Made by `vocabtool demo`, which builds it anew when it is run again.\n"
ABOUT: Final = b"""
documents.jsonl   Python's own documentation, a text a line
model/            a small sentence encoder that was trained on it, a TensorFlow SavedModel,
                  or vectors.npz, a file of word vectors, where TensorFlow is not installed
vocabulary.txt    the words that it knows, read out of its files
index/            what `vocabtool search` searches
queries.jsonl     queries with a word that the model does not know, drawn by a rule ...
qrels.tsv         ... and which document each was made of, as `vocabtool eval` reads them
"""
CONTENT: Final = (
    *("documents.jsonl", "vocabulary.txt", "queries.jsonl", "qrels.tsv"),
    *("vectors.npz", "model", "index"),
)
WIDTH: Final = 96
QUERIES: Final = 100
MAX_SHOWN: Final = 5  # queries told of: the first that vectors alone miss
MAX_HOLDERS: Final = 3  # documents that hold the unknown word of a query
ORDINARY: Final = (0.01, 0.1)  # share of the documents that hold a known word of a query
WORD: Final = re.compile(rb"[a-z]{5,20}")
RULE: Final = (
    f"a word of 5 to 20 letters that the model does not know and that at most {MAX_HOLDERS} "
    "documents hold in any form, with two ordinary words of one of these documents: such that the "
    f"model knows and {ORDINARY[0]:.0%} to {ORDINARY[1]:.0%} of all documents hold; no stop words; "
    "drawn by a seeded generator, a document at most once"
)
PLACES: Final = 10  # that a person looks at
DEPTH: Final = 100  # places that a document is looked for in
NO_WORD: Final = "xqzzyvw"
FUSIONS: Final[dict[Fusion, str]] = {
    "dense": "vectors alone",
    "keyword": "keywords alone",
    "rrf": "reciprocal rank fusion",
    "coverage": "hybrid by coverage (the default)",
}


class Question(NamedTuple):
    """A query with one unknown word, and the id of the document that it was made of."""

    text: str
    unknown: str
    document: str


def place_of(question: Question, index: Index, fusion: Fusion) -> int:
    """Where the right document comes, from 1; 0: it is not among the first ones."""
    ids = [hit.id for hit in index.search(question.text, k=DEPTH, fusion=fusion)]
    return ids.index(question.document) + 1 if question.document in ids else 0


def tell_story(folder: Path, seed: int = 0) -> Iterator[str]:
    """Build everything in ``folder``, and tell of each step when it is done.

    With TensorFlow the model is a SavedModel, without it a file of word vectors.
    Raises :class:`VocabtoolError` where something else is in the folder, :class:`NotFound` where
    this Python lacks its documentation.
    """
    about = folder / "ABOUT.txt"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_own = about.is_file() and about.read_bytes().startswith(MARK)
        if any(folder.iterdir()) and not is_own:
            raise VocabtoolError(
                f"{folder}: not empty, and not made by the demo, so nothing is done. "
                "Name a new folder"
            )
        for path in (folder / name for name in CONTENT):  # a link goes, not what it leads to
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        about.write_bytes(MARK + ABOUT)
    except OSError as error:
        raise NotFound(f"{folder}: cannot be written to: {error.strerror}") from error
    return _Story(folder, seed).tell()


class _Story:
    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.start = self.last = time.perf_counter()
        self.corpus = folder / "documents.jsonl"

    def tell(self) -> Iterator[str]:
        """All of it."""
        tensorflow: Any = None
        try:
            tensorflow = import_tensorflow()
            yield from self._step("TensorFlow is loaded")
        except UnsupportedFormat:
            note = "so the model is a file of word vectors, not a SavedModel; for that: "
            install = "pip install '.[tensorflow]'"
            yield from self._step("TensorFlow is not installed", note + install)
        documents = documentation()
        texts = [document.text for document in documents]
        with self.corpus.open("w", encoding="utf-8") as file:
            for document in documents:
                row = {"id": document.id, "text": document.text, **document.fields}
                file.write(json.dumps(row) + "\n")
        characters = sum(map(len, texts)) / 1e6
        count = f"{len(texts):,} texts of its documentation, {characters:.1f} million characters"
        yield from self._step("What every Python has", count, f"in {self.corpus}")
        options: dict[str, Any] = {}
        rule = weights = ""  # of the commands that do the same
        if tensorflow is not None:
            path = self.folder / "model"
            save_sentence_encoder(path, texts, tensorflow)
        else:
            path = self.folder / "vectors.npz"
            options = {"rule": WORD_VECTORS_RULE, "weights": "none"}
            rule, weights = f" --rule {WORD_VECTORS_RULE}", " --weights none"
            spellings, vectors = train(texts, WORD_VECTORS_RULE)
            np.savez(path, words=np.array(spellings), vectors=vectors)
        yield from self._step(
            "A small sentence encoder is trained",
            f"vectors of {MAX_WORDS:,} words, from which words stand near which in these texts",
            f"saved in {path}",
        )
        encoder = open_encoder(path, **options)  # its words are read off the model's files again
        words = encoder.words
        if words is None:
            raise VocabtoolError(f"{path}: its words are not recovered")
        save(words.vocabulary, self.folder / "vocabulary.txt")
        model, corpus = quote(str(path)), quote(str(self.corpus))
        yield from self._step(
            "Its vocabulary is read out of its files",
            f"{len(words.vocabulary):,} entries, called {words.vocabulary.name} in the model",
            command=f"extract {model}",
        )
        counter = OovCounter(words)
        counter.count([string_array(texts)])
        report = counter.report(model=str(path), sources=(str(self.corpus),))
        commonest = [printable(each.word) for each in report.commonest(8)]
        yield from self._step(
            "What it does not know",
            f"{report.tokens_unknown:,} of {report.tokens:,} words in the texts, "
            f"{report.token_rate:.1%}; {report.distinct_unknown:,} different ones",
            f"the commonest of them: {', '.join(commonest)}",
            command=f"oov {model} {corpus}{rule}",
        )
        index = Index.create(self.folder / "index", path, **options)
        with index.writer() as writer:
            writer.add(documents)
        another = quote(str(self.folder / "another-index"))
        yield from self._step(
            "They are indexed",
            f"{len(index):,} documents by their vectors and by their words, in {index.path}",
            command=f"index {corpus} --model {model}{rule}{weights} -o {another}",
        )
        questions = list(draw_questions(documents, words, index, self.seed))
        yield from self._ask(index, encoder, questions)
        seconds = time.perf_counter() - self.start
        yield f"All of it is in {self.folder}, to play with; it took {seconds:.0f} s."

    def _step(self, title: str, *lines: str, command: str = "") -> Iterator[str]:
        """What was done since the step before, and the command that does the same."""
        now = time.perf_counter()
        yield f"{title} ({now - self.last:.1f} s)"
        for line in lines:
            yield from _wrap(line)
        if command:
            yield f"  $ vocabtool {command}"
        yield ""
        self.last = now

    def _ask(self, index: Index, encoder: Encoder, questions: list[Question]) -> Iterator[str]:
        queries, qrels = self.folder / "queries.jsonl", self.folder / "qrels.tsv"
        with queries.open("w") as file, qrels.open("w") as judgements:
            judgements.write("query-id\tcorpus-id\tscore\n")
            for number, question in enumerate(questions, 1):
                file.write(json.dumps({"_id": str(number), "text": question.text}) + "\n")
                judgements.write(f"{number}\t{question.document}\t1\n")
        places = {name: [place_of(each, index, name) for each in questions] for name in FUSIONS}
        folder = quote(str(index.path))
        yield from self._step(
            "It is asked",
            f"{len(questions)} queries, drawn by a rule: {RULE}",
            command=f"eval {folder} --queries {quote(str(queries))} --qrels {quote(str(qrels))}",
        )
        missed = [at for at, place in enumerate(places["dense"]) if not 0 < place <= PLACES]
        for number, at in enumerate(missed[:MAX_SHOWN], 1):
            yield f"Query {number}: {questions[at].text}"
            yield from _tell_question(questions[at], index, encoder)
            yield f"  $ vocabtool search {folder} {quote(questions[at].text)} --explain"
            yield ""
        hybrid = sum(0 < places["coverage"][at] <= PLACES for at in missed)
        yield f"Shown are the first {len(missed[:MAX_SHOWN])} that vectors alone miss."
        yield f"Of the {len(missed)} that vectors alone miss, hybrid finds {hybrid}."
        yield f"Of all {len(questions)}, the document that the query was made of comes"
        yield f"  {'':34}first   among the first ten"
        for fusion, name in FUSIONS.items():
            ten = sum(0 < place <= PLACES for place in places[fusion])
            yield f"  {name:34}{places[fusion].count(1):5}   {ten:5}"
        yield ""


def _tell_question(question: Question, index: Index, encoder: Encoder) -> Iterator[str]:
    """The words of a query, and the first hits without and with keywords."""
    query = index.search(question.text, k=3, explain=True).query
    yield f"  made of {question.document}"
    for word in query.words:
        known = "known" if word.known else "unknown to the model"
        count = word.document_frequency or 0
        yield f"    {word.surface}: {known}, in {count:,} document{'s' * (count != 1)}"
    if query.m is not None and query.weight is not None:
        yield from _wrap(
            f"the unknown is {query.m:.0%} of what the query says (by idf), so keywords count "
            f"{query.weight:.0%} of the score"
        )
    own, other = encoder.encode([question.text, question.text.replace(question.unknown, NO_WORD)])
    if np.array_equal(own, other):
        yield "  the vector is the same with any other unknown word in its place"
    asked: tuple[tuple[Fusion, str], ...] = (("dense", "vectors alone"), ("coverage", "hybrid"))
    for name, told in asked:
        hits = index.search(question.text, k=3, fusion=name, explain=True)
        place = place_of(question, index, name)
        where = f"at place {place}" if place else f"not among the first {DEPTH}"
        yield f"  {told}: {where}"
        for rank, hit in enumerate(hits, 1):
            words = [word.surface for word in hit.explanation.words] if hit.explanation else []
            held = f"  (holds {', '.join(words)})" if words else ""
            yield f"   {'>' if hit.id == question.document else ' '}{rank}. {hit.id}{held}"


def draw_questions(
    documents: Sequence[Document], words: Words, index: Index, seed: int
) -> Iterator[Question]:
    """At most :data:`QUERIES` queries by :data:`RULE`; the same documents give the same ones."""
    lookup = words.look_up([document.text for document in documents])
    texts = np.repeat(np.arange(len(documents)), np.diff(lookup.offsets))
    spellings = as_bytes(lookup.distinct)
    plain = np.array([WORD.fullmatch(spelling) is not None for spelling in spellings])
    pairs = np.unique(texts * len(spellings) + lookup.codes)  # each word of a text once
    text_of, code_of = np.divmod(pairs, len(spellings))
    frequency = np.bincount(code_of, minlength=len(spellings))
    share = frequency / len(documents)
    ordinary = plain & lookup.known & (share >= ORDINARY[0]) & (share <= ORDINARY[1])
    candidates = np.flatnonzero(plain & ~lookup.known & (frequency <= MAX_HOLDERS)).tolist()
    candidates.sort(key=spellings.__getitem__)
    generator = random.Random(seed)  # noqa: S311 - nothing secret
    generator.shuffle(candidates)
    drawn: set[int] = set()

    @cache
    def summary(code: int) -> WordSummary:
        return index.search(spellings[code].decode(), k=1, explain=True).query.words[0]

    for code in candidates:
        if len(drawn) == QUERIES:
            break
        text = generator.choice(text_of[code_of == code].tolist())
        holders = summary(code).document_frequency or 0
        if text in drawn or not summary(code).counts or not 1 <= holders <= MAX_HOLDERS:
            continue
        known = sorted(code_of[(text_of == text) & ordinary[code_of]].tolist())
        generator.shuffle(known)
        known = list(islice((each for each in known if summary(each).counts), 2))
        if len(known) < 2:
            continue
        drawn.add(text)
        order = lookup.codes[lookup.offsets[text] : lookup.offsets[text + 1]].tolist()
        taken = sorted([code, *known], key=order.index)
        query = " ".join(spellings[each].decode() for each in taken)
        yield Question(query, spellings[code].decode(), documents[text].id)


def _wrap(text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
