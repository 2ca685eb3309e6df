"""Measure how often default search ranks the only document with an identifier first.

    python benchmarks/identifiers.py                    all kinds, three setups, a few minutes
    python benchmarks/identifiers.py --documents 5000   fewer documents
    python benchmarks/identifiers.py --encoder static:words.npz   also with this model's vectors
    python benchmarks/identifiers.py --asked "how does {} work"   put identifiers in a question
    python benchmarks/identifiers.py --json FILE        store the results

Documents are paragraphs of the docstrings of the installed packages listed below, shuffled with a
seed; versions and missing packages are printed. For each kind, 120 identifiers are drawn that occur
in only one document (ignoring case). Packages contain few C++ names and CVE numbers, so documents
are added for them: a paragraph with a generated name, and one that repeats the parts of the name.

Each identifier is the whole query, or is put into ``--asked``. The setups are: no vectors; means of
word vectors (20,000 words, random with a seed, so that they only distinguish words) whose model
knows only words of letters; the same vectors without a known vocabulary; and each ``--encoder``,
which has the same format as in ``vocabtool index --model``.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from results import Table, at_least, goals, report

from vocabtool.documents.reading import Document
from vocabtool.index.index import Index

PACKAGES: Final = (
    "numpy", "pandas", "scikit-learn", "matplotlib", "networkx", "nltk", "scipy", "pyarrow",
    "spacy", "polars", "pillow", "Pygments", "rich", "click", "hypothesis", "pytest", "setuptools",
    "fonttools", "pyparsing", "tornado", "protobuf", "torch", "keras", "sympy", "gensim",
)  # fmt: skip  # compact
DOCUMENTS: Final = 25_000
EACH: Final = 120
SEED: Final = 24
DIM: Final = 64
WORDS: Final = 20_000
SHORTEST: Final = 80  # minimum number of characters in a paragraph

# The pattern of each kind, and the goals: minimum share ranked first, and in the first ten.
KINDS: Final[Mapping[str, tuple[str, float, float]]] = {
    "dotted": (r"(?<![\w./:-])[A-Za-z]\w+(?:\.[A-Za-z]\w+)+(?![\w/:-]|\.\w)", 0.99, 1.0),
    "snake_case": (r"(?<![\w./:-])[a-z]+(?:_[a-z]{2,})+(?![\w/:-]|\.\w)", 0.99, 1.0),
    "::": (r"(?<![\w./:-])[a-z]\w+(?:::[a-z]\w+)+(?![\w/:-]|\.\w)", 0.99, 1.0),
    "camelCase": (r"(?<![\w./:-])[a-z]{2,}(?:[A-Z][a-z]+)+(?![\w/:-]|\.\w)", 0.98, 0.99),
    "PascalCase": (r"(?<![\w./:-])[A-Z][a-z]+(?:[A-Z][a-z]+)+(?![\w/:-]|\.\w)", 0.98, 0.99),
    "path-like": (r"(?<![\w./:-])/?\w+(?:/[\w-]+)+(?:\.[a-z]+)?(?![\w/:-]|\.\w)", 0.95, 1.0),
    "CVE-like": (r"(?<![\w./:-])CVE-\d{4}-\d{4,5}(?![\w/:-]|\.\w)", 0.99, 1.0),
}
PLANTED: Final = ("::", "CVE-like")


def paragraphs(generator: random.Random) -> list[str]:
    """Return the distinct paragraphs of the packages' docstrings, shuffled."""
    found: dict[str, None] = {}
    for name in PACKAGES:
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            print(f"{name}: not installed")
            continue
        print(f"{name} {installed.version}", end="; ")
        for file in sorted(map(str, installed.files or ())):
            if file.endswith(".py") and "/tests/" not in file:
                for text in docstrings(Path(str(installed.locate_file(file)))):
                    found.update(dict.fromkeys(cut(text)))
    print()
    texts = sorted(found)
    generator.shuffle(texts)
    return texts


def docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings in a module; nothing if it cannot be parsed."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def cut(text: str) -> Iterator[str]:
    """Split a text at blank lines; yield the parts that are long enough for a document."""
    return (each.strip() for each in re.split(r"\n\s*\n", text) if len(each) >= SHORTEST)


def planted(texts: Sequence[str], generator: random.Random) -> list[str]:
    """Return two paragraphs per generated name: one with the name, one that repeats its parts."""
    words = sorted(set(re.findall(r"\b[a-z]{4,9}\b", " ".join(texts[:2_000]))))
    made = []
    for number in range(EACH):
        names = (
            "::".join(generator.sample(words, generator.choice((2, 3)))),
            f"CVE-{generator.randrange(1999, 2027)}-{10_000 + 7 * number}",
        )
        for name in names:
            around, other = generator.sample(range(len(texts)), 2)
            parts = re.findall(r"\w+", name) * 3
            made += [f"{texts[around]} See {name}.", f"{texts[other]} {' '.join(parts)}"]
    return made


