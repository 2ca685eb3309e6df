"""Initial vectors of words that are added to a model, and static models with these words.

- ``mean``: The mean of the vectors of the word's pieces (Gee et al. 2022, Fast Vocabulary Transfer
  for Language Model Compression, EMNLP, Industry Track).
- ``sum``: The sum of the vectors of the word's pieces, for static embeddings. A static embedding
  makes the vector of a text as the mean of its tokens' vectors. With ``sum``, a new word does not
  change the direction of a text's vector.
- ``contexts``: A vector learned from the word's contexts (Khodak et al. 2018, A La Carte Embedding,
  ACL).

If no piece has a vector, ``mean`` and ``sum`` are the mean of all rows (Hewitt 2021, Initializing
New Word Embeddings for Pretrained Language Models).

For ``contexts``, u(t) is the mean of the vectors around the occurrences of token t. The matrix A
minimises

    sum over t of log(1 + count(t)) |A u(t) - v(t)|^2  +  ridge

over the tokens t that have a vector v(t). ``ridge`` is a ridge penalty. The initial vector of a new
word w is A u(w).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import (
    FolderNotEmpty,
    InvalidFile,
    NotFound,
    UnknownFormat,
    VocabtoolError,
    reading,
)
from vocabtool.formats import static_embedding, word_vectors
from vocabtool.formats.binary_vectors import HEADER
from vocabtool.formats.files import split_kind
from vocabtool.formats.reader import Source
from vocabtool.formats.saved_model.graph_files import path_of
from vocabtool.formats.static_embedding import (
    EMBEDDINGS,
    LENGTH,
    MAPPING,
    TOKEN_WEIGHTS,
    EmbeddingFiles,
)
from vocabtool.system.own_files import whole_file
from vocabtool.vocabulary import decode

Floats = NDArray[np.float32]

# Endings of the names of embedding matrices: static ones, BERT, Llama, GPT-2, T5, Mistral.
MATRICES: Final = (
    *(*EMBEDDINGS, "word_embeddings.weight", "embed_tokens.weight", "wte.weight"),
    *("shared.weight", "tok_embeddings.weight"),
)
SIDE_FILES: Final = (".json", ".safetensors")  # files of a folder that stand for the folder
METADATA: Final = "__metadata__"
BLOCK: Final = 4_096  # rows or tokens at a time
WINDOW: Final = 5  # tokens on either side that are the context
MIN_COUNT: Final = 5  # occurrences of a token from which the matrix A is learned
RIDGE: Final = 1e-3  # of the mean square of a dimension


class Cut(NamedTuple):
    """The tokens of n texts.

    - ``ids``: The ids of the tokens of all texts, int64, shape (m,). A negative id has no vector.
    - ``offsets``: Where each text begins in ``ids``, int64, shape (n + 1,).
    """

    ids: NDArray[np.int64]
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Rows:
    """The vectors of tokens.

    - ``take``: Maps ids, shape (k,), to vectors, float32, shape (k, dim).
    - ``static``: Whether a text's vector is the mean of its tokens' vectors.
    """

    name: str
    size: int
    dim: int
    take: Callable[[NDArray[np.int64]], Floats]
    static: bool = False


def open_rows(model: str | Path) -> Rows | None:
    """Return the vectors in a model's folder or in a file; ``None`` for a model without vectors.

    Raises :class:`InvalidFile` for a damaged file.
    """
    path, files = _find(model)
    if files is None and path.is_file():
        with suppress(VocabtoolError):
            vectors = word_vectors.WordVectors.open(path)
            return Rows(path.name, len(vectors), vectors.dim, vectors.vectors)
    folder = path if path.is_dir() else path.parent
    file = files.tensors if files else folder / static_embedding.WEIGHTS
    if not file.is_file():
        return None
    header = static_embedding.read_header(file)
    names = (n for end in MATRICES for n in sorted(header) if n == end or n.endswith(f".{end}"))
    name = next(names, None)
    if name is None:
        return None
    beside = (MAPPING, TOKEN_WEIGHTS) if files else ()
    tensors = static_embedding.open_tensors(file, (name, *beside), bits=True)
    matrix, mapping, weights = tensors[name], tensors.get(MAPPING), tensors.get(TOKEN_WEIGHTS)
    if (
        matrix.ndim != 2
        or not matrix.size
        or any(each is not None and each.ndim != 1 for each in (mapping, weights))
    ):
        what = f"tensor {name!r}: wanted a matrix, got {matrix.dtype} of shape {matrix.shape}"
        raise InvalidFile(what, file=str(file))
    size = len(matrix) if mapping is None else len(mapping)

    def take(ids: NDArray[np.int64]) -> Floats:
        try:
            found = matrix[ids if mapping is None else mapping[ids]]
            scales = np.float32(1) if weights is None else weights[ids].astype(np.float32)[:, None]
        except IndexError as error:
            raise InvalidFile(
                f"tensor {name!r} has {size:,} rows, but none for id {ids.max(initial=0):,}: "
                "matrix and tokenizer belong to different models",
                file=str(file),
            ) from error
        if found.dtype == np.uint16:  # the bits of bfloat16
            found = (found.astype(np.uint32) << 16).view(np.float32)
        return found.astype(np.float32) * scales

    return Rows(name, size, int(matrix.shape[1]), take, static=files is not None)


def _find(model: str | Path) -> tuple[Path, EmbeddingFiles | None]:
    path = path_of(model)
    named = Path(split_kind(str(model))[1])
    for each in (named, path, *[path.parent] * (path.suffix in SIDE_FILES)):
        with suppress(UnknownFormat, NotFound):
            files = static_embedding.find(each)
            return (each if each.is_dir() else files.tensors.parent), files
    return path, None


# ---- initial vectors


def initial_vectors(rows: Rows, pieces: Cut, unknown: int = -1, *, summed: bool = False) -> Floats:
    """Return the mean or the sum of the vectors of each word's pieces: float32, shape (words, dim).

    Pieces with the id ``unknown`` are left out.
    """
    vectors = np.zeros((len(pieces.offsets) - 1, rows.dim), np.float32)
    without = []
    for at, (start, end) in enumerate(pairwise(pieces.offsets.tolist())):
        ids = pieces.ids[start:end]
        found = rows.take(ids[ids != unknown])
        if not len(found):
            without.append(at)
        else:
            vectors[at] = found.sum(axis=0) if summed else found.mean(axis=0)
    if without:
        blocks = (np.arange(at, min(at + BLOCK, rows.size)) for at in range(0, rows.size, BLOCK))
        vectors[without] = sum(rows.take(block).sum(axis=0) for block in blocks) / rows.size
    return vectors


def from_contexts(rows: Rows, texts: Cut, first: int, vectors: Floats) -> Floats:
    """Return a vector of each new word, computed from its contexts: float32, shape (words, dim).

    The ids of the new words begin at ``first``. A word without a context keeps its row of
    ``vectors``.
    """
    distinct, codes = np.unique(texts.ids, return_inverse=True)
    new = distinct >= first
    known, numbers = (distinct >= 0) & ~new, distinct[new] - first
    table = np.zeros((len(distinct) + 1, rows.dim), np.float32)  # the last row: outside the texts
    table[:-1][known] = rows.take(distinct[known])
    table[:-1][new] = vectors[numbers]
    between = np.repeat(texts.offsets, WINDOW)  # so that no context reaches another text
    means, counts = _context_means(table, np.insert(codes, between, len(distinct)))
    use = np.flatnonzero(known & (counts >= MIN_COUNT))
    weights = np.log1p(counts[use])[:, None]
    left, right = means[use], table[use].astype(np.float64)
    square = left.T @ (weights * left)
    square += RIDGE * np.trace(square) / rows.dim * np.eye(rows.dim)
    found = vectors.copy()
    if square.any():
        found[numbers] = means[new] @ np.linalg.solve(square, left.T @ (weights * right))
    return found


def _context_means(
    table: Floats, padded: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    from scipy.sparse import csr_array

    sums = np.zeros(table.shape)
    for start in range(WINDOW, len(padded) - WINDOW, BLOCK):
        codes = padded[start - WINDOW : min(start + BLOCK, len(padded) - WINDOW) + WINDOW]
        vectors = table[codes].astype(np.float64)
        added = np.concatenate([np.zeros((1, table.shape[1])), np.cumsum(vectors, axis=0)])
        width = 2 * WINDOW + 1
        around = (added[width:] - added[:-width] - vectors[WINDOW:-WINDOW]) / (2 * WINDOW)
        middle = codes[WINDOW:-WINDOW]
        shape = (len(table), len(middle))
        sums += csr_array((np.ones(len(middle)), (middle, np.arange(len(middle)))), shape) @ around
    counts = np.bincount(padded, minlength=len(table))[:-1]
    return sums[:-1] / counts[:, None], counts


# ---- static models with the new words


def check_static(model: str | Path, to: str | Path) -> tuple[Path, EmbeddingFiles | None]:
    """Return the path of the model and, for a static embedding, also its files.

    Raises the errors of :func:`save_extended`.
    """
    path, files = _find(model)
    if files is not None:
        if Path(to).exists() and (not Path(to).is_dir() or any(Path(to).iterdir())):
            raise FolderNotEmpty(f"{to}: wanted a new or empty folder for the model with new words")
        return path, files
    is_text = path.is_file() and word_vectors.READER.recognise(Source.open(path)) is None
    if not (is_text or path.suffix == ".npz") or path.suffix != Path(to).suffix:
        raise VocabtoolError(
            f"{to}: cannot write a copy of {model} with new words. The model must be a static "
            "embedding, or word vectors in a .npz or text file. A copy of word vectors "
            "needs the same file ending as the original. To write only the tokens, name a file "
            "that ends in .json"
        )
    return path, None


def save_extended(
    model: str | Path, to: str | Path, tokens: Sequence[Mapping[str, Any]], vectors: Floats
) -> None:
    """Write a copy of a static model, with new words.

    The copy is a folder or, for word vectors, a file.

    - ``tokens``: For each word, the arguments of ``tokenizers.AddedToken``.
    - ``vectors``: float32, shape (words, dim).

    Raises:

    - :class:`VocabtoolError` for a model that is not static or cannot be written.
    - :class:`FolderNotEmpty` if ``to`` is a folder with files.
    """
    path, files = check_static(model, to)
    if files is not None:
        _save_embedding(path, files, Path(to), tokens, vectors)
    else:
        _save_word_vectors(path, Path(to), [str(each["content"]) for each in tokens], vectors)


def _save_embedding(
    root: Path,
    files: EmbeddingFiles,
    to: Path,
    tokens: Sequence[Mapping[str, Any]],
    vectors: Floats,
) -> None:
    from tokenizers import AddedToken, Tokenizer

    tokenizer = Tokenizer.from_file(str(files.tokenizer))
    tokenizer.add_tokens([AddedToken(**each) for each in tokens])
    ids = np.array([tokenizer.token_to_id(each["content"]) for each in tokens], np.int64)
    written = [files.tensors, files.tokenizer]
    folders = {root, files.tensors.parent}
    settings = [file for each in folders for file in each.glob("*.json") if file not in written]
    for file in (*written, *settings):
        (to / file.relative_to(root)).parent.mkdir(parents=True, exist_ok=True)
    for file in settings:
        shutil.copyfile(file, to / file.relative_to(root))
    with whole_file(to / files.tokenizer.relative_to(root)) as opened:
        opened.write(tokenizer.to_str(pretty=True).encode())
    _save_tensors(files.tensors, to / files.tensors.relative_to(root), ids, vectors)


def _save_tensors(file: Path, to: Path, ids: NDArray[np.int64], vectors: Floats) -> None:
    header = static_embedding.read_header(file)
    tensors = static_embedding.open_tensors(file, header.keys() - {METADATA}, bits=True)
    name = next(each for each in EMBEDDINGS if each in tensors)
    size, weights = int(ids.max(initial=-1)) + 1, np.ones(len(ids), np.float32)
    if tensors[name].dtype.kind == "i":  # use the range of integers
        tokens = len(tensors[MAPPING if MAPPING in tensors else name])
        tensors.setdefault(TOKEN_WEIGHTS, np.ones(tokens, np.float32))
        highest = np.abs(vectors).max(axis=1, initial=0)
        weights = np.where(highest > 0, highest / np.iinfo(tensors[name].dtype).max, weights)
        vectors = vectors / weights[:, None]
    if MAPPING in tensors:
        places = len(tensors[name]) + np.arange(len(ids))
        tensors[MAPPING] = _with_rows(tensors[MAPPING], size, ids, places)
        tensors[name] = _with_rows(tensors[name], len(tensors[name]) + len(ids), places, vectors)
    else:
        tensors[name] = _with_rows(tensors[name], size, ids, vectors)
    if TOKEN_WEIGHTS in tensors:
        tensors[TOKEN_WEIGHTS] = _with_rows(tensors[TOKEN_WEIGHTS], size, ids, weights)
    facts: dict[str, Any] = {METADATA: header[METADATA]} if METADATA in header else {}
    end = 0
    tensors = dict(sorted(tensors.items(), key=lambda item: (-item[1].itemsize, item[0])))
    for each, values in tensors.items():  # the widest numbers first, so that all are aligned
        facts[each] = {
            "dtype": header[each]["dtype"] if each in header else "F32",
            "shape": list(values.shape),
            "data_offsets": [end, end := end + values.nbytes],
        }
    head = json.dumps(facts).encode()
    head += b" " * (-len(head) % LENGTH)
    with whole_file(to) as opened:
        opened.write(len(head).to_bytes(LENGTH, "little") + head)
        for values in tensors.values():
            opened.write(np.ascontiguousarray(values).data)


def _with_rows(
    values: NDArray[Any], size: int, places: NDArray[np.int64], rows: NDArray[Any]
) -> NDArray[Any]:
    grown = np.zeros((max(size, len(values)), *values.shape[1:]), values.dtype)
    grown[: len(values)] = values
    if values.dtype == np.uint16:  # bfloat16, rounded to the nearest
        rows = (rows.astype(np.float32).view(np.uint32) + 0x8000) >> 16
    grown[places] = np.rint(rows) if values.dtype.kind == "i" else rows
    return grown


def _save_word_vectors(path: Path, to: Path, words: Sequence[str], vectors: Floats) -> None:
    if path.suffix == ".npz":
        stored = word_vectors.WordVectors.open(path).words.stored
        with reading(str(path)), np.load(path) as file:
            arrays = dict(file)  # perhaps with a rule
        matrix = arrays["vectors"]
        arrays["words"] = np.array([*map(decode, stored), *words])
        arrays["vectors"] = np.concatenate([matrix, vectors.astype(matrix.dtype)])
        with whole_file(to) as opened:
            np.savez(opened, **arrays)
        return
    with reading(str(path)), path.open("rb") as file, whole_file(to) as opened:
        if header := HEADER.match(file.read(64)):
            opened.write(b"%d %d\n" % (int(header[1]) + len(words), int(header[2])))
        file.seek(header.end() if header else 0)
        shutil.copyfileobj(file, opened)
        file.seek(-1, 2)
        opened.write(b"\n" * (file.read(1) != b"\n"))
        for word, row in zip(words, vectors, strict=True):
            opened.write(f"{word} {' '.join(map(str, row))}\n".encode())
