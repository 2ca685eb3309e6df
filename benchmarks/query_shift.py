"""What should the nearness of documents to unjudged queries weigh in `calibrate`?

    python benchmarks/query_shift.py                  ten encoders, three collections, half an hour
    python benchmarks/query_shift.py --only scifact   one collection

Needs what `retrieval.py` needs. Encoders that see well and badly are made of few parts: means of
20,000, 5,000 and 1,000 word vectors, or without weights; MiniLM whole, and its first 64 and 24
dimensions; means of the vectors that MiniLM begins with; hashed trigrams; latent semantic analysis
of the collection itself. For each the best weight of the keyword leg is known by judgements. Told
is what the calibrated weight loses against it (nDCG@10, between weights 0.05 apart by a straight
line): without the queries, with them for each value that `BY_VECTORS` may have, and which value
the other collections choose for each one. The encoders are the same on all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
import retrieval
from numpy.typing import NDArray
from retrieval import Collection

from vocabtool.encoders.encoder import Encoder
from vocabtool.encoders.opening import open_encoder
from vocabtool.encoders.python_callable import PythonEncoder
from vocabtool.evaluation import query_shift
from vocabtool.evaluation.calibrating import Calibrated, calibrate
from vocabtool.evaluation.tuning import tune
from vocabtool.index.index import Index

WEIGHTS: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0)
SEEDS: Final = (0, 1)
DIMENSIONS: Final = 128  # of latent semantic analysis
HASHED: Final = 256
RUNS: Final = re.compile("[a-z0-9]+")

Matrix = NDArray[Any]
Encode = Callable[[Sequence[str]], Matrix]


class Pair(NamedTuple):
    """A collection and an encoder: nDCG@10 by weight, and what was calibrated by each seed."""

    collection: str
    encoder: str
    curve: dict[float, float]
    found: list[Calibrated]

    def loss(self, by_vectors: float) -> float:
        """Mean over the seeds, had nearness weighed so much."""
        told = by_vectors / query_shift.BY_VECTORS
        return self._lost(
            [
                each.a0 + each.keyword_shift + told * (each.vector_shift or 0.0)
                for each in self.found
            ]
        )

    def loss_alone(self) -> float:
        """The same without any queries of people."""
        return self._lost([each.a0 for each in self.found])

    def _lost(self, chosen: Sequence[float]) -> float:
        weights, gains = list(self.curve), list(self.curve.values())
        return max(gains) - fmean(np.interp(np.clip(chosen, 0, 1), weights, gains))


def pairs(searched: Collection, work: Path) -> Iterator[Pair]:
    """Each encoder on a collection."""
    texts = [document.text for document in searched.documents]
    for name, options in word_vectors(work).items():
        yield pair(searched, name, Index.create(work / f"{name}-index", sample=texts, **options))
    for name, encode in made_of(searched, texts, work).items():
        encoder = PythonEncoder(encode, fingerprint=name)
        yield pair(searched, name, Index.create(work / f"{name}-index", model=encoder))


def pair(searched: Collection, name: str, index: Index) -> Pair:
    """Indexed, judged, and calibrated with the queries unjudged."""
    with index.writer() as writer:
        writer.add(searched.documents)
    judged = tune(index, searched.queries, searched.qrels)
    texts = [query.text for query in searched.queries]
    found = []
    for seed in SEEDS:
        calibrated = calibrate(index, texts, seed=seed)
        assert calibrated is not None  # there are enough documents
        found.append(calibrated)
    curve = {point.a: point.ndcg for point in judged.curve}
    return Pair(searched.name, name, curve, found)


def word_vectors(work: Path) -> dict[str, dict[str, Any]]:
    """What indexes of word vectors are told of their model."""
    whole = retrieval.SHARED / retrieval.WORDS
    told: dict[str, dict[str, Any]] = {
        "words20k": {"model": f"static:{whole}"},
        "unweighted": {"model": f"static:{whole}", "weights": "none"},
    }
    with np.load(whole) as held:
        for count in (5_000, 1_000):
            file = work / f"{count}.npz"
            np.savez(file, words=held["words"][:count], vectors=held["vectors"][:count])
            told[f"words{count // 1_000}k"] = {"model": f"static:{file}"}
    return told


def made_of(searched: Collection, texts: Sequence[str], work: Path) -> dict[str, Encode]:
    """The other encoders, by name."""
    whole = remembering(minilm(work))
    return {
        "minilm": whole,
        "minilm64": lambda asked: whole(asked)[:, :64],
        "minilm24": lambda asked: whole(asked)[:, :24],
        "pieces": mean_of_pieces(texts, work),
        "trigrams": trigrams,
        "lsa": latent(texts),
    }


def minilm(work: Path) -> Encode:
    """The whole model."""
    encoder: Encoder = open_encoder(str(retrieval.minilm(work)))
    return lambda texts: encoder.encode(list(texts))


def remembering(encode: Encode) -> Encode:
    """Three encoders read the same vectors."""
    known: dict[str, Matrix] = {}

    def look(texts: Sequence[str]) -> Matrix:
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, encode(new), strict=True))
        return np.array([known[text] for text in texts])

    return look


def mean_of_pieces(texts: Sequence[str], work: Path) -> Encode:
    """The first layer of MiniLM, moved so that pieces of texts lie around zero."""
    from sentence_transformers import SentenceTransformer

    model: Any = SentenceTransformer(str(retrieval.minilm(work)), device="cpu")
    vectors = model[0].auto_model.embeddings.word_embeddings.weight.detach().numpy()

    def pieces(text: str) -> list[int]:
        told = model.tokenizer(text, truncation=True, max_length=192, add_special_tokens=False)
        found: list[int] = told["input_ids"]
        return found

    middle = vectors[[piece for text in texts[:1_000] for piece in pieces(text)]].mean(axis=0)

    def encode(asked: Sequence[str]) -> Matrix:
        empty = np.zeros(vectors.shape[1])
        cut = map(pieces, asked)
        return np.array([(vectors[each] - middle).mean(axis=0) if each else empty for each in cut])

    return encode


def trigrams(texts: Sequence[str]) -> Matrix:
    """How often trigrams of letters stand in a text, hashed, half of them counted down."""
    counts = np.zeros((len(texts), HASHED), np.float32)
    for row, text in enumerate(texts):
        for word in RUNS.findall(text.lower()):
            around = f"<{word}>"
            for start in range(len(around) - 2):
                digest = hashlib.blake2b(around[start : start + 3].encode(), digest_size=8).digest()
                number = int.from_bytes(digest, "little")
                counts[row, number % HASHED] += 1 if number >> 40 & 1 else -1
    return counts


def latent(texts: Sequence[str]) -> Encode:
    """Stems weighed by tf-idf, projected on the first singular vectors of the collection."""
    import Stemmer
    from scipy import sparse
    from scipy.sparse.linalg import svds

    stemmer = Stemmer.Stemmer("english")

    def stems(text: str) -> Counter[str]:
        return Counter(stemmer.stemWords(RUNS.findall(text.lower())))

    held = Counter(stem for text in texts for stem in stems(text))
    columns = {stem: at for at, stem in enumerate(stem for stem, n in held.items() if n > 1)}
    frequency = Counter(stem for text in texts for stem in {*stems(text)} & columns.keys())
    idf = np.array([np.log(len(texts) / frequency[stem]) for stem in columns])

    def matrix(asked: Sequence[str]) -> Any:
        cells = [
            (row, columns[stem], (1 + np.log(count)) * idf[columns[stem]])
            for row, text in enumerate(asked)
            for stem, count in stems(text).items()
            if stem in columns
        ]
        rows, places, values = zip(*cells, strict=True) if cells else ((), (), ())
        return sparse.csr_matrix((values, (rows, places)), (len(asked), len(columns)))

    projection = svds(matrix(texts), k=DIMENSIONS, random_state=0)[2].T
    return lambda asked: np.asarray(matrix(asked) @ projection)


# Telling.


def row_of(found: Pair) -> str:
    """One line: both seeds side by side."""
    best = max(found.curve, key=lambda a: found.curve[a])
    lost = max(found.curve.values()) - found.curve[0.5]
    shown = f"{found.collection:<11}{found.encoder:<12}{best:7.2f}{lost:9.4f}"
    for each in found.found:
        shown += f"{each.a0:8.3f}{each.keyword_shift:+8.3f}{each.vector_shift:+8.3f}{each.a:8.3f}"
    losses = found.loss_alone(), found.loss(0), found.loss(query_shift.BY_VECTORS)
    return shown + "".join(f"{loss:10.4f}" for loss in losses)


def losses(table: Sequence[Pair]) -> Iterator[str]:
    """By weight, and what the other collections choose for each."""
    names = list(dict.fromkeys(each.collection for each in table))
    shown = "".join(f"{weight:9.2f}" for weight in WEIGHTS)
    yield f"{'mean loss':<14}{'alone':>9}{shown}"
    for name in names:
        own = [each for each in table if each.collection == name]
        others = [each for each in table if each.collection != name]
        line = f"{name:<14}{means(own)}"
        if others:
            chosen = min(WEIGHTS, key=lambda weight: mean(others, weight))
            line += f"   the others choose {chosen:g}: {mean(own, chosen):.4f}"
        yield line
    yield f"{'all':<14}{means(table)}"


def means(table: Sequence[Pair]) -> str:
    """Without queries, then with them by weight."""
    alone = fmean(each.loss_alone() for each in table)
    return f"{alone:9.4f}" + "".join(f"{mean(table, weight):9.4f}" for weight in WEIGHTS)


def mean(table: Sequence[Pair], weight: float) -> float:
    return fmean(each.loss(weight) for each in table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--only", choices=tuple(retrieval.COLLECTIONS))
    options = parser.parse_args()
    table = []
    seeds = "".join(f"{'a0':>8}{'words':>8}{'near':>8}{'a':>8}" for _ in SEEDS)
    print(f"{'':<11}{'':<12}{'best a':>7}{'a=0.5':>9}{seeds}{'alone':>10}{'words':>10}{'both':>10}")
    for searched in retrieval.collections():
        if options.only in (None, searched.name):
            with tempfile.TemporaryDirectory() as folder:
                for found in pairs(searched, Path(folder)):
                    table.append(found)
                    print(row_of(found), flush=True)
    print("\n" + "\n".join(losses(table)))


if __name__ == "__main__":
    main()