def drawn(kind: str, texts: Sequence[str], generator: random.Random) -> list[tuple[str, int]]:
    """Return identifiers of a kind that are in only one document, with its number."""
    pattern = re.compile(KINDS[kind][0])
    holding: dict[str, int] = {}
    for row, text in enumerate(texts):
        for found in pattern.findall(text):
            holding.setdefault(found, row)
    names = sorted(holding)
    generator.shuffle(names)
    lower = [text.lower() for text in texts]
    unique = []
    for name in names:
        if sum(name.lower() in text for text in lower) == 1:
            unique.append((name, holding[name]))
            if len(unique) == EACH:
                break
    return unique


def encoded(texts: Sequence[str], vectors: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    """Return the mean word vector of each text at unit length; zero if it has no known word."""
    rows = np.zeros((len(texts), DIM), np.float32)
    for row, text in enumerate(texts):
        known = [vectors[word] for word in re.findall("[a-z]+", text.lower()) if word in vectors]
        if known:
            mean = np.mean(known, axis=0)
            rows[row] = mean / np.linalg.norm(mean)
    return rows


def shares(
    index: Index,
    queries: Sequence[str],
    asked: Sequence[tuple[str, int]],
    vectors: NDArray[Any] | None,
) -> tuple[float, float]:
    """Return the share of queries whose right document is first, and among the first ten."""
    hits = index.search_many(queries, vectors=vectors)
    ids = [[hit.id for hit in found] for found in hits]
    right = [str(row) for _, row in asked]
    first = sum(found[:1] == [one] for found, one in zip(ids, right, strict=True))
    ten = sum(one in found for found, one in zip(ids, right, strict=True))
    return first / len(asked), ten / len(asked)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--asked", default="{}", help="the query; {} stands for the identifier")
    parser.add_argument("--encoder", action="append", default=[], help="also use this model")
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    generator = random.Random(SEED)
    texts = paragraphs(generator)[: options.documents]
    texts += planted(texts, generator)
    counts = Counter(word for text in texts for word in re.findall("[a-z]+", text.lower()))
    known = [word for word, _ in counts.most_common(WORDS)]
    numbers = np.random.default_rng(SEED)
    vectors = dict(zip(known, numbers.standard_normal((len(known), DIM)), strict=True))
    asked = {kind: drawn(kind, texts, generator) for kind in KINDS}
    ways: dict[str, tuple[dict[str, NDArray[Any]] | None, dict[str, Any]]] = {
        "no vectors": (None, {"dim": DIM}),
        "word vectors": (vectors, {"dim": DIM, "vocabulary": known, "rule": "regex:[a-z]+"}),
        "unknown model": (vectors, {"dim": DIM}),
    }
    for model in options.encoder:
        fitted = {"sample": texts} if model.startswith("static:") else {}
        ways[Path(model).name[-16:]] = None, {"model": model, **fitted}
    kept: dict[str, dict[str, tuple[float, float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for way, (encoder, told) in ways.items():
            index = Index.create(Path(folder) / way, **told)
            given = None
            if "dim" in told:
                given = encoded(texts, encoder or {})
            with index.writer() as writer:
                rows = (Document(str(row), text, {}) for row, text in enumerate(texts))
                writer.add(rows, vectors=given)
            for kind, names in asked.items():
                queries = [options.asked.format(name) for name, _ in names]
                own = encoded(queries, encoder) if encoder else None
                kept.setdefault(kind, {})[way] = shares(index, queries, names, own)
    report(
        tables(kept, {kind: len(names) for kind, names in asked.items()}, len(texts)), options.json
    )


def tables(
    kept: Mapping[str, Mapping[str, tuple[float, float]]], asked: Mapping[str, int], documents: int
) -> Iterator[Table]:
    """Yield the shares of each kind and setup: right document first, and in the first ten."""
    ways = list(next(iter(kept.values())))
    rows = tuple(
        (kind, str(asked[kind]), *(f"{one:.3f}, {ten:.3f}" for one, ten in found.values()))
        for kind, found in kept.items()
    )
    what = "shares of queries with the right document first, and among the first ten"
    title = f"Identifiers: {what} ({documents:,} documents)"
    yield Table(title=title, columns=("identifier", "n", *ways), rows=rows)
    yield goals(
        *(
            at_least(f"{kind}: {place}", min(one[at] for one in found.values()), wanted, "{:.3f}")
            for kind, found in kept.items()
            for at, (place, wanted) in enumerate(
                zip(("first", "in ten"), KINDS[kind][1:], strict=True)
            )
        )
    )


if __name__ == "__main__":
    main()
