"""The folder that the demo builds, and that stays to play with: what is where in it.

Only a folder that the demo made is ever built anew, and only what the demo puts there is removed.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from vocabtool.demo.questions import Question
from vocabtool.documents.reading import Document
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.system.whole_file import whole_file

MARK: Final = b"Made by `vocabtool demo`, which builds it anew when it is run again.\n"
ABOUT: Final = b"""
documents.jsonl   Python's own documentation, a text a line
model/            a small sentence encoder that was trained on it, a TensorFlow SavedModel
vocabulary.txt    the words that it knows, read out of its files
index/            what `vocabtool search` searches
queries.jsonl     queries with a word that the model does not know, drawn by a rule ...
qrels.tsv         ... and which document each was made of, as `vocabtool eval` reads them
"""


class DemoFolder:
    """Paths of what the demo makes.

    ``documents``, ``queries``: JSON lines; ``qrels``: which document each query was made of;
    ``model``: a SavedModel; ``vocabulary``: its words, one a line; ``index``.
    """

    def __init__(self, path: Path) -> None:
        """Nothing is looked at or made yet."""
        self.path = path
        self.mark = path / "ABOUT.txt"
        self.documents = path / "documents.jsonl"
        self.model = path / "model"
        self.vocabulary = path / "vocabulary.txt"
        self.index = path / "index"
        self.queries = path / "queries.jsonl"
        self.qrels = path / "qrels.tsv"

    def check(self) -> None:
        """Raise where a demo cannot go.

        :class:`VocabtoolError`: something else than an earlier demo is there;
        :class:`NotFound`: it is no folder, or cannot be looked into.
        """
        try:
            if any(self.path.iterdir()):
                self._refuse_others()
        except FileNotFoundError:
            return  # it is made later
        except OSError as error:
            raise NotFound(f"{self.path}: cannot be written to: {error.strerror}") from error

    def prepare(self) -> None:
        """Make the folder, or empty it of an earlier demo.

        Raises as :meth:`check` does, and :class:`NotFound` where it cannot be made.
        """
        self.check()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._remove()
        except OSError as error:
            raise NotFound(f"{self.path}: cannot be written to: {error.strerror}") from error
        with whole_file(self.mark) as file:
            file.write(MARK + ABOUT)

    def save_documents(self, documents: Iterable[Document]) -> None:
        """One JSON object a line: ``id``, ``text`` and the fields."""
        with whole_file(self.documents) as file:
            for document in documents:
                row = {"id": document.id, "text": document.text, **document.fields}
                file.write(json.dumps(row).encode() + b"\n")

    def save_questions(self, questions: Sequence[Question]) -> None:
        """As `vocabtool eval` reads them."""
        with whole_file(self.queries) as file:
            for number, question in enumerate(questions, 1):
                row = {"_id": str(number), "text": question.text}
                file.write(json.dumps(row).encode() + b"\n")
        with whole_file(self.qrels) as file:
            file.write(b"query-id\tcorpus-id\tscore\n")
            for number, question in enumerate(questions, 1):
                file.write(f"{number}\t{question.document}\t1\n".encode())

    def _refuse_others(self) -> None:
        if self.mark.is_file():
            with self.mark.open("rb") as file:
                if file.read(len(MARK)) == MARK:
                    return
        raise VocabtoolError(
            f"{self.path}: not empty, and not made by the demo, so nothing is done. "
            "Name a new folder"
        )

    def _remove(self) -> None:
        """What is no part of a demo stays; a link goes, not what it leads to."""
        for path in (self.documents, self.vocabulary, self.queries, self.qrels):
            path.unlink(missing_ok=True)
        for path in (self.model, self.index):
            if path.is_symlink():
                path.unlink()
            elif path.exists():
                shutil.rmtree(path)
