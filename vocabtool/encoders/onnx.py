"""Transformers exported to ONNX: a tokenizer.json, a graph run by onnxruntime, and pooling.

An output of shape (texts, tokens, dim) has a vector t for each of the n tokens of a text. Pooling
makes one vector of the text from these vectors. If a model uses several kinds of pooling, their
results are concatenated. The kinds are:

``mean``                  1/n sum of t
``mean_sqrt_len_tokens``  1/sqrt(n) sum of t
``weightedmean``          sum of i t_i, divided by the sum of i, for i from 1 to n
``max``                   the largest number of each dimension
``cls``                   the vector of the first token
``lasttoken``             the vector of the last token

An output of shape (texts, dim) is used as it is. Source: ``Pooling`` and ``Normalize`` of
sentence-transformers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from vocabtool.choices import Pooling
from vocabtool.encoders.encoder import (
    DEFAULT_BATCH,
    PROBE,
    Encoder,
    EncoderOptions,
    Texts,
    Vectors,
    check_vectors,
    decode_texts,
    hash_files,
    unit_length,
)
from vocabtool.errors import InvalidFile, UnsupportedFormat, library_errors, reading
from vocabtool.formats import encoder_files, hf_tokenizer, tokenizer_folder
from vocabtool.formats.files import MAX_NAMED, find_folder
from vocabtool.formats.tokenizer_folder import LOWER
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer, without_own_keys
from vocabtool.tokenization.token_limit import TokenLimit
from vocabtool.tokenization.words import Words

BUCKET_TEXTS: Final = 32  # texts padded to the same length, at most
BUCKET_TOKENS: Final = 8_192  # their tokens, unless one text has more; bounds the memory
MAX_TOKENS: Final = 512  # of a text, if no file of the model states it
MASK, TYPES = "attention_mask", "token_type_ids"
INPUTS: Final = (encoder_files.INPUT_IDS, MASK, TYPES)
NUMBERS: Final[Mapping[str, type[Any]]] = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
OUTPUTS: Final = ("sentence_embedding", "last_hidden_state", "token_embeddings")  # by preference
EXPORT: Final = "update onnxruntime, or export the model without operators of its own"
PROVIDER: Final = "ExecutionProvider"  # how the names of providers end
INSTALL: Final = "onnxruntime is not installed: pip install '.[onnx]'"
ONE_BY_ONE: Final = (
    "the model quantizes all texts of a batch together: to keep vectors independent of other "
    "texts, they are encoded one by one"
)


class OnnxEncoder(Encoder):
    """Runs an ONNX transformer; no tokens: the zero vector. Padding changes values by < 1e-6."""

    kind = "onnx"
    threads = 2  # one batch is tokenized while another is multiplied
    words: Words
    max_tokens: int

    def __init__(self, model: str | Path, options: EncoderOptions) -> None:
        """Open the folder of a model, a graph file, or a model in the local Hugging Face cache."""
        path = Path(model)
        self._path = path if path.exists() else find_folder(model)
        self._files = files = encoder_files.find_onnx(self._path)
        folders = (folder for folder in files.folders if (folder / encoder_files.PROMPTS).is_file())
        self.folder = next(folders, files.tokenizer.parent)
        self._external, self._is_dynamic = encoder_files.check_graph(files.model)
        with reading(str(files.model)):
            self._settings = encoder_files.read_all_settings(files)
        with reading(str(files.tokenizer)):
            described = tokenizer_folder.read(files.tokenizer.parent)
            if described is None or described.document is None:
                raise InvalidFile("this JSON is not a tokenizer.json")
            document = {**described.document, LOWER: self._settings.lower}
            self._document = json.dumps(without_own_keys(document))
            vocabulary = hf_tokenizer.vocabulary(document, files.tokenizer.name)
            self.words = Words(vocabulary, "recovered", HFWordTokenizer(document, vocabulary))
        self.options = options
        self.max_batch = options.max_batch or DEFAULT_BATCH
        self._notes = self._settings.notes
        with reading(str(files.tokenizer)), library_errors("the tokenizers library rejects it"):
            self._open_tokenizer()
        refused = f"onnxruntime refuses it; {EXPORT}"
        with reading(str(files.model)), library_errors(refused):
            self._session = _open_session(
                files.model, "cpu" if options.device is None else options.device
            )
            self._types = _input_types(self._session)
            self._output = _choose_output(self._session, options.output)
        probe = self._tokens([PROBE])
        if not len(probe[0]):
            raise InvalidFile(
                f"the tokenizer finds no tokens in the text {PROBE!r}", file=str(files.tokenizer)
            )
        self.dim = int(self._encode_bucket(probe, None).shape[1])
        end = "last" if self._side == "left" else "first"
        self._notes += (f"of a text, the {end} {self.max_tokens:,} tokens count",)
        if self._is_dynamic:
            self._notes += (ONE_BY_ONE,)
        if files.others:
            names = ", ".join(file.name for file in files.others[:MAX_NAMED])
            self._notes += (f"using {files.model.name}; {files.model.parent} also has {names}",)

    def _open_tokenizer(self) -> None:
        """Open the tokenizer. It cuts texts at the limit of the model, and does not pad them."""
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_str(self._document)
        padding = self._tokenizer.padding
        self._pad = 0 if padding is None else int(padding["pad_id"])
        self._tokenizer.no_padding()
        limit = TokenLimit.of(self._files.model, self.words)
        if limit is None:
            special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
            limit = TokenLimit(MAX_TOKENS, special)
            self._notes += (f"no file states how many tokens the model takes: {MAX_TOKENS}",)
        self._side = "left" if limit.cuts_start else "right"
        self._tokenizer.enable_truncation(limit.places, direction=self._side)
        self.max_tokens = limit.tokens

    @cached_property
    def fingerprint(self) -> str:
        settings = self._settings
        facts = f"{settings.pooling} {settings.normalize} {self.max_tokens} {self._side}"
        start = f"vocabtool onnx 2\n{facts} {self._output}\n{settings.lower} {self._document}"
        return hash_files(start.encode(), (self._files.model, *self._external))

    def encode(self, texts: Texts) -> Vectors:
        decoded = decode_texts(texts)
        vectors = np.zeros((len(decoded), self.dim), np.float32)
        for start in range(0, len(decoded), self.max_batch):
            encoded = self._tokens(decoded[start : start + self.max_batch])
            for rows in self._buckets(list(map(len, encoded))):
                chosen = [encoded[row] for row in rows]
                vectors[start + np.array(rows)] = self._encode_bucket(chosen, self.dim)
        return vectors

    def _tokens(self, texts: Sequence[str]) -> list[Any]:
        """Return a ``tokenizers.Encoding`` for each text: the ids of its tokens."""
        if self._settings.lower:
            texts = [text.lower() for text in texts]
        with library_errors(f"{self._path}: the tokenizers library fails on a text"):
            encoded: list[Any] = self._tokenizer.encode_batch_fast(texts)
        return encoded

    def _buckets(self, lengths: Sequence[int]) -> Iterator[list[int]]:
        """Yield the rows of texts of similar length, which are padded and encoded together.

        ``lengths``: the number of tokens of each text. Texts without tokens are left out. A model
        without a mask cannot ignore padding, so all texts of its buckets have the same length.
        """
        bucket: list[int] = []
        most = 1 if self._is_dynamic else BUCKET_TEXTS
        for row in sorted(np.flatnonzero(lengths).tolist(), key=lengths.__getitem__):
            longest = lengths[row]
            full = len(bucket) == most or (len(bucket) + 1) * longest > BUCKET_TOKENS
            if bucket and (full or (MASK not in self._types and longest != lengths[bucket[-1]])):
                yield bucket
                bucket = []
            bucket.append(row)
        if bucket:
            yield bucket

    def _encode_bucket(self, encoded: list[Any], dim: int | None) -> Vectors:
        """Run the model, and pool: float32, shape (texts, dim). ``dim``: expected, if known."""
        lengths = np.array(list(map(len, encoded)))
        mask = np.arange(lengths.max()) < lengths[:, None]
        ids = np.full(mask.shape, self._pad, np.int64)
        ids[mask] = np.fromiter(chain.from_iterable(encoding.ids for encoding in encoded), np.int64)
        inputs = {encoder_files.INPUT_IDS: ids, MASK: mask}
        if TYPES in self._types:
            types = np.zeros(mask.shape, np.int64)
            types[mask] = np.fromiter(
                chain.from_iterable(encoding.type_ids for encoding in encoded), np.int64
            )
            inputs[TYPES] = types
        feed = {name: inputs[name].astype(dtype) for name, dtype in self._types.items()}
        shape = f"{len(encoded):,} texts of up to {mask.shape[1]:,} tokens"
        with library_errors(f"{self._files.model}: onnxruntime fails on {shape}"):
            (output,) = self._session.run([self._output], feed)
        where = f"{self._files.model}: output {self._output!r}"
        values = np.asarray(output)
        if values.ndim == 3 and values.shape[:2] == mask.shape and values.dtype.kind == "f":
            if not self._settings.pooling:
                listed = ", ".join(self._settings.modules)
                raise UnsupportedFormat(
                    f"{where} has a vector for each token, and vocabtool does not apply the "
                    f"modules {listed}: export a model that contains them (output "
                    "sentence_embedding), or use the prefix sentence-transformers:"
                )
            values = pool(values.astype(np.float32, copy=False), lengths, self._settings.pooling)
        vectors = check_vectors(values, len(encoded), dim, where)
        return unit_length(vectors) if self._settings.normalize else vectors

    def __reduce__(self) -> tuple[Any, ...]:
        return OnnxEncoder, (self._path, self.options)


def pool(
    tokens: NDArray[np.float32], lengths: NDArray[np.integer], modes: Sequence[Pooling]
) -> Vectors:
    """Return one vector for each of n texts: shape (n, len(modes) * dim).

    ``tokens``: padded, shape (n, longest, dim). ``lengths``: in tokens, at least 1, shape (n,).
    """
    mask = np.arange(tokens.shape[1]) < lengths[:, None]
    pooled: list[NDArray[Any]] = []
    for mode in modes:
        if mode == "cls":
            pooled.append(tokens[:, 0])
        elif mode == "lasttoken":
            pooled.append(tokens[np.arange(len(tokens)), lengths - 1])
        elif mode == "max":
            pooled.append(np.where(mask[:, :, None], tokens, np.float32(-np.inf)).max(axis=1))
        else:
            weights = mask.astype(np.float32)
            if mode == "weightedmean":
                weights *= np.arange(1, tokens.shape[1] + 1, dtype=np.float32)
            total = weights.sum(1, keepdims=True)
            divisor = np.sqrt(total) if mode == "mean_sqrt_len_tokens" else total
            pooled.append((weights[:, None] @ tokens)[:, 0] / divisor)
    return np.concatenate(pooled, axis=1)


def _open_session(file: Path, device: str) -> Any:
    """Open a graph. No library of custom operators is loaded, so only built-in operators run.

    ``device``: the name of a provider without its ending, and perhaps a number: ``cuda:1``.
    """
    try:
        import onnxruntime
    except ModuleNotFoundError as error:
        raise UnsupportedFormat(INSTALL) from error
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors are raised as well
    # With a number, onnxruntime does not bind threads to cores that this process may not use.
    on_macos = not hasattr(os, "sched_getaffinity")
    cores = os.cpu_count() or 1 if on_macos else len(os.sched_getaffinity(0))
    options.intra_op_num_threads = cores
    options.inter_op_num_threads = 1
    # Threads that wait for work actively would take the cores from other threads and processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    kind, _, number = device.lower().partition(":")
    names = {
        name.removesuffix(PROVIDER).lower(): name for name in onnxruntime.get_available_providers()
    }
    names.pop("azure", None)  # it sends texts to a server
    if kind in names and (not number or number.isdecimal()):
        session = onnxruntime.InferenceSession(
            os.fspath(file),
            options,
            providers=[(names[kind], {"device_id": number} if number else {})],
            enable_fallback=0,  # a fallback would print, and try the same again
        )
        # Without the libraries that a provider needs, onnxruntime takes the CPU in silence.
        if names[kind] in session.get_providers():
            return session
    raise UnsupportedFormat(
        f"device {device!r}: onnxruntime does not run here on it, but on {', '.join(names)}; for a "
        "GPU install onnxruntime-gpu, or leave --device out"
    )


def _input_types(session: Any) -> dict[str, type[Any]]:
    """Return the names of the inputs with their types. Refuse a graph that wants other inputs."""
    types: dict[str, type[Any]] = {}
    for tensor in session.get_inputs():
        if tensor.name not in INPUTS or tensor.type not in NUMBERS or len(tensor.shape) != 2:
            raise UnsupportedFormat(
                f"the input {tensor.name!r} of type {tensor.type} and shape {tensor.shape} is not "
                f"supported. Supported are {', '.join(INPUTS)} of int64 or int32, with the shape "
                "(texts, tokens). "
                "Export the model for feature extraction, without a cache of keys and values"
            )
        if any(type(size) is int for size in tensor.shape):
            raise UnsupportedFormat(
                f"the input {tensor.name!r} has the fixed shape {tensor.shape}; export the model "
                "with any number of texts and tokens (dynamic axes)"
            )
        types[tensor.name] = NUMBERS[tensor.type]
    return types


def _choose_output(session: Any, wanted: str | None) -> str:
    """Return the output to use: the ``wanted`` one, the first in ``OUTPUTS``, or the only one."""
    names = [tensor.name for tensor in session.get_outputs()]
    if wanted is None:
        known = (name for name in OUTPUTS if name in names)
        wanted = next(known, names[0] if len(names) == 1 else None)
    if wanted is None or wanted not in names:
        outputs = "several outputs" if wanted is None else f"no output {wanted!r}"
        listed = ", ".join(names[:MAX_NAMED])
        raise UnsupportedFormat(f"{outputs}; choose one with --output NAME: {listed}")
    return wanted
