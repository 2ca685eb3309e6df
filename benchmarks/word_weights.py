"""Which weights of words give means of word vectors that find the most? nDCG@10 decides.

    python benchmarks/word_weights.py                 the rule that the encoder takes by itself
    python benchmarks/word_weights.py --rule ptb      another one

vocabtool must be installed beside this Python. Three collections and 20,000 word vectors are read
from the folder ``shared`` beside the project, or from $VOCABTOOL_SHARED; a clone has none.

Each encoder is fitted on the documents (title and text) of the collection that it then searches, by
the cosine with every document, equal ones in the order of the file. Gain is the judged relevance,
the discount log2(rank + 1); the ideal ranks all documents judged for the query, and the mean is
over the queries that have a relevant one. Source: Järvelin, Kekäläinen: Cumulated Gain-Based
Evaluation of IR Techniques, TOIS 2002, with the discount of Burges et al., ICML 2005.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from vocabtool.choices import WEIGHTINGS
from vocabtool.encoders.encoder import EncoderOptions
from vocabtool.encoders.static import StaticEncoder

DEPTH: Final = 10
COLLECTIONS: Final = {"cosqa": "dev", "cranfield": "test", "scifact": "train"}  # split judged
VECTORS: Final = Path("vectors", "words20k.npz")
SHARED: Final = Path(
    os.environ.get("VOCABTOOL_SHARED", Path(__file__).resolve().parents[2] / "shared")
)

Judged = Mapping[str, float]  # relevance by document


class Collection(NamedTuple):
    """Documents and queries, text by identifier, and what was judged for each query."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    judged: Mapping[str, Judged]


# What is searched.


def collection(folder: Path, split: str) -> Collection:
    """A folder in the layout of BEIR; queries without a relevant document are left out."""
    judged = judgements(folder / "qrels" / f"{split}.tsv")
    queries = {query: text for query, text in texts(folder / "queries.jsonl") if query in judged}
    if missing := judged.keys() - queries.keys():
        raise SystemExit(f"{folder.name}: {len(missing):,} judged queries have no text")
    return Collection(dict(texts(folder / "corpus.jsonl")), queries, judged)


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Identifier and text of each line, a title before the text."""
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            yield row["_id"], f"{row.get('title', '')} {row['text']}".strip()


def judgements(path: Path) -> dict[str, Judged]:
    """Relevance by document, by query."""
    found: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found.setdefault(row["query-id"], {})[row["corpus-id"]] = float(row["score"])
    return {query: judged for query, judged in found.items() if max(judged.values()) > 0}


# How well it is found.


def dcg(gains: Sequence[float]) -> float:
    """Discounted cumulative gain of the first ranks."""
    discounts = np.log2(np.arange(2, min(len(gains), DEPTH) + 2))
    return float(np.sum(np.array(gains[:DEPTH]) / discounts))


def ndcg(ranked: Sequence[str], judged: Judged) -> float:
    """The share of the ideal ranking's gain that a ranking has."""
    ideal = sorted(judged.values(), reverse=True)
    return dcg([judged.get(document, 0.0) for document in ranked]) / dcg(ideal)


def mean_ndcg(encoder: StaticEncoder, searched: Collection) -> float:
    """Fit, encode, search all, judge."""
    names, documents = list(searched.documents), list(searched.documents.values())
    fitted = encoder.fit(documents)
    queries = fitted.encode(list(searched.queries.values()))
    cosines = queries @ fitted.encode(documents).T  # vectors are of unit length, or zero
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :DEPTH]
    return fmean(
        ndcg([names[at] for at in row], searched.judged[query])
        for query, row in zip(searched.queries, best, strict=True)
    )


def table(vectors: Path, rule: str | None) -> Iterator[str]:
    """A line for each way to weigh."""
    found = {name: collection(SHARED / "ir" / name, split) for name, split in COLLECTIONS.items()}
    yield f"{'nDCG@10':<10}{'component':<11}" + "".join(f"{name:>11}" for name in (*found, "mean"))
    for remove in (False, True):
        for weights in WEIGHTINGS:
            options = EncoderOptions(rule=rule, weights=weights, remove_component=remove)
            encoder = StaticEncoder.open(vectors, options)
            scores = [mean_ndcg(encoder, searched) for searched in found.values()]
            shown = "".join(f"{score:11.3f}" for score in (*scores, fmean(scores)))
            yield f"{weights:<10}{'taken out' if remove else 'kept':<11}{shown}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rule", help="how texts become words; without, the vectors' words tell")
    options = parser.parse_args()
    needed = (VECTORS, *(Path("ir", name) for name in COLLECTIONS))
    if missing := [str(path) for path in needed if not (SHARED / path).exists()]:
        raise SystemExit(
            f"NOT MEASURED: {SHARED} has no {', '.join(missing)} (set VOCABTOOL_SHARED)"
        )
    with tempfile.TemporaryDirectory() as folder:  # a converted matrix is written beside its file
        vectors = Path(shutil.copy(SHARED / VECTORS, folder))
        for line in table(vectors, options.rule):
            print(line, flush=True)


if __name__ == "__main__":
    main()
