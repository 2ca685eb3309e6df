"""Prompts before queries and documents, and vectors cut to fewer numbers, for any encoder.

A prompt is a text such as ``query: ``. Folders of sentence-transformers state prompts in
``config_sentence_transformers.json``:

    {"prompts": {"query": "query: ", "document": "passage: "}, "default_prompt_name": null}

If ``prompts`` contains no prompt for queries, or none for documents, the prompt with the name
``default_prompt_name`` is used. Source: ``encode_query``, ``encode_document`` and
``_resolve_prompt`` in huggingface/sentence-transformers.

A model with Matryoshka training (Kusupati et al., NeurIPS 2022, arxiv.org/abs/2205.13147) puts the
most important numbers of a vector v first. Such a vector is cut to its first N numbers, and the
result is scaled to the norm of v:

    v[:N] |v| / |v[:N]|
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from vocabtool.encoders.encoder import EncodedTexts, Encoder, EncoderOptions, Texts, Vectors
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats.json_file import expect
from vocabtool.formats.static_embedding import CONFIG, read_settings
from vocabtool.tokenization.text_arrays import as_bytes, text_bytes, texts_array
from vocabtool.tokenization.token_limit import count_cut
from vocabtool.tokenization.words import Words

if TYPE_CHECKING:
    import pyarrow as pa

PROMPT_OPTIONS: Final = ("prompt_query", "prompt_document")
WRAPPED: Final = (*PROMPT_OPTIONS, "dim")  # options that this module applies to any encoder
PROMPTS: Final = "config_sentence_transformers.json"
DOCUMENT_NAMES: Final = ("document", "passage", "corpus")  # the first of them that is there
MAX_PROMPT: Final = 1 << 14  # characters
CARD: Final = "README.md"
MAX_SIZES: Final = 20  # lengths that a note shows
CARD_BYTES: Final = 1 << 16  # that are searched for the name of the training
TRAINED_BY: Final = b"MatryoshkaLoss"
POOLING: Final = "*_Pooling/config.json"
COMPARE: Final = "compare the ranking with and without --dim (vocabtool eval)"


class Prompts(NamedTuple):
    """The texts put before queries and documents. ``""`` means no prompt.

    ``default``: the default prompt in the settings of the model.
    """

    query: str = ""
    document: str = ""
    default: str = ""


class PromptEncoder(Encoder):
    """Wraps the encoder ``plain``: adds prompts to texts, and cuts vectors to ``dim`` numbers."""

    def __init__(
        self, encoder: Encoder, prompts: Prompts, dim: int, notes: tuple[str, ...]
    ) -> None:
        self.plain, self._prompts, self._more = encoder, prompts, notes
        self.kind, self.max_batch, self.dim = encoder.kind, encoder.max_batch, dim
        self.options = replace(
            encoder.options,
            prompt_query=prompts.query,
            prompt_document=prompts.document,
            dim=dim if dim < encoder.dim else encoder.options.dim,
        )
        self.max_tokens = encoder.max_tokens
        if self.max_tokens is not None and prompts.document and encoder.words is not None:
            _, tokens = count_cut(encoder.words.look_up([prompts.document]), 0)
            self.max_tokens = max(self.max_tokens - tokens, 0)

    def __repr__(self) -> str:
        query, document, _ = self._prompts
        return f"{super().__repr__()[:-1]}, prompts {query!r} and {document!r}>"

    @cached_property
    def fingerprint(self) -> str:
        query, document, _ = self._prompts
        cut = self.dim if self.dim < self.plain.dim else None
        parts = ["vocabtool prompts 1", self.plain.fingerprint, query, document, cut]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    @cached_property
    def words(self) -> Words | None:
        return self.plain.words

    @property
    def notes(self) -> tuple[str, ...]:
        return (*self.plain.notes, *self._more)

    def encode(self, texts: Texts) -> Vectors:
        return self._cut(self.plain.encode(self._after(self._prompts.document, texts)))

    def encode_counting(self, texts: Texts) -> EncodedTexts:
        vectors, *cut = self.plain.encode_counting(self._after(self._prompts.document, texts))
        return EncodedTexts(self._cut(vectors), *cut)

    def encode_queries(self, texts: Texts) -> Vectors:
        return self._cut(self.plain.encode(self._after(self._prompts.query, texts)))

    def encode_batches(self, texts: pa.StringArray, size: int) -> list[Vectors]:
        prompted = texts_array(self._after(self._prompts.document, texts))
        return [self._cut(part) for part in self.plain.encode_batches(prompted, size)]

    def with_words(self, words: Words) -> PromptEncoder:
        return PromptEncoder(self.plain.with_words(words), self._prompts, self.dim, self._more)

    def __reduce__(self) -> tuple[Any, ...]:
        return PromptEncoder, (self.plain, self._prompts, self.dim, self._more)

    def _after(self, prompt: str, texts: Texts) -> Texts:
        if not prompt:
            return texts
        start, skips = text_bytes(prompt), self.plain.skips_blank
        return [
            text if skips and not text.decode("utf-8", "replace").strip() else start + text
            for text in as_bytes(texts_array(texts))
        ]

    def _cut(self, vectors: Vectors) -> Vectors:
        if vectors.shape[1] == self.dim:
            return vectors
        kept = np.ascontiguousarray(vectors[:, : self.dim])
        whole, left = (np.linalg.norm(each, axis=1) for each in (vectors, kept))
        kept *= np.divide(whole, left, out=np.zeros_like(left), where=left > 0)[:, np.newaxis]
        return kept


def with_prompts(encoder: Encoder, options: EncoderOptions) -> Encoder:
    """Return an encoder with the prompts and the vector length that ``options`` contains.

    For an option that is not given, the option of ``encoder`` is used, or else the model's setting.
    """
    given = encoder.options.given_options() | options.given_options()
    if isinstance(encoder, PromptEncoder):
        encoder = encoder.plain
    stated = Prompts() if encoder.folder is None else read_prompts(encoder.folder)
    sides = {side: given[f"prompt_{side}"] for side in stated._fields if f"prompt_{side}" in given}
    prompts, dim = stated._replace(**sides), given.get("dim", encoder.dim)
    if dim > encoder.dim:
        raise VocabtoolError(
            f"--dim {dim:,}: the vectors of this model have only {encoder.dim:,} numbers; leave "
            "--dim out, or give a smaller number"
        )
    # A default prompt counts although both prompts are empty: in version 0.1.0 the library put it
    # before every text, so the fingerprint without prompts is that of other vectors.
    if not any(prompts) and dim == encoder.dim:
        return encoder
    notes: tuple[str, ...] = ()
    for whom, prompt in (("each query", prompts.query), ("each document", prompts.document)):
        if len(prompt) > MAX_PROMPT:
            told = f"the prompt has {len(prompt):,} characters, wanted at most {MAX_PROMPT:,}"
            raise VocabtoolError(f"{told}: {prompt[:40]!r}…")
        if prompt:
            notes += (f"the prompt {prompt!r} is put before {whom}",)
    if encoder.folder is not None and (prompts.query or prompts.document):
        _refuse_left_out(encoder.folder)
    if dim < encoder.dim:
        notes += (
            f"of {encoder.dim:,} numbers of a vector the first {dim:,} are kept; "
            f"{_training(encoder.folder, dim)}",
        )
    return PromptEncoder(encoder, prompts, dim, notes)


def same_for_documents(encoder: Encoder) -> set[str]:
    """Return the fingerprints of encoders that differ from ``encoder`` only in the query prompt.

    All these encoders give documents the same vectors. Their query prompt is either empty or the
    one in the settings of the model.
    """
    plain, document = encoder, ""
    if isinstance(encoder, PromptEncoder):
        plain, document = encoder.plain, encoder.options.prompt_document or ""
    stated = "" if plain.folder is None else read_prompts(plain.folder).query
    same = {
        PromptEncoder(plain, Prompts(query, document), encoder.dim, ()).fingerprint
        for query in ("", stated)
    }
    return same if document or encoder.dim < plain.dim else {plain.fingerprint, *same}


def read_prompts(folder: Path) -> Prompts:
    """Return the prompts in the settings of a model's folder."""
    file = folder / PROMPTS
    if not file.is_file():
        return Prompts()
    settings = read_settings(file, dict)
    with reading(str(file)):
        stated = expect(settings.get("prompts") or {}, dict, "prompts")
        texts = {
            name: "" if text is None else expect(text, str, f"the prompt {name!r:.40}")
            for name, text in stated.items()
        }
        default = ""
        if (named := settings.get("default_prompt_name")) is not None:
            if (name := expect(named, str, "default_prompt_name")) not in texts:
                raise InvalidFile(f"default_prompt_name is {name!r:.40}, which is not in `prompts`")
            default = texts[name]
    document = (texts[name] for name in DOCUMENT_NAMES if name in texts)
    return Prompts(texts.get("query", default), next(document, default), default)


