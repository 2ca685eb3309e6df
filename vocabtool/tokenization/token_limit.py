"""How many tokens of a text a model reads, and what it does not read of longer texts.

Of the files beside a tokenizer, the first that states a limit counts:

1. ``sentence_bert_config.json``: ``max_seq_length`` (huggingface/sentence-transformers,
   base/modules/transformer.py).
2. ``tokenizer_config.json``: ``model_max_length``, and ``config.json``: the number of positions;
   the smaller of both (the same file). transformers writes 1e30 if there is no limit. Models like
   RoBERTa number positions from ``pad_token_id + 1``: of 514 positions, they use 512
   (``create_position_ids_from_input_ids`` in huggingface/transformers, modeling_roberta.py).
3. ``tokenizer.json``: ``truncation``.

Static embeddings read as many tokens as ``encoders/model2vec.py`` says, and add none.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError, reading
from vocabtool.formats import json_file, static_embedding
from vocabtool.formats.saved_model import graph_files
from vocabtool.formats.static_embedding import (
    EmbeddingFiles,
    first_file,
    read_settings,
    settings_folders,
)
from vocabtool.system.messages import plural
from vocabtool.tokenization.lookup import PieceTokenizer, WordLookup
from vocabtool.tokenization.sentencepiece import SentencePieceTokenizer
from vocabtool.tokenization.text_arrays import Integers, starts_of
from vocabtool.tokenization.words import Words

SENTENCES: Final = "sentence_bert_config.json"
TOKENIZER: Final = "tokenizer_config.json"
MODEL: Final = "config.json"
TRUNCATION: Final = "tokenizer.json: truncation"
GIVEN: Final = "--limit"
MOST: Final = 10**9  # a larger number means that there is no limit
# ``model_type`` of the models whose positions begin at pad_token_id + 1.
LIKE_ROBERTA: Final = (
    *("roberta", "xlm-roberta", "xlm-roberta-xl", "roberta-prelayernorm", "camembert", "xmod"),
    *("mpnet", "longformer", "esm", "ibert", "data2vec-text", "layoutlmv3", "lilt", "luke"),
    "markuplm",
)
PADDING: Final = 1  # pad_token_id of these models, if the file does not state it


@dataclass(frozen=True, slots=True)
class TokenLimit:
    """How many tokens of a text a model reads.

    - ``places``: The number of tokens that the model takes at most.
    - ``special``: How many of these the model adds to every text, such as ``[CLS]``.
    - ``cuts_start``: Whether the start of a longer text is cut off, not its end.
    - ``source``: Where the limit is stated: the file and the name of the setting.
    """

    places: int
    special: int = 0
    cuts_start: bool = False
    source: str = ""

    @property
    def tokens(self) -> int:
        """The number of tokens of a text that are read, special tokens excluded."""
        return max(self.places - self.special, 0)

    @classmethod
    def of(cls, model: str | Path, words: Words, places: int | None = None) -> TokenLimit | None:
        """Return the limit of a model; ``None`` if its files state none.

        ``words``: the words of the model. ``places``: a limit that counts instead of the stated
        one. Raises :class:`VocabtoolError` for a file of settings that is damaged, and for a
        setting that is not a number.
        """
        from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer

        tokenizer = words.tokenizer
        if isinstance(tokenizer, PieceTokenizer):
            tokenizer = tokenizer.tokenizer
        if not isinstance(tokenizer, HFWordTokenizer | SentencePieceTokenizer):  # whole words
            return None if places is None else cls(places, source=GIVEN)
        path = graph_files.path_of(model)
        special, truncation = 0, {}
        if isinstance(tokenizer, HFWordTokenizer):
            special, truncation = tokenizer.special_tokens, tokenizer.truncation
        static = _static_embedding(path)
        if static is not None:
            found = (places, GIVEN) if places is not None else _of_static(static, truncation)
            return None if found[0] is None else cls(found[0], source=found[1])
        folders = settings_folders(path if path.is_dir() else path.parent)
        settings: dict[str, Any] = {}
        try:
            settings = _settings(first_file(folders, TOKENIZER))
            found = (
                (places, GIVEN) if places is not None else _limit_in(folders, settings, truncation)
            )
        except VocabtoolError:
            if places is None:
                raise
            found = places, GIVEN
        if not isinstance(tokenizer, HFWordTokenizer):
            ends = settings.get("add_bos_token"), settings.get("add_eos_token")
            special = sum(each is True for each in ends)
        side = settings.get("truncation_side") or truncation.get("direction")
        cuts_start = str(side).lower() == "left"
        return None if found[0] is None else cls(found[0], special, cuts_start, found[1])


def _static_embedding(path: Path) -> EmbeddingFiles | None:
    """Return the files of the static embedding that a path belongs to; ``None`` if to none."""
    for folder in (path, *path.parents[:2]):
        with suppress(VocabtoolError):
            found = static_embedding.find(folder)
            if path in (found.tokenizer, found.tokenizer.parent, found.tensors):
                return found
    return None


def _of_static(files: EmbeddingFiles, truncation: Mapping[str, Any]) -> tuple[int | None, str]:
    """Return the limit of a static embedding, and where it is stated."""
    if files.config is not None:
        return static_embedding.read_model2vec(files.config)[1], f"{MODEL}: max_length"
    limit = _number(truncation, "max_length") if files.style == "sentence-transformers" else None
    return limit, TRUNCATION


def _limit_in(
    folders: tuple[Path, ...], settings: Mapping[str, Any], truncation: Mapping[str, Any]
) -> tuple[int | None, str]:
    """Return the limit that the files in some folders state, and where.

    ``settings``: tokenizer_config.json. ``truncation``: as in tokenizer.json.
    """
    sentences, model = (first_file(folders, name) for name in (SENTENCES, MODEL))
    with reading(str(sentences)):
        places = _number(_settings(sentences), "max_seq_length")
    if places is not None:
        return places, f"{SENTENCES}: max_seq_length"
    found: list[tuple[int, str]] = []
    with reading(str(first_file(folders, TOKENIZER))):
        if (places := _number(settings, "model_max_length")) is not None:
            found.append((places, f"{TOKENIZER}: model_max_length"))
    with reading(str(model)):
        config = _settings(model)
        relative = "relative_attention_num_buckets" in config  # T5: n_positions is no limit
        for key in ("max_position_embeddings", *["n_positions"] * (not relative)):
            if (places := _number(config, key)) is not None:
                if config.get("model_type") in LIKE_ROBERTA:
                    padding = config.get("pad_token_id")
                    places -= 1 + (padding if json_file.is_id(padding) else PADDING)
                found.append((max(places, 1), f"{MODEL}: {key}"))
    with reading(str(first_file(folders, "tokenizer.json"))):
        places = _number(truncation, "max_length")
    return min(found, default=(places, TRUNCATION))


def _settings(file: Path) -> dict[str, Any]:
    """Return the object of a JSON file; empty if the file is missing."""
    return read_settings(file, dict) if file.is_file() else {}


def _number(settings: Mapping[str, Any], key: str) -> int | None:
    """Return a number of tokens; ``None`` if it is missing, or so large that it means no limit."""
    value = settings.get(key)
    if value is None:
        return None
    if type(value) not in (int, float):
        shown = json_file.show(str(value))
        raise InvalidFile(f"{key} is {shown!r}, wanted a number of tokens (oov takes --limit N)")
    return int(value) if 1 <= value <= MOST else None


# Texts.


class CutTexts(NamedTuple):
    """What is cut off of some texts.

    ``texts``: number of texts that are too long; ``tokens``: number of their tokens that are cut
    off; ``all_tokens``: number of tokens of all texts. ``read``: bool, shape (d,), which of d
    distinct words are read at least once, with all their tokens.
    """

    texts: int
    tokens: int
    all_tokens: int
    read: NDArray[np.bool_]


def cut_off(found: WordLookup, limit: TokenLimit) -> CutTexts:
    """Count what is cut off of texts, from all their words, blanks included."""
    ends, bounds, cut = _tokens(found, limit.tokens)
    read = np.ones(len(found.distinct), np.bool_)
    if cut.any():
        lengths = np.diff(found.offsets)
        first = bounds[:-1] + cut * limit.cuts_start
        whole = ends[:-1] >= np.repeat(first, lengths)
        whole &= ends[1:] <= np.repeat(first + limit.tokens, lengths)
        read[:] = False
        read[found.codes[whole]] = True
    return CutTexts(int(np.count_nonzero(cut)), int(cut.sum()), int(bounds[-1]), read)


def count_cut(found: WordLookup, most: int | None) -> tuple[int, int]:
    """Return how many texts have more than ``most`` tokens, and how many tokens are cut off."""
    if most is None:
        return 0, 0
    cut = _tokens(found, most)[2]
    return int(np.count_nonzero(cut)), int(cut.sum())


def _tokens(found: WordLookup, most: int) -> tuple[Integers, Integers, Integers]:
    """Return how many tokens precede each of m words and n texts, and how many a text has too many.

    The last item of the first two counts all tokens. Shapes (m + 1,), (n + 1,) and (n,).
    """
    ends = np.arange(len(found.codes) + 1)
    if found.pieces is not None:
        ends = starts_of(found.pieces[found.codes])
    bounds = ends[found.offsets]
    return ends, bounds, np.maximum(np.diff(bounds) - most, 0)


def cut_note(documents: int, tokens: int, most: int, *, estimated: bool = False) -> str:
    """Describe in a line what is cut off.

    ``most``: how many tokens of a text are read. ``estimated``: whether ``tokens`` is estimated.
    """
    if not documents:
        return f"no document is longer than the {most:,} tokens that the model reads"
    are = plural(documents, "document is", "documents are")
    cut, about = plural(tokens, "token is", "tokens are"), "about " * estimated
    return f"{are} longer than the {most:,} tokens that the model reads: {about}{cut} cut off"
