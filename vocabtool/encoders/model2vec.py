"""Static embeddings of tokens: a text's vector is the mean of the vectors of its tokens.

Reads models of model2vec and ``StaticEmbedding`` of sentence-transformers without their
libraries. For a text of n tokens,

    vector = 1/n sum over each token t of weight(t) matrix[mapping(t)]

is computed in float32, or in float64 if the matrix is float64. ``mapping(t)`` is the row of the
token t in the matrix; in a model without a mapping, it is t. In a model without weights,
``weight(t)`` is 1. The settings of a model decide whether the vector is scaled to length 1. The
library of the model decides which tokens are used:

``model2vec``              the text is first cut to ``max_length * m`` characters, where m is the
                           median length of an entry; then its first ``max_length`` tokens are used,
                           without unknown tokens
``sentence-transformers``  all tokens, or as many as the limit in the tokenizer.json allows

Sources: ``StaticModel.encode`` in model2vec/model.py; ``StaticEmbedding`` in
sentence_transformers/.../static_embedding.py.
"""

from __future__ import annotations

from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.encoders.encoder import (
    EncodedTexts,
    Encoder,
    EncoderOptions,
    Texts,
    Vectors,
    check_vectors,
    decode_texts,
    hash_files,
    unit_length,
)
from vocabtool.errors import InvalidFile, reading
from vocabtool.formats import encoder_files
from vocabtool.formats.encoder_files import EMBEDDINGS, MAPPING, TOKEN_WEIGHTS
from vocabtool.formats.files import find_folder
from vocabtool.tokenization.hf_tokenizer import library_errors
from vocabtool.tokenization.text_arrays import starts_of
from vocabtool.tokenization.words import Words

DEFAULT_BATCH: Final = 1_024


