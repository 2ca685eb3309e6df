"""Compare word weights for means of word vectors by the nDCG@10 of search with them.

    python benchmarks/word_weights.py                 the default rule of the encoder
    python benchmarks/word_weights.py --rule ptb      another rule

vocabtool must be installed beside this Python. Three collections and 20,000 word vectors are read
from the folder ``shared`` beside the project, or from $VOCABTOOL_SHARED; a clone has none.

Each encoder is fitted on the documents (title and text) of the collection that it then searches.
Search compares the cosine of every document; ties are in file order. The gain is the judged
relevance, the discount log2(rank + 1). The ideal ranking contains all documents judged for the
query; the mean is over queries with a relevant document. Source: Järvelin, Kekäläinen: Cumulated
Gain-Based Evaluation of IR Techniques, TOIS 2002, with the discount of Burges et al., ICML 2005.
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
COLLECTIONS: Final = {"cosqa": "dev", "cranfield": "test", "scifact": "train"}  # the judged split
VECTORS: Final = Path("vectors", "words20k.npz")
SHARED: Final = Path(
    os.environ.get("VOCABTOOL_SHARED", Path(__file__).resolve().parents[2] / "shared")
)

Judged = Mapping[str, float]  # relevance by document


class Collection(NamedTuple):
    """Documents and queries (text by id), and the judgements of each query."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    judged: Mapping[str, Judged]


# The collections.


def collection(folder: Path, split: str) -> Collection:
    """Read a folder in BEIR's layout; queries without a relevant document are skipped."""
    judged = judgements(folder / "qrels" / f"{split}.tsv")
    queries = {query: text for query, text in texts(folder / "queries.jsonl") if query in judged}
    if missing := judged.keys() - queries.keys():
        raise SystemExit(f"{folder.name}: {len(missing):,} judged queries have no text")
    return Collection(dict(texts(folder / "corpus.jsonl")), queries, judged)


def texts(path: Path) -> Iterator[tuple[str, str]]:
    """Return text by id; a title is put before the text."""
    with path.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            yield row["_id"], f"{row.get('title', '')} {row['text']}".strip()


def judgements(path: Path) -> dict[str, Judged]:
    """Return the relevance of documents for each query."""
    found: dict[str, dict[str, float]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            found.setdefault(row["query-id"], {})[row["corpus-id"]] = float(row["score"])
    return {query: judged for query, judged in found.items() if max(judged.values()) > 0}


# The evaluation.


def dcg(gains: Sequence[float]) -> float:
    """Return the discounted cumulative gain of the first ranks."""
    discounts = np.log2(np.arange(2, min(len(gains), DEPTH) + 2))
    return float(np.sum(np.array(gains[:DEPTH]) / discounts))


def ndcg(ranked: Sequence[str], judged: Judged) -> float:
    """Return the gain of a ranking as a share of the ideal ranking's gain."""
    ideal = sorted(judged.values(), reverse=True)
    return dcg([judged.get(document, 0.0) for document in ranked]) / dcg(ideal)


def mean_ndcg(encoder: StaticEncoder, searched: Collection) -> float:
    """Return the mean nDCG@10 over all queries of a collection."""
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
    """Return a table with a row for each weighting."""
    found = {name: collection(SHARED / "ir" / name, split) for name, split in COLLECTIONS.items()}
    yield f"{'nDCG@10':<10}" + "".join(f"{name:>11}" for name in (*found, "mean"))
    for weights in WEIGHTINGS:
        encoder = StaticEncoder(vectors, EncoderOptions(rule=rule, weights=weights))
        scores = [mean_ndcg(encoder, searched) for searched in found.values()]
        yield f"{weights:<10}" + "".join(f"{score:11.3f}" for score in (*scores, fmean(scores)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--rule", help="from text to words; default: detected from the vectors")
    options = parser.parse_args()
    needed = (VECTORS, *(Path("ir", name) for name in COLLECTIONS))
    if missing := [str(path) for path in needed if not (SHARED / path).exists()]:
        raise SystemExit(
            f"NOT MEASURED: {SHARED} has no {', '.join(missing)} (set VOCABTOOL_SHARED)"
        )
    with tempfile.TemporaryDirectory() as folder:  # the encoder writes a matrix next to its file
        vectors = Path(shutil.copy(SHARED / VECTORS, folder))
        for line in table(vectors, options.rule):
            print(line, flush=True)


if __name__ == "__main__":
    main()
