"""Models of the sentence-transformers library, from a folder or the local cache, offline.

Without trust, no code of the model is run: custom modules and pickled weights are refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

import numpy as np

from vocabtool.encoders.encoder import (
    DEFAULT_BATCH,
    Encoder,
    EncoderOptions,
    Texts,
    Vectors,
    check_vectors,
    decode_texts,
    hash_files,
)
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError
from vocabtool.formats import encoder_files
from vocabtool.formats.encoder_files import CONFIG, LIBRARY, MODULES, PROMPTS, SAFE_WEIGHTS
from vocabtool.formats.files import find_folder
from vocabtool.system.native_import import load_triton
from vocabtool.tokenization.token_limit import MOST
from vocabtool.tokenization.words import Words

PADDED: Final = 32  # texts padded to the same length: the library's default
PICKLED: Final = frozenset((".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle"))
INSTALL: Final = "is not installed: pip install '.[sentence-transformers]'"
TRUST: Final = "use --trust (in Python trust=True)"
OWN_FUNCTION: Final = "load it in a function of your own and use --rerank python:MODULE:NAME"
HEADS: Final = ("ForSequenceClassification", "ForCausalLM")  # architectures that can score pairs


class SentenceTransformersEncoder(Encoder):
    """Encodes with sentence-transformers. Padding changes values by less than 1e-6.

    Only one thread encodes at a time, because the model's tokenizer is not thread-safe.
    """

    kind = "sentence-transformers"
    folder: Path

    def __init__(self, model: str | Path, options: EncoderOptions) -> None:
        """Open a folder, or a model in the local Hugging Face cache (``all-MiniLM-L6-v2``)."""
        self.folder = folder = find_folder(model)
        if not options.trust:
            check_files(folder)
        self._lock = Lock()
        self.options = options
        self.max_batch = options.max_batch or DEFAULT_BATCH
        if options.device is not None:
            check_device(options.device)
        self._model = load(
            folder, "SentenceTransformer", trust=options.trust, device=options.device
        )
        self.dim = int(self._model.get_embedding_dimension())
        # Without special tokens. The limit may be a large number, or infinity: then there is none.
        places = getattr(self._model, "max_seq_length", None)
        if isinstance(places, int) and places <= MOST:
            special = getattr(self._model.tokenizer, "num_special_tokens_to_add", None)
            self.max_tokens = max(places - (0 if special is None else int(special(pair=False))), 0)
        try:
            self.words = Words.of(folder)
        except VocabtoolError as error:
            self._notes += (f"the words of the model are unknown: {error}",)

    @cached_property
    def fingerprint(self) -> str:
        files = sorted(f for f in _visible_files(self.folder) if f.suffix.lower() != ".md")
        return hash_files(b"vocabtool sentence-transformers 2\n", files, self.folder)

    def encode(self, texts: Texts) -> Vectors:
        decoded = decode_texts(texts)
        vectors = [np.zeros((0, self.dim), np.float32)]
        for start in range(0, len(decoded), self.max_batch):
            batch = decoded[start : start + self.max_batch]
            with self._lock:
                answer = self._model.encode(
                    batch,
                    prompt="",  # the default prompt is added by PromptEncoder
                    batch_size=PADDED,
                    show_progress_bar=False,
                    convert_to_numpy=True,
                )
            vectors.append(check_vectors(answer, len(batch), self.dim, str(self.folder)))
        return np.concatenate(vectors)

    def __reduce__(self) -> tuple[Any, ...]:
        return SentenceTransformersEncoder, (self.folder, self.options)


class CrossEncoder:
    """Scores texts for a query. Only one thread at a time runs it; other threads wait."""

    def __init__(self, folder: Path) -> None:
        check_files(folder, OWN_FUNCTION)
        heads = encoder_files.find_settings((folder,), CONFIG)[1].get("architectures")
        kind = encoder_files.find_settings((folder,), PROMPTS)[1].get("model_type")
        if kind != "CrossEncoder" and not any(
            str(head).endswith(HEADS) for head in (heads if isinstance(heads, list) else ())
        ):  # sentence-transformers would add a head of random numbers
            wanted = " or ".join(f"*{head}" for head in HEADS)
            what = f"not a cross-encoder: its architectures are {heads!s:.80}, not {wanted}"
            raise UnsupportedFormat(what, file=str(folder))
        # The model may name any function of torch as its activation: none is looked up.
        self._model = load(folder, "CrossEncoder", trust=False, activation_fn=lambda logits: logits)
        self._lock = Lock()
        labels = int(self._model.num_labels)
        if labels != 1:
            what = (
                f"it returns {labels:,} numbers for a query and a text; a cross-encoder returns one"
            )
            raise UnsupportedFormat(what, file=str(folder))

    def __call__(self, query: str, texts: list[str], /) -> Any:
        pairs = [(query, text) for text in texts]
        with self._lock:
            return self._model.predict(pairs, batch_size=PADDED, show_progress_bar=False)


def load(
    folder: Path,
    kind: Literal["SentenceTransformer", "CrossEncoder"],
    *,
    trust: bool,
    **arguments: Any,
) -> Any:
    """Open a model of the library without its progress bar. ``trust``: whether its code may run."""
    load_triton()
    try:
        import sentence_transformers
        from transformers.utils import logging as transformers_logging
    except ModuleNotFoundError as error:
        raise UnsupportedFormat(f"sentence-transformers {INSTALL}") from error
    logging: Any = transformers_logging  # not typed
    shows_progress = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return getattr(sentence_transformers, kind)(
            str(folder),
            local_files_only=True,
            trust_remote_code=trust,
            model_kwargs=None if trust else {"use_safetensors": True},
            **arguments,
        )
    except Exception as error:  # for a damaged folder, four libraries raise many types
        raise VocabtoolError(
            f"{folder}: sentence-transformers cannot load it: {type(error).__name__}: {error}"
        ) from error
    finally:
        if shows_progress:
            logging.enable_progress_bar()


def check_device(device: str) -> None:
    """Raise :class:`UnsupportedFormat` if PyTorch cannot compute on ``device`` here."""
    load_triton()
    try:
        import torch
    except ModuleNotFoundError as error:
        raise UnsupportedFormat(f"sentence-transformers {INSTALL}") from error
    try:
        torch.zeros(1, device=device).cpu()
    except Exception as error:  # each device raises types of its own
        names, accelerator = ["cpu"], torch.accelerator.current_accelerator()
        if accelerator is not None:
            count = torch.accelerator.device_count()
            names += [f"{accelerator.type}:{number}" for number in range(count)]
        reason = str(error).partition("\n")[0]
        raise UnsupportedFormat(
            f"device {device!r}: PyTorch does not run here on it ({reason}), but on "
            f"{', '.join(names)}; leave --device out to take the fastest of these"
        ) from error


def check_files(folder: Path, advice: str = TRUST) -> None:
    """Refuse modules from outside the library, and pickled weights without safetensors."""
    file = folder / MODULES
    modules = encoder_files.read_settings(file, list) if file.is_file() else []
    if not all(isinstance(module, dict) for module in modules):
        raise InvalidFile("wanted a list of objects", file=str(file))
    for module in (str(entry.get("type")) for entry in modules):
        if not module.startswith(LIBRARY) or ".." in module:
            raise UnsupportedFormat(
                f"loading would run the code of a custom module, {module!r}; to allow it, {advice}",
                file=str(file),
            )
    for file in _visible_files(folder):
        safe = (file.parent / name for name in SAFE_WEIGHTS)
        if file.suffix in PICKLED and not any(other.is_file() for other in safe):
            raise UnsupportedFormat(
                "pickled weights without safetensors beside them; unpickling can run any code. "
                f"Save the model with safe_serialization=True, or {advice}",
                file=str(file),
            )


def _visible_files(folder: Path) -> Iterator[Path]:
    """Yield all files below a folder, apart from those whose name or folder begins with a dot."""
    for file in folder.rglob("*"):
        inside = file.relative_to(folder).parts
        if not any(name.startswith(".") for name in inside) and file.is_file():
            yield file