class Model2VecEncoder(Encoder):
    """Computes means of token vectors. A text without tokens has the zero vector."""

    kind = "model2vec"
    threads = 2  # one batch is tokenized while another is added up
    words: Words

    def __init__(self, model: str | Path, options: EncoderOptions) -> None:
        """Open a folder, a safetensors file, or a model in the local Hugging Face cache."""
        path = Path(model)
        self._path = path if path.exists() else find_folder(model)
        self.folder = self._path if self._path.is_dir() else self._path.parent
        self._files = files = encoder_files.find_static(self._path)
        self.words = Words.of(files.tokenizer)  # this checks the tokenizer, too
        self.options = options
        self.max_batch = options.max_batch or DEFAULT_BATCH
        self._normalize, self.max_tokens = files.normalize, None
        if files.config is not None:
            self._normalize, self.max_tokens = encoder_files.read_model2vec(files.config)
        with reading(str(files.tokenizer)), library_errors("the tokenizers library rejects it"):
            self._open_tokenizer()
        with reading(str(files.tensors)):
            self._open_tensors()
        self.dim = int(self._matrix.shape[1])
        if self.max_tokens is not None:
            self._notes += (f"of a text, the first {self.max_tokens:,} tokens count",)

    def _open_tokenizer(self) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(self._files.tokenizer))
        self._tokenizer.no_padding()
        entries: dict[str, int] = self._tokenizer.get_vocab()
        if not entries:
            raise InvalidFile("the tokenizer has no entries")
        self._entries = max(entries.values()) + 1
        self._characters: int | None = None
        self._unknown: int | None = None
        if self._files.style == "sentence-transformers":
            truncation = self._tokenizer.truncation
            self.max_tokens = None if truncation is None else truncation["max_length"]
            return
        self._tokenizer.no_truncation()
        if self.max_tokens is not None:
            self._characters = self.max_tokens * int(np.median(list(map(len, entries))))
            self._tokenizer.enable_truncation(self.max_tokens)
        token = getattr(self._tokenizer.model, "unk_token", None)  # Unigram has none, but an id
        unknown = self.words.vocabulary.unknown
        if token is not None:
            self._unknown = self._tokenizer.token_to_id(token)
        elif unknown is not None:
            self._unknown = unknown.id

    def _open_tensors(self) -> None:
        tensors = encoder_files.open_tensors(self._files.tensors)
        matrix = next((tensors[name] for name in EMBEDDINGS if name in tensors), None)
        if matrix is None or matrix.ndim != 2 or not matrix.size or matrix.dtype.kind not in "fi":
            got = "none" if matrix is None else f"{matrix.dtype} of shape {matrix.shape}"
            raise InvalidFile(f"wanted a matrix of numbers ({' or '.join(EMBEDDINGS)}), got {got}")
        self._matrix = matrix
        self._mapping, self._weights = tensors.get(MAPPING), tensors.get(TOKEN_WEIGHTS)
        for name, array, kinds in (
            (MAPPING, self._mapping, "iu"),
            (TOKEN_WEIGHTS, self._weights, "f"),
        ):
            if array is None:
                continue
            if array.ndim != 1 or len(array) < self._entries or array.dtype.kind not in kinds:
                raise InvalidFile(
                    f"tensor {name!r} is {array.dtype} of shape {array.shape}, but must have one "
                    f"number for each of the {self._entries:,} entries of "
                    f"{self._files.tokenizer.name}"
                )
        rows = self._entries
        if self._mapping is not None:
            rows = int(self._mapping.max()) + 1
            if int(self._mapping.min()) < 0:
                raise InvalidFile(f"tensor {MAPPING!r} contains a row number below 0")
        if rows > len(matrix):
            raise InvalidFile(
                f"{self._files.tokenizer.name} and {MAPPING!r} need {rows:,} rows, but the "
                f"matrix has {len(matrix):,}: they belong to different models"
            )

    @cached_property
    def fingerprint(self) -> str:
        files = self._files
        facts = f"{files.style} {self._normalize} {self.max_tokens}"
        start = f"vocabtool model2vec 2\n{facts}\n".encode()
        return hash_files(start, (files.tensors, files.tokenizer))

    def encode(self, texts: Texts) -> Vectors:
        return self.encode_counting(texts).vectors

    def encode_counting(self, texts: Texts) -> EncodedTexts:
        decoded = decode_texts(texts)
        vectors, cut = [np.zeros((0, self.dim), np.float32)], np.zeros(3, np.int64)
        for start in range(0, len(decoded), self.max_batch):
            batch = decoded[start : start + self.max_batch]
            read = batch
            if self._characters is not None:
                read = [text[: self._characters] for text in batch]
            with library_errors(f"{self._path}: the tokenizers library fails on a text"):
                encoded = self._tokenizer.encode_batch_fast(read, add_special_tokens=False)
            cut += self._cut_off(batch, encoded)
            means = check_vectors(self._means(encoded), len(batch), self.dim, str(self._path))
            vectors.append(unit_length(means) if self._normalize else means)
        return EncodedTexts(np.concatenate(vectors), *cut.tolist())

    def _means(self, encoded: list[Any]) -> NDArray[np.floating]:
        from scipy.sparse import csr_array

        ids, offsets = self._tokens(encoded)
        table, rows, weights = self._matrix, ids, self._weights
        number = np.float64 if table.dtype == np.float64 else np.float32
        if table.dtype != number or weights is not None or self._mapping is not None:
            row_of = np.zeros(self._entries, np.int64)
            row_of[ids] = 1
            distinct = np.flatnonzero(row_of)
            row_of[distinct] = np.arange(len(distinct))
            rows = row_of[ids]
            places = distinct if self._mapping is None else self._mapping[distinct]
            table = self._matrix[places].astype(number)
            if weights is not None:
                table *= weights[distinct].astype(number)[:, None]
        # A sparse matrix of ones adds the rows one after the other, as the libraries do.
        shape = (len(encoded), len(table))
        ones = np.ones(len(rows), number)
        sparse = csr_array(
            (ones, rows.astype(np.int32, copy=False), offsets.astype(np.int32)), shape=shape
        )
        counts = np.maximum(np.diff(offsets), 1).astype(number)
        means: NDArray[np.floating] = (sparse @ table) / counts[:, None]
        return means

    def _cut_off(self, texts: list[str], encoded: list[Any]) -> tuple[int, int, int]:
        too_long = tokens = estimated = 0
        for text, encoding in zip(texts, encoded, strict=True):
            unread = 0 if self._characters is None else max(len(text) - self._characters, 0)
            if unread == 0 and len(encoding) != self.max_tokens:
                continue
            cut = sum(map(len, encoding.overflowing))
            if unread and self._characters:
                cut += round((len(encoding) + cut) / self._characters * unread)
                estimated += 1
            too_long += cut > 0
            tokens += cut
        return too_long, tokens, estimated

    def _tokens(self, encoded: list[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        lists = [encoding.ids for encoding in encoded]
        offsets = starts_of(list(map(len, lists)))
        ids = np.fromiter(chain.from_iterable(lists), np.int64, int(offsets[-1]))
        if self._unknown is None:
            return ids, offsets
        kept = ids != self._unknown
        return ids[kept], starts_of(kept)[offsets]

    def __reduce__(self) -> tuple[Any, ...]:
        return Model2VecEncoder, (self._path, self.options)
