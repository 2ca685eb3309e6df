"""The demo: each part against what can be computed by hand, and its claims on a real run."""

from __future__ import annotations

import inspect
import json
import json.decoder
import shlex
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pytest

import vocabtool
from tests.conftest import ROOT
from vocabtool.cli import demo as demo_command
from vocabtool.demo import asking, running, sentence_encoder, story, training
from vocabtool.demo.asking import Found
from vocabtool.demo.documentation import (
    FEWEST,
    NO_SOURCES,
    NO_TOPICS,
    PASSAGE,
    SHORTEST,
    STRIPPED,
    documentation,
)
from vocabtool.demo.folder import MARK, DemoFolder
from vocabtool.demo.questions import KNOWN_WORDS, MOST_HOLDERS, ORDINARY, questions
from vocabtool.demo.running import Demo, Step
from vocabtool.demo.training import TextWords, Trained
from vocabtool.documents.reading import Document
from vocabtool.errors import NotFound, UnsupportedFormat, VocabtoolError
from vocabtool.keywords.cutter import Cutter
from vocabtool.keywords.queries import Term
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.words import Words
from vocabtool.vocabulary import Vocabulary

LONG = "It is described at some length, so that there is something to learn from it."


def quiet() -> AbstractContextManager[None]:
    """No warnings from TensorFlow; skips where it is missing."""
    pytest.importorskip("tensorflow", reason="the extra tensorflow is not installed")
    from tests.builders import tensorflow_models

    return tensorflow_models.quiet()


# Python's own documentation.


def library(folder: Path, files: Mapping[str, str] = MappingProxyType({})) -> Path:
    """A standard library of these files, and of enough docstrings to train on."""
    many = "".join(f'def f{number}():\n    """{LONG}"""\n' for number in range(FEWEST))
    for name, text in {"many.py": many, **files}.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(textwrap.dedent(text), "utf-8")
    return folder


def texts_of(folder: Path) -> dict[str, str]:
    """What is found there, without the help topics and what only makes it enough."""
    found = documentation(folder).documents
    kept = (each for each in found if not each.id.startswith(("topics.", "many.")))
    return {each.id: each.text for each in kept}


@pytest.fixture(scope="module")
def own() -> tuple[Document, ...]:
    """What this Python says about itself."""
    return documentation().documents


def test_docstrings_are_those_that_python_shows(own: tuple[Document, ...]) -> None:
    """A docstring read out of the source is what `inspect` says of the running object."""
    found = {document.id: document.text for document in own}
    objects = {
        "json.decoder.JSONDecoder.raw_decode": json.decoder.JSONDecoder.raw_decode,
        "textwrap.dedent": textwrap.dedent,
        "textwrap.TextWrapper.fill": textwrap.TextWrapper.fill,
        "inspect.getdoc": inspect.getdoc,
        "collections.Counter.most_common": Counter.most_common,
    }
    for name, of in objects.items():
        assert found[name] == f"{name}\n\n{inspect.getdoc(of)}"


def test_the_help_topics_are_documents(own: tuple[Document, ...]) -> None:
    """What `help('assert')` shows is a document; of a long topic every passage is one."""
    from pydoc_data.topics import topics

    found = {document.id: document.text for document in own}
    assert found["topics.assert"] == "topics.assert\n\n" + topics["assert"].strip()
    passages = [text for id_, text in found.items() if id_.startswith("topics.types#")]
    whole = "\n\n".join(text.removeprefix("topics.types\n\n") for text in passages)
    assert len(passages) > 10
    assert whole == topics["types"].strip()
    assert {id_.partition("#")[0] for id_ in found if id_.startswith("topics.")} == {
        f"topics.{name}" for name in topics
    }


