"""A small collection with judgements, indexes of it, and what a command prints, as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from tests.encoder_cases import write_vectors
from vocabtool import Document, Index
from vocabtool.cli.main import cli

KNOWN: Final = [f"{a}{b}{c}" for a in "bdf" for b in "aeiou" for c in "kmnp"]
STRANGE: Final = [f"q{word}x" for word in KNOWN]  # what the model does not know
DOCUMENTS: Final = 150


def documents() -> list[Document]:
    """Four sentences of three words each, two words in all unknown to the model."""
    generator = np.random.default_rng(2)
    made = []
    for number in range(DOCUMENTS):
        words = [*generator.choice(KNOWN, 14), *generator.choice(STRANGE, 2)]
        mixed = generator.permutation(words).tolist()
        text = ". ".join(" ".join(mixed[at : at + 4]) for at in range(0, 16, 4))
        made.append(Document(f"d{number}", text, {}))
    return made


def with_encoder(folder: Path) -> Index:
    """Means of word vectors that were drawn by chance; the model knows half of the words."""
    matrix = np.random.default_rng(1).normal(size=(len(KNOWN), 16)).astype(np.float32)
    vectors = write_vectors(folder / "words.npz", KNOWN, matrix)
    made = Index.create(folder / "index", f"static:{vectors}", rule="keras", weights="none")
    with made.writer() as writer:
        writer.add(documents())
    return made


def without_encoder(folder: Path) -> Index:
    """Vectors of one's own, two numbers each, and no vocabulary."""
    made = Index.create(folder / "index", dim=2)
    with made.writer() as writer:
        turned = np.arange(DOCUMENTS) / 10
        writer.add(documents(), vectors=np.stack([np.cos(turned), np.sin(turned)], axis=1))
    return made


def write_judgements(folder: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Queries by id, and what was judged, in files ``queries`` and ``qrels`` too.

    Half of the queries hold an unknown word; judgements are graded, negative, or not there.
    """
    generator = np.random.default_rng(3)
    queries, qrels = {}, {}
    for number, document in enumerate(documents()[:40]):
        words = document.text.replace(".", "").split()
        strange = [word for word in words if word in STRANGE]
        known = [word for word in words if word not in STRANGE][:2]
        queries[f"q{number}"] = " ".join(known + strange[: number % 2])
        others = generator.choice(DOCUMENTS, 5, replace=False)
        graded = {f"d{each}": int(generator.integers(-1, 3)) for each in others}
        qrels[f"q{number}"] = {**graded, document.id: 2}
    qrels["q5"] = {"d5": 0}
    del qrels["q6"]
    qrels["nobody"] = {"d1": 1}
    rows = [json.dumps({"_id": name, "text": text}) for name, text in queries.items()]
    (folder / "queries").write_text("\n".join(rows))
    judged = [(q, d, gain) for q, each in qrels.items() for d, gain in each.items()]
    (folder / "qrels").write_text("".join(f"{q}\t{d}\t{gain}\n" for q, d, gain in judged))
    return queries, qrels


def printed_json(capsysbinary: pytest.CaptureFixture[bytes], *arguments: object) -> Any:
    """What a command prints with ``--format json``."""
    capsysbinary.readouterr()
    cli.main([*map(str, arguments), "--format", "json"], standalone_mode=False)
    return json.loads(capsysbinary.readouterr().out)
