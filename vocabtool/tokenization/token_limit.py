"""How many tokens of a text a model reads, and how much of a longer text is cut off.

The limit is in one of the files beside the tokenizer. The first setting that exists is used:

1. ``sentence_bert_config.json``: ``max_seq_length`` (huggingface/sentence-transformers,
   base/modules/transformer.py).
2. The smaller of ``model_max_length`` in ``tokenizer_config.json`` and the number of positions in
   ``config.json``. If a model has no limit, transformers writes 1e30. In models like RoBERTa, the
   first position is ``pad_token_id + 1``: of 514 positions, they use 512
   (``create_position_ids_from_input_ids`` in huggingface/transformers, modeling_roberta.py).
3. ``tokenizer.json``: ``truncation``.

For the limits of static embeddings, see ``encoders/static.py``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.formats import encoder_files, json_file
from vocabtool.formats.encoder_files import (
    CONFIG,
    SENTENCES,
    TOKENIZER,
    TOKENIZER_CONFIG,
    EmbeddingFiles,
    find_settings,
    folders_of,
)
from vocabtool.system.messages import plural
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer
from vocabtool.tokenization.lookup import PieceTokenizer, SentencePieceTokenizer, WordLookup
from vocabtool.tokenization.text_arrays import as_bytes, starts_of, texts_array
from vocabtool.tokenization.words import Words

GIVEN: Final = "--limit"
MOST: Final = 10**9  # a larger number means that there is no limit
# ``model_type`` of the models whose positions begin at pad_token_id + 1.
LIKE_ROBERTA: Final = (
    *("roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "xmod"),
    *("mpnet", "longformer", "esm", "ibert", "data2vec-text", "layoutlmv3", "lilt", "luke"),
    "markuplm",
)
MAX_CACHED: Final = 1 << 18  # chunks of texts whose tokens are counted once
PADDING: Final = 1  # pad_token_id of these models, if the file does not state it

Limit = tuple[int, str]  # a number of tokens, and the file and the name of the setting


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """How many tokens of a text a model reads.

    - ``places``: The largest number of tokens that the model takes, special tokens included.
    - ``special``: The number of special tokens, such as ``[CLS]``, that the model adds to a text.
    - ``cuts_start``: Whether a longer text is cut at its start. If false, it is cut at its end.
    - ``source``: Where the limit is stated: the file and the name of the setting.
    """

    places: int
    special: int = 0
    cuts_start: bool = False
    source: str = ""

    @property
    def tokens(self) -> int:
        """How many tokens of a text the model reads at most, special tokens excluded."""
        return max(self.places - self.special, 0)

    @classmethod
    def of(cls, model: str | Path, words: Words, places: int | None = None) -> TokenLimit | None:
        """Return the limit of a model; ``None`` if its files state none.

        - ``words``: The words of the model.
        - ``places``: A limit to use instead of the limit in the files.

        Raises:

        - :class:`VocabtoolError` for a damaged file of settings, and for a setting that is not a
          number.
        - ``ValueError`` if ``places`` is not larger than the number of special tokens.
        """
        tokenizer = words.tokenizer
        if isinstance(tokenizer, PieceTokenizer):
            tokenizer = tokenizer.tokenizer
        special, truncation = 0, {}
        if isinstance(tokenizer, HFWordTokenizer):
            special, truncation = tokenizer.special_tokens, tokenizer.truncation
        elif not isinstance(tokenizer, SentencePieceTokenizer):  # whole words
            return None if places is None else cls(places, source=GIVEN)
        path = encoder_files.path_of(model)
        static = _static_embedding(path)
        folders = folders_of(path if path.is_dir() else path.parent)

        # The number of special tokens, and the side at which texts are cut.
        side = truncation.get("direction")
        if static is not None:
            special = 0
            if static.style != "sentence-transformers":  # the others cut the end
                side = "right"
        else:
            try:
                file, settings = find_settings(folders, TOKENIZER_CONFIG)
                if isinstance(tokenizer, SentencePieceTokenizer):
                    ends = settings.get("add_bos_token"), settings.get("add_eos_token")
                    special = ends.count(True)
                side = settings.get("truncation_side", side)
                if side is not None and str(side).lower() not in ("left", "right"):
                    what = f"truncation_side is {side!r:.40}, wanted left or right"
                    raise InvalidFile(what, file=str(file))
            except VocabtoolError:
                if places is None:
                    raise
        cuts_start = str(side).lower() == "left"

        # The limit: of the caller, or of the first file that states one.
        if places is not None:
            if places <= special:
                added = plural(special, "special token", "special tokens")
                raise ValueError(
                    f"a limit of {places:,} is too low: the model adds {added} to every text, so "
                    f"the limit must be at least {special + 1:,}"
                )
            return cls(places, special, cuts_start, GIVEN)
        limit: Limit | None
        if static is not None and static.config is not None:
            _, most = encoder_files.read_model2vec(static.config)
            limit = None if most is None else (most, f"{CONFIG}: max_length")
        else:
            limit = _limit_in(folders) if static is None else None
            if limit is None:
                stated = {"truncation": truncation.get("max_length")}
                limit = _read_number(folders[0] / TOKENIZER, stated, "truncation")
        return None if limit is None else cls(limit[0], special, cuts_start, limit[1])


def _static_embedding(path: Path) -> EmbeddingFiles | None:
    """Return the files of the static embedding whose tokenizer, folder or tensors ``path`` is."""
    for folder in (path, *path.parents[:2]):
        with suppress(VocabtoolError):
            static = encoder_files.find_static(folder)
            if path in (static.tokenizer, static.tokenizer.parent, static.tensors):
                return static
    return None


def _limit_in(folders: Sequence[Path]) -> Limit | None:
    """Return the limit in the files of a transformer (1 and 2 at the top of this file)."""
    sequence = _read_number(*find_settings(folders, SENTENCES), "max_seq_length")
    if sequence is not None:
        return sequence
    file, config = find_settings(folders, CONFIG)
    unused = 0
    if config.get("model_type") in LIKE_ROBERTA:
        padding = config.get("pad_token_id")
        unused = 1 + (padding if json_file.is_id(padding) else PADDING)
    limits = [
        _read_number(*find_settings(folders, TOKENIZER_CONFIG), "model_max_length"),
        _read_number(file, config, "max_position_embeddings", unused),
    ]
    if "relative_attention_num_buckets" not in config:  # T5: n_positions is no limit
        limits.append(_read_number(file, config, "n_positions", unused))
    return min(filter(None, limits), default=None)


def _read_number(
    file: Path, settings: Mapping[str, Any], key: str, unused: int = 0
) -> Limit | None:
    """Return a limit less its ``unused`` positions; ``None`` if it is missing or too large."""
    value = settings.get(key)
    if value is None:
        return None
    if type(value) not in (int, float) or not value:
        shown = json_file.show(str(value))
        raise InvalidFile(f"{key} is {shown!r}, wanted a number of tokens", file=str(file))
    return (max(int(value) - unused, 1), f"{file.name}: {key}") if 1 <= value <= MOST else None


# Texts.


CutTotals = tuple[int, int, int]
"""The numbers of texts that are too long, of tokens that are cut off, and of all tokens."""


def cut_off(lookup: WordLookup, limit: TokenLimit) -> tuple[CutTotals, NDArray[np.bool_]]:
    """Return what a model cuts off, and which of the d distinct words it reads: shape (d,).

    A word is read if a text has all of it before the cut. ``lookup``: words and blanks.
    """
    ends = lookup.ends
    bounds = ends[lookup.offsets]
    cut = np.maximum(np.diff(bounds) - limit.tokens, 0)
    # For each word, the first token of its text that the model reads.
    start = np.repeat(bounds[:-1] + cut * limit.cuts_start, np.diff(lookup.offsets))
    is_whole = (ends[:-1] >= start) & (ends[1:] <= start + limit.tokens)
    is_read = np.zeros(len(lookup.distinct), np.bool_)
    is_read[lookup.codes[is_whole]] = True
    return (int(np.count_nonzero(cut)), int(cut.sum()), int(bounds[-1])), is_read


@dataclass(frozen=True, slots=True)
class CountTokens:
    """Counts the tokens of texts."""

    words: Words
    _cached: dict[bytes, int] = field(default_factory=dict, compare=False, repr=False)

    def __call__(self, texts: Sequence[str], /) -> list[int]:
        tokenizer, array = self.words.tokenizer, texts_array(texts)
        if isinstance(tokenizer, PieceTokenizer):
            tokenizer = tokenizer.tokenizer
        if not isinstance(tokenizer, HFWordTokenizer):
            return self._count(array)
        array_of_chunks, offsets = tokenizer.chunks_of(array)
        if len(array_of_chunks) == len(array):  # whole texts rarely repeat and would fill the cache
            return self._count(array)
        chunks, cached = as_bytes(array_of_chunks), self._cached
        if len(cached) > MAX_CACHED:
            cached.clear()
        new = [chunk for chunk in dict.fromkeys(chunks) if chunk not in cached]
        if new:
            cached.update(zip(new, self._count(texts_array(new)), strict=True))
        counts = np.fromiter(map(cached.__getitem__, chunks), np.int64, len(chunks))
        sums: list[int] = np.diff(starts_of(counts)[offsets]).tolist()
        return sums

    def _count(self, texts: pa.StringArray) -> list[int]:
        lookup = self.words.look_up(texts)
        counts: list[int] = np.diff(lookup.ends[lookup.offsets]).tolist()
        return counts


def cut_note(
    documents: int, tokens: int, most: int, *, unit: str = "piece", estimated: bool = False
) -> str:
    """Return a line that says what is cut off. ``unit``: the word for a token, in the singular."""
    longer = f"longer than the {plural(most, unit, f'{unit}s')} that the model reads"
    if not documents:
        return f"no document is {longer}"
    are = plural(documents, "document is", "documents are")
    lost = plural(tokens, f"{unit} is", f"{unit}s are")
    return f"{are} {longer}: {'about ' if estimated else ''}{lost} cut off"
