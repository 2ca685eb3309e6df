"""The ``tokenizers`` library as a cutter: texts into what its model is given, that into pieces.

Both halves of a tokenizer are asked apart, so that equal strings need not be cut twice. The first
half is a tokenizer without its model: in its place stands a model that knows nothing, and so
spells out whatever it is given (a Unigram of one piece: what it does not know stays one token, as
it is). The second half is the model alone. Neither truncates, pads or adds tokens to a text, and
as ``encode`` is asked for many strings at once, not ``encode_batch``, no threads are started of
which a process that forks later would be warned.

Words are what ``hf_tokenizer_judge.py`` makes of this, the steps in plain words are in
``hf_tokenizer_steps.py``. The file is only parsed; nothing in it is executed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError
from vocabtool.tokenization.hf_tokenizer_steps import Json, list_of_parts

MOST_GROWTH: Final = 64  # times as long as a text its replacements may make it
MOST_BEFORE: Final = 1024  # bytes that they may put before it
PANIC: Final = "PanicException"  # of pyo3: no subclass of Exception, and never to be imported


class AddedWord(NamedTuple):
    """A token that was added to the model, where it stands in a text."""

    content: str
    id: int


PreToken = str | AddedWord


class Cuts(NamedTuple):
    """The pieces of ``n`` strings, m altogether.

    ``ids``: int64, shape (m,). ``offsets``: int64, shape (n + 1,); the pieces of string ``i`` are
    ``pieces[offsets[i]:offsets[i + 1]]``. ``starts``: where in its string each piece begins, in
    characters; asked for by :meth:`HFTokenizer.pieces` only.
    """

    pieces: list[str]
    ids: NDArray[np.int64]
    offsets: NDArray[np.int64]
    starts: list[int]


class HFTokenizer:
    """A ``tokenizer.json``. ``data``: the file; ``document``: the same, parsed.

    Raises :class:`VocabtoolError` for a tokenizer that draws lots, :class:`InvalidFile` with the
    library's own words for what it refuses.
    """

    def __init__(self, data: bytes, document: Json) -> None:
        from tokenizers import Tokenizer, models

        _refuse_growth(document)
        with refused("the tokenizers library refuses the file"):
            full = Tokenizer.from_buffer(data)
            self._model: Any = Tokenizer(full.model)
            added = sorted(full.get_added_tokens_decoder().items())
            self.added = {token.content: number for number, token in added}
            piece = next(c for c in map(chr, count(1)) if c not in self.added)
            self._speller: Any = Tokenizer(models.Unigram([(piece, 0.0)], 0))
            if full.normalizer is not None:
                self._speller.normalizer = full.normalizer
            if full.pre_tokenizer is not None:
                self._speller.pre_tokenizer = full.pre_tokenizer
            self._speller.add_tokens([token for _, token in added])
        self.model_type = type(full.model).__name__
        dropout = getattr(full.model, "dropout", None)
        if dropout:
            raise VocabtoolError(
                f"the tokenizer leaves out merges by lot (dropout {dropout:g}): its words differ "
                "from run to run. Set model.dropout to null in the file"
            )
        name = getattr(full.model, "unk_token", None)
        unknown = document["model"].get("unk_id") if name is None else full.model.token_to_id(name)
        self.unknown_token: str | None = name
        self.unknown_id: int = -1 if unknown is None else unknown

    def pre_tokens(self, texts: Sequence[str]) -> tuple[list[PreToken], NDArray[np.int64]]:
        """What the model is given of each text, normalised, and added tokens where they stand.

        Returns all of them, and offsets of shape (len(texts) + 1,).
        """
        with refused("the tokenizers library fails on a text"):
            found = self._speller.encode(texts, is_pretokenized=True, add_special_tokens=False)
        spelled: list[PreToken] = found.tokens
        ids = np.array(found.ids, np.int64)
        for at in np.flatnonzero(ids).tolist():
            content = self._speller.id_to_token(int(ids[at]))
            spelled[at] = AddedWord(content, self.added[content])
        return spelled, _offsets(found.word_ids, len(texts))

    def without_blanks(self, texts: Collection[str]) -> bool:
        """Whether no text holds white space, neither as it is nor normalised."""
        normalizer = self._speller.normalizer
        with refused("the tokenizers library fails on a text"):
            normalised = () if normalizer is None else map(normalizer.normalize_str, texts)
            return not any(c.isspace() for text in (*texts, *normalised) for c in text)

    def pieces(self, strings: Sequence[str], *, starts: bool = False) -> Cuts:
        """The model's pieces of each; none where it refuses one: it has no unknown token."""
        options = {"is_pretokenized": True, "add_special_tokens": False}
        try:
            with refused("the tokenizers library fails on a word"):
                found = self._model.encode(strings, **options)
        except VocabtoolError:
            if len(strings) > 1:
                return _joined([self.pieces([string], starts=starts) for string in strings])
            return Cuts([], np.zeros(0, np.int64), np.zeros(len(strings) + 1, np.int64), [])
        return Cuts(
            found.tokens,
            np.array(found.ids, np.int64),
            _offsets(found.word_ids, len(strings)),
            [start for start, _ in found.offsets] if starts else [],
        )


@contextmanager
def refused(what: str) -> Iterator[None]:
    """Say as :class:`InvalidFile` what the library raises, be it a panic of its Rust code."""
    try:
        yield
    except VocabtoolError:
        raise
    except Exception as error:  # the library raises plain Exception
        raise InvalidFile(f"{what}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != PANIC:
            raise
        raise InvalidFile(f"{what}: {error}") from error


def _refuse_growth(document: Json) -> None:
    """Raise :class:`InvalidFile` where replacements, one on the other, may blow a text up."""
    growth, before = 1, 0
    for part in list_of_parts(document):
        before += _bytes_in(part.get("prepend"))  # told by key: older files give no types
        if "content" in part:
            pattern = part.get("pattern")  # a regular one may match nothing, between characters
            regular = isinstance(pattern, dict) and "Regex" in pattern
            growth *= max(1, _bytes_in(part["content"]) + regular)
    if growth > MOST_GROWTH or before > MOST_BEFORE:
        raise InvalidFile(
            f"its normalizer may make a text {growth:,} times as long and put {before:,} bytes "
            f"before it, wanted at most {MOST_GROWTH} and {MOST_BEFORE:,}: no tokenizer that is "
            "meant well does that"
        )


def _bytes_in(text: object) -> int:
    return len(text.encode("utf-8", "replace")) if isinstance(text, str) else 0


def _offsets(numbers: list[int], count: int) -> NDArray[np.int64]:
    """Where each of ``count`` strings begins; ``numbers``: which string each token is of."""
    lengths = np.bincount(np.array(numbers, np.int64), minlength=count)
    return np.append(0, np.cumsum(lengths)).astype(np.int64)


def _joined(cuts: Sequence[Cuts]) -> Cuts:
    """The pieces of strings that were cut one by one."""
    lengths = [len(cut.pieces) for cut in cuts]
    return Cuts(
        [piece for cut in cuts for piece in cut.pieces],
        np.concatenate([cut.ids for cut in cuts]),
        np.append(0, np.cumsum(lengths)).astype(np.int64),
        [start for cut in cuts for start in cut.starts],
    )
