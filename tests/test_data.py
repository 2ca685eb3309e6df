"""The demonstration data: our script gives what is committed, and vocabtool reads it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import vocabtool
from tests.conftest import ROOT

DATA = ROOT / "data"
GLOVE = DATA / "small_glove.txt"


def test_the_script_makes_what_is_committed(tmp_path: Path) -> None:
    """A second run, where strings hash by another seed, gives the same bytes; few of them."""
    script = [sys.executable, str(DATA / "make_vocabularies.py"), str(tmp_path)]
    subprocess.run(script, check=True, env={"PYTHONHASHSEED": "7"}, stdout=subprocess.DEVNULL)
    assert [file.name for file in tmp_path.iterdir()] == [GLOVE.name]
    assert (tmp_path / GLOVE.name).read_bytes() == GLOVE.read_bytes()
    assert GLOVE.stat().st_size < 300_000


def test_the_vectors_are_read_as_what_they_are() -> None:
    """Every line is a word and four numbers, also where the word holds blanks."""
    words = [line.rsplit(" ", 4)[0] for line in GLOVE.read_text("utf-8").split("\n")[:-1]]
    vocabulary = vocabtool.extract(GLOVE)
    assert (vocabulary.kind, list(vocabulary)) == ("vectors", words)
    assert vocabulary.duplicates == 0
    assert (words[0], words[-1]) == ("the", "<unk>")
    assert {"287.9", ". . .", "new york", "well-known", "naïve", "москва", "北京"} <= set(words)
    # What the script makes of a word is spelt as English is.
    forms = "stopping stopped using carries carried dying agreed cities boxes men bigger biggest"
    assert set(forms.split()) <= set(words)
    assert not {"stoping", "useing", "carryed", "dieing", "citys", "boxs", "mans"} & set(words)


def test_texts_differ() -> None:
    """The questions and the help desk's answers, which are long enough for ``calibrate``; each
    query has one judged answer."""
    questions = (DATA / "questions.txt").read_text("utf-8").splitlines()
    assert len({text.strip() for text in questions} - {""}) == len(questions) == 80
    files = (DATA / "answers.jsonl", DATA / "answers_queries.jsonl")
    answers, queries = ([*map(json.loads, file.read_text("utf-8").splitlines())] for file in files)
    texts = {answer["id"]: answer["text"] for answer in answers}
    assert len(answers) == len(texts) == len(set(texts.values())) == 116
    short = [text for text in texts.values() if text.count(".") < 3 or len(text.split()) < 15]
    assert short == []
    assert len(queries) == len({query["text"] for query in queries}) == 60
    head, *rows = (DATA / "answers_qrels.tsv").read_text("utf-8").splitlines()
    judged = [row.split("\t") for row in rows]
    assert head.split("\t") == ["query-id", "corpus-id", "score"]
    assert [row[0] for row in judged] == [query["_id"] for query in queries]
    assert [row for row in judged if row[1] not in texts or row[2] != "1"] == []