def _refuse_left_out(folder: Path) -> None:
    for file in sorted(folder.glob(POOLING)):
        if read_settings(file, dict).get("include_prompt") is False:
            raise UnsupportedFormat(
                "include_prompt is false: the model leaves the tokens of a prompt out of its "
                "vectors, which is not supported. Use sentence-transformers in a callable of your "
                "own (python:MODULE:NAME), or no prompts (--prompt-query '' --prompt-document '')",
                file=str(file),
            )


def _training(folder: Path | None, dim: int) -> str:
    sizes, is_trained = None, False
    if folder is not None:
        config, card = folder / CONFIG, folder / CARD
        stated = read_settings(config, dict) if config.is_file() else {}
        sizes, is_trained = stated.get("matryoshka_dimensions"), stated.get("is_matryoshka") is True
        if card.is_file():
            with reading(str(card)), card.open("rb") as opened:
                is_trained |= TRAINED_BY in opened.read(CARD_BYTES)
    if isinstance(sizes, list) and sizes and dim not in sizes:
        shown = ", ".join(f"{each!r:.10}" for each in sizes[:MAX_SIZES])
        return f"the model was trained for other lengths (Matryoshka: {shown}): {COMPARE}"
    if sizes or is_trained:
        return "the model was trained for this (Matryoshka)"
    return f"it is not known whether the model was trained for this (Matryoshka): {COMPARE}"