def test_passages(tmp_path: Path) -> None:
    """Paragraphs are put together up to so many words; a longer one stands alone, uncut."""
    half, whole, more = ("w " * (PASSAGE // 2)).strip(), ("v " * PASSAGE).strip(), "u " * 300
    text = "\n\n".join([half, half, "one", whole, more.strip(), "last"])
    found = texts_of(library(tmp_path, {"a.py": f'"""{text}"""'}))
    assert found == {
        "a#1": f"a\n\n{half}\n\n{half}",
        "a#2": "a\n\none",
        "a#3": f"a\n\n{whole}",
        "a#4": f"a\n\n{more.strip()}",
        "a#5": "a\n\nlast",
    }


def test_ids_are_unique(own: tuple[Document, ...]) -> None:
    """There are a few thousand documents, none of them twice."""
    assert len({document.id for document in own}) == len(own)
    assert 3_000 <= len(own) <= 10_000


def test_what_is_read_of_a_source_file(tmp_path: Path) -> None:
    """Modules, classes, methods and functions, also below `if` and `try`; nothing in functions."""
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
        def silent(): pass
    '''
    found = texts_of(library(tmp_path, {"part.py": source}))
    assert found == {
        "part": f"part\n\nThe module. {LONG}",
        "part.chosen": f"part.chosen\n\nFirst. {LONG}",
        "part.Tried": f"part.Tried\n\nClass. {LONG}",
        "part.Tried.method": f"part.Tried.method\n\nMethod. {LONG}",
        "part.instead": f"part.instead\n\nInstead. {LONG}",
    }


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages", "test", "tests", "idle_test"])
def test_what_is_not_the_library(tmp_path: Path, folder: str) -> None:
    """What others installed and what tests the library is left out, at any depth."""
    inside = f'"""{LONG}"""'
    found = texts_of(library(tmp_path, {f"pkg/{folder}/mod.py": inside, "pkg/kept.py": inside}))
    assert list(found) == ["pkg.kept"]


def test_nothing_is_run(tmp_path: Path) -> None:
    """A module's docstring is read though the module cannot be imported."""
    source = f'"""{LONG}"""\nraise SystemExit("it was run")\n'
    assert list(texts_of(library(tmp_path, {"bomb.py": source}))) == ["bomb"]


@pytest.mark.parametrize("source", [b"def f(:", b"\x00", b"# coding: nonsense\n", b"\xff\xfe\xff"])
def test_a_file_that_is_no_python(tmp_path: Path, source: bytes) -> None:
    """It is passed over, and the others are read."""
    folder = library(tmp_path, {"kept.py": f'"""{LONG}"""'})
    (folder / "broken.py").write_bytes(source)
    assert list(texts_of(folder)) == ["kept"]


def test_a_docstring_of_the_shortest_length(tmp_path: Path) -> None:
    """One character less says too little."""
    long, short = "x" * SHORTEST, "x" * (SHORTEST - 1)
    found = texts_of(library(tmp_path, {"a.py": f'"""{long}"""', "b.py": f'"""{short}"""'}))
    assert found == {"a": f"a\n\n{long}"}


def test_a_python_without_its_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missing is said plainly, and what to do about it."""
    monkeypatch.setitem(sys.modules, "pydoc_data", None)
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(NotFound) as caught:
        documentation(tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: wanted Python's own documentation")
    assert NO_SOURCES in message and NO_TOPICS in message and "python.org" in message


def test_missing_topics_are_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docstrings alone are enough."""
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    found = documentation(library(tmp_path))
    assert (len(found.documents), found.notes) == (FEWEST, (NO_TOPICS,))


def test_stripped_docstrings_are_read_from_the_sources(own: tuple[Document, ...]) -> None:
    """`python -OO` has no docstrings in memory; the documents are the same, and a note says why."""
    code = """if True:
        import json
        from vocabtool.demo.documentation import documentation
        found = documentation()
        texts = [[each.id, each.text] for each in found.documents]
        print(json.dumps([json.JSONDecoder.__doc__, found.notes, texts]))
    """
    command = [sys.executable, "-OO", "-c", code]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=True)
    shown, notes, texts = json.loads(done.stdout)
    assert (shown, notes) == (None, [STRIPPED])
    assert texts == [[document.id, document.text] for document in own]


# Word vectors.


def text_words(*texts: str) -> TextWords:
    words = [word.encode() for text in texts for word in text.split()]
    numbers = [number for number, text in enumerate(texts) for _ in text.split()]
    return TextWords(words, np.array(numbers, np.int64))


def test_neighbours_by_hand() -> None:
    """One over the distance, both ways; not across texts, not past the window."""
    ids = np.array([0, 1, 2, 0, 1, -1, 2], np.int64)
    texts = np.array([0, 0, 0, 1, 1, 1, 1], np.int64)
    counts = training.neighbours(ids, texts, 3).toarray()
    np.testing.assert_allclose(
        counts,
        [
            # a: b beside it twice; c two apart, and three apart
            [0, 1 + 1, 1 / 2 + 1 / 3],
            # b: c beside it, and two apart past an unknown word
            [2, 0, 1 + 1 / 2],
            [1 / 2 + 1 / 3, 1 + 1 / 2, 0],
        ],
    )


def test_the_window() -> None:
    """Words further apart than the window are not near."""
    size = training.WINDOW + 2
    ids = np.arange(size, dtype=np.int64)
    counts = training.neighbours(ids, np.zeros(size, np.int64), size).toarray()
    assert counts[0, training.WINDOW] == 1 / training.WINDOW
    assert counts[0, training.WINDOW + 1] == 0


def test_surprise_is_the_formula() -> None:
    """Positive PMI with smoothed neighbours, as a dense matrix gives it."""
    from scipy.sparse import csr_matrix

    counts = np.random.default_rng(0).integers(0, 4, (7, 7)).astype(float)
    counts += counts.T
    smooth = counts.sum(axis=0) ** training.SMOOTHING
    expected = np.outer(counts.sum(axis=1), smooth / smooth.sum())
    with np.errstate(divide="ignore"):
        wanted = np.maximum(np.log(counts / expected), 0)
    np.testing.assert_allclose(training.surprise(csr_matrix(counts)).toarray(), wanted)


def test_reduction_is_numpys() -> None:
    """Likenesses of words are those of the full decomposition by NumPy."""
    from scipy.sparse import csr_matrix

    matrix = np.abs(np.random.default_rng(1).normal(size=(30, 30)))
    matrix += matrix.T
    left, strength, _ = np.linalg.svd(matrix)
    wanted = left[:, :5] * np.sqrt(strength[:5])
    wanted /= np.linalg.norm(wanted, axis=1, keepdims=True)
    reduced = training.reduced(csr_matrix(matrix), 5)
    np.testing.assert_allclose(reduced @ reduced.T, wanted @ wanted.T, atol=1e-8)


def test_training_takes_the_commonest_words() -> None:
    """By frequency, equal ones by their bytes; the unknown word is first, and zero."""
    text = text_words(*["the cat sat on the mat", "a cat and a dog", "the dog"] * 3)
    trained = training.train(text, size=6, dimensions=3)
    assert trained.words == [b"<UNK>", b"the", b"a", b"cat", b"dog", b"and"]
    assert trained.vectors.shape == (6, 3)
    assert trained.vectors.dtype == np.float32
    assert not trained.vectors[0].any()
    assert trained.vectors[1:].any(axis=1).all()
    again = training.train(text, size=6, dimensions=3)
    np.testing.assert_array_equal(trained.vectors, again.vectors)


def test_common_words_are_short() -> None:
    """The length of a vector is a / (a + frequency)."""
    text = text_words(*["the cat sat on the mat", "a cat and a dog", "the dog"] * 3)
    trained = training.train(text, size=6, dimensions=3)
    share = np.array([9, 6, 6, 6, 3]) / len(text.words)
    lengths = np.linalg.norm(trained.vectors[1:], axis=1)
    np.testing.assert_allclose(lengths, training.COMMON / (training.COMMON + share), rtol=1e-6)


# The sentence encoder.

TRAINED = Trained(
    [b"<UNK>", b"cat", "naïve".encode(), b"!"],
    np.array([[0, 0], [1, 2], [3, -4], [0, 8]], np.float32),
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An encoder of three words, saved."""
    folder = tmp_path_factory.mktemp("encoder") / "model"
    with quiet():
        sentence_encoder.save(folder, TRAINED)
    return folder


def test_a_text_is_the_mean_of_its_words(model: Path) -> None:
    """As TensorFlow itself loads and runs it: unknown words count as zeros."""
    import tensorflow as tf

    texts = ["Cat", "cat xapian", "NAÏVE cat!", "xapian", "", "cat!!"]
    with quiet():
        vectors = tf.saved_model.load(str(model))(tf.constant(texts)).numpy()
    wanted = [[1, 2], [0.5, 1], [4 / 3, 2], [0, 0], [0, 0], [1 / 3, 6]]
    np.testing.assert_allclose(vectors, np.array(wanted, np.float32), rtol=1e-6)


def test_the_encoder_is_one_of_ours(model: Path) -> None:
    """`open_encoder` runs it, and gives what TensorFlow gives."""
    with quiet():
        encoder = vocabtool.open_encoder(str(model))
        vectors = encoder.encode(["cat!", "xapian"])
    assert (encoder.kind, encoder.dim) == ("tensorflow", 2)
    np.testing.assert_array_equal(vectors, np.array([[0.5, 5], [0, 0]], np.float32))


def test_the_words_come_back(model: Path) -> None:
    """The vocabulary and the rule are read off the files, by the name that USE gives its words."""
    words = Words.of(model)
    assert words.vocabulary.name == "Embeddings_words"
    assert list(words.vocabulary.stored) == TRAINED.words
    assert words.how == "recovered"
    assert words.unknown("A naïve CAT, Xapian!") == ["a", ",", "xapian"]


def test_what_is_trained_on_is_cut_as_the_model_cuts(model: Path) -> None:
    """The words of training are those that the saved model's own rule gives."""
    texts = ["A naïve CAT,\nsnake_case x2", "", "İstanbul — 日本!"]
    with quiet():
        text = sentence_encoder.cut(texts)
    judged = Words.of(model).look_up(texts)
    distinct = [word.as_buffer().to_pybytes() for word in judged.distinct.view("binary")]
    assert text.words == [distinct[code] for code in judged.codes]
    wanted = np.repeat(np.arange(len(texts)), np.diff(judged.offsets))
    np.testing.assert_array_equal(text.texts, wanted)


def test_saving_twice_gives_the_same_model(tmp_path: Path, model: Path) -> None:
    """The same words and the same vectors to the bit; only the order inside the file may differ."""
    other = tmp_path / "model"
    with quiet():
        sentence_encoder.save(other, TRAINED)
        one, two = (
            vocabtool.open_encoder(str(each)).encode(["cat naïve"]) for each in (model, other)
        )
    assert Words.of(other).vocabulary.fingerprint == Words.of(model).vocabulary.fingerprint
    np.testing.assert_array_equal(one, two)


def test_without_tensorflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the extra, and no folder is left behind."""
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(UnsupportedFormat, match=r"pip install '\.\[tensorflow\]'"):
        running.run(tmp_path / "demo")
    assert list(tmp_path.iterdir()) == []


# Queries by rule.

KNOWN = tuple(f"known{one}{two}" for one in "abcdefgh" for two in "ijklm")


class Stems:
    """How many of some texts hold a stem, counted one by one."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.cutter = Cutter("english")
        cut = self.cutter.terms([document.text for document in documents])
        self._stems = [set(terms.words.split()) for terms in cut]
        self.keywords = self

    def document_frequency(self, term: Term) -> int:
        return sum(term.text in stems for stems in self._stems)


def small_corpus() -> tuple[list[Document], Words, Any]:
    """200 documents of two ordinary words, each of which 10 hold, and a rare one, which 2 hold.

    Ten of the rare words stand in four more documents in another form, and a stop word in all.
    """
    texts = []
    for number in range(200):
        ordinary = [KNOWN[number % 40], KNOWN[(number * 7 + 3) % 40], "common"]
        rare = [f"rare{'abcdefghij'[number % 10]}{'kmnopqtvwx'[number // 10 % 10]}"]
        if number >= 160:
            rare.append(f"rarea{'kmnopqtvwx'[number // 2 % 10]}s")
        if number == 0:
            rare.append("needn")  # a stop word, which no search looks for
        texts.append(" ".join([*rare, *ordinary, "about", "ab", "x1y2z3"]))
    documents = [Document(f"d{number}", text) for number, text in enumerate(texts)]
    entries = ByteStrings.of([word.encode() for word in (*KNOWN, "common", "about")])
    words = Words.of(Vocabulary("words", "list", entries), rule="lower")
    return documents, words, Stems(documents)


def test_queries_follow_the_rule() -> None:
    """Each word of each query is counted anew in the texts, one by one."""
    documents, words, stems = small_corpus()
    drawn, candidates = questions(documents, words, stems, count=30)
    texts = {document.id: document.text.split() for document in documents}
    assert len(drawn) == 30
    assert candidates == 90
    for question in drawn:
        text = texts[question.document]
        holding = {word: sum(word in each for each in texts.values()) for word in text}
        assert question.unknown in text
        assert question.unknown not in KNOWN
        assert holding[question.unknown] == question.holders <= MOST_HOLDERS
        assert len(set(question.known)) == KNOWN_WORDS
        for word in question.known:
            assert word in text
            assert word in KNOWN
            assert ORDINARY[0] <= holding[word] / len(documents) <= ORDINARY[1]
        asked = question.text.split()
        assert sorted(asked) == sorted([question.unknown, *question.known])
        assert [text.index(word) for word in asked] == sorted(text.index(word) for word in asked)
    assert len({question.document for question in drawn}) == 30


def test_the_seed_decides() -> None:
    """The same seed draws the same queries, another one others."""
    documents, words, stems = small_corpus()
    one, again, other = (
        questions(documents, words, stems, count=10, seed=seed)[0] for seed in (0, 0, 1)
    )
    assert one == again
    assert {question.document for question in one} != {question.document for question in other}


def test_no_query_where_no_word_fits() -> None:
    """A corpus whose every word is known has none."""
    _, words, _ = small_corpus()
    documents = [Document("d", f"{KNOWN[0]} {KNOWN[1]}")]
    assert questions(documents, words, cast("Any", Stems(documents)), count=10) == ((), 0)


# The folder.


def test_only_a_demos_folder_is_built_anew(tmp_path: Path) -> None:
    """A folder with anything else in it is refused, and stays as it is."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(VocabtoolError, match="not empty, and not made by the demo") as caught:
        DemoFolder(tmp_path).prepare()
    assert str(tmp_path) in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("mark", [b"", b"Made by somebody else.\n", MARK[:-1]])
def test_another_mark_is_no_mark(tmp_path: Path, mark: bytes) -> None:
    """The mark is the first line that the demo writes, to the byte."""
    place = DemoFolder(tmp_path)
    place.mark.write_bytes(mark)
    with pytest.raises(VocabtoolError, match="not made by the demo"):
        place.prepare()


def test_what_the_demo_did_not_make_stays(tmp_path: Path) -> None:
    """Built anew, a folder loses what the demo made; a link, but not what it leads to."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    place = DemoFolder(tmp_path / "demo")
    place.prepare()
    place.model.mkdir()
    (place.model / "saved_model.pb").write_bytes(b"old")
    place.documents.write_text("old")
    place.index.symlink_to(elsewhere)
    (place.path / "notes.txt").write_text("mine")
    place.prepare()
    assert sorted(file.name for file in place.path.iterdir()) == ["ABOUT.txt", "notes.txt"]
    assert (elsewhere / "mine.txt").read_text() == "mine"


def test_a_file_in_the_way(tmp_path: Path) -> None:
    """Where the folder should be is a file: an error that names it."""
    (tmp_path / "demo").write_text("a file")
    for step in (DemoFolder.check, DemoFolder.prepare):
        with pytest.raises(NotFound, match="demo: cannot be written to: Not a directory"):
            step(DemoFolder(tmp_path / "demo"))
    with pytest.raises(NotFound, match="cannot be written to: File name too long"):
        running.run(tmp_path / ("x" * 300))


# The demo itself.


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Demo, list[Step]]:
    """A whole run."""
    steps: list[Step] = []
    with quiet():
        demo = running.run(tmp_path_factory.mktemp("demo") / "my demo", tell=steps.append)
    return demo, steps


def test_hybrid_finds_what_vectors_miss(ran: tuple[Demo, list[Step]]) -> None:
    """Of 100 queries hybrid has nearly every right document first, vectors alone hardly any."""
    demo, _ = ran
    assert len(demo.answers) == 100
    dense, hybrid = demo.found("dense"), demo.found("coverage")
    assert hybrid.ten >= 95
    assert hybrid.first >= 75
    assert dense.ten <= 40
    assert dense.first <= 20
    assert hybrid.first >= demo.found("rrf").first


def test_the_five_that_are_shown(ran: tuple[Demo, list[Step]]) -> None:
    """They are the first that vectors alone miss, and hybrid has each in the first ten."""
    demo, _ = ran
    dense = [answer.places["dense"] for answer in demo.answers]
    missed = [place is None or place > 10 for place in dense]
    wanted = [answer for answer, miss in zip(demo.answers, missed, strict=True) if miss]
    assert demo.shown == tuple(wanted[:5])
    assert len(demo.shown) == 5
    for answer in demo.shown:
        place = answer.places["coverage"]
        assert place is not None
        assert place <= 10


def test_vectors_are_blind_for_the_unknown_word(ran: tuple[Demo, list[Step]]) -> None:
    """The vector of each query is the same to the bit whatever the unknown word is."""
    demo, _ = ran
    assert all(answer.blind for answer in demo.answers)


def test_hits_are_explained(ran: tuple[Demo, list[Step]]) -> None:
    """The unknown word is told as such, the others as known, with how many documents hold them."""
    demo, _ = ran
    for answer in demo.shown:
        told = {word.surface: word for word in answer.hybrid.query.words}
        assert [told[answer.question.unknown].known] == [False]
        assert [told[word].known for word in answer.question.known] == [True, True]
        for hit in answer.hybrid:
            assert hit.explanation is not None


def test_what_is_built_can_be_played_with(
    ran: tuple[Demo, list[Step]], own: tuple[Document, ...]
) -> None:
    """Index, model, vocabulary, documents and queries lie in the folder, and fit each other."""
    demo, _ = ran
    place = DemoFolder(demo.folder)
    vocabulary = vocabtool.extract(place.model)
    assert list(vocabtool.read(place.vocabulary)) == list(vocabulary)
    assert len(vocabulary) == demo.words == training.SIZE
    rows = [json.loads(line) for line in place.documents.read_text("utf-8").split("\n")[:-1]]
    assert [row["id"] for row in rows] == [each.id for each in own]
    assert len(rows) == demo.documents
    answer = demo.answers[0]
    with quiet(), vocabtool.Index.open(place.index) as index:
        assert len(index) == demo.documents
        hits = index.search(answer.question.text, k=asking.TOP)
    assert [hit.id for hit in hits] == [hit.id for hit in answer.hybrid]


def test_the_queries_are_a_test_collection(ran: tuple[Demo, list[Step]]) -> None:
    """`vocabtool eval` reads them, each with the document that it was made of."""
    from vocabtool.evaluation.judgements import read_qrels, read_queries

    demo, _ = ran
    place = DemoFolder(demo.folder)
    asked = [answer.question for answer in demo.answers]
    queries, qrels = read_queries(place.queries), read_qrels(place.qrels)
    assert [query.text for query in queries] == [question.text for question in asked]
    assert [qrels[query.id] for query in queries] == [{each.document: 1} for each in asked]


def test_the_story(ran: tuple[Demo, list[Step]]) -> None:
    """Each step has a title, the commands name what is there, quoted for a shell."""
    demo, steps = ran
    lines = [line for step in steps for line in story.of_step(step)]
    lines += story.of_answers(demo)
    commands = [line.removeprefix("  $ ") for line in lines if line.startswith("  $ ")]
    verbs = ["extract", "oov", "index", "eval", *["search"] * 5]
    assert [shlex.split(command)[:2] for command in commands] == [["vocabtool", v] for v in verbs]
    assert str(demo.folder / "model") in shlex.split(commands[0])
    found = demo.found("coverage")
    (told,) = (line.split() for line in lines if line.startswith("  hybrid by coverage"))
    assert told[-2:] == [str(found.first), str(found.ten)]
    (told,) = (line.split() for line in lines if line.startswith("Of the "))
    missed = 100 - demo.found("dense").ten
    assert (int(told[2]), int(told[-1].rstrip("."))) == (
        missed,
        Found.of(demo.missed, "coverage").ten,
    )
    assert max(map(len, (line for line in lines if "$" not in line and "demo" not in line))) <= 100


def test_the_command_has_the_defaults_of_the_function() -> None:
    """What `--help` shows is what a run does."""
    assert demo_command.FOLDER == running.FOLDER


def test_the_command_refuses_a_folder(tmp_path: Path) -> None:
    """Told as any other error is, before TensorFlow is loaded, which takes seconds."""
    (tmp_path / "mine.txt").write_text("mine")
    code = (
        "import sys; sys.modules['tensorflow'] = None; from vocabtool.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "demo", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 3
    assert "not empty, and not made by the demo" in done.stderr
