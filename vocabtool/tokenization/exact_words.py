"""Known and unknown words as the running model tells them: what the tap saw, judged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING

import numpy as np

from vocabtool.tokenization.instrumented_model import InstrumentedModel
from vocabtool.tokenization.lookup import TableLexicon, WordLookup, look_up_tokens
from vocabtool.tokenization.lookup_paths import LookupPath
from vocabtool.tokenization.op_traces import Integers, OpTrace, Pieces
from vocabtool.tokenization.rule import encoded
from vocabtool.tokenization.sentencepiece_judge import judged_words
from vocabtool.tokenization.sentencepieces import Piece, SentencePieces, Word, grouped, readable
from vocabtool.tokenization.subwords import sentencepieces_of
from vocabtool.tokenization.tap_words import by_word
from vocabtool.tokenization.text_arrays import Cut, as_bytes
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa


class ExactTokenizer:
    """What a running model looks up in one vocabulary."""

    def __init__(
        self,
        tap: InstrumentedModel,
        vocabulary: Vocabulary,
        sites: frozenset[tuple[bytes, bytes]],
        model: bytes,
        tokenizer: SentencePieces | None = None,
    ) -> None:
        self._tap = tap
        self._vocabulary = vocabulary
        self._sites = sites
        self._model = model
        self._tokenizer = tokenizer
        self._lexicon = TableLexicon(vocabulary)

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Run the model on the texts; what it looked up, known and unknown."""
        return self.look_up_traces(self._tap.run(as_bytes(texts)))

    def look_up_traces(self, tapped: Sequence[OpTrace]) -> WordLookup:
        """The same of what the tap has told already."""
        own = [each for each in tapped if (each.op.function, each.op.node) in self._sites]
        first = own[0]
        if first.pieces is None:
            return look_up_tokens(encoded(_side_by_side([each.cut for each in own])), self._lexicon)
        if self._vocabulary.kind == "sentencepiece":
            return self._by_sentencepieces(first, first.pieces)
        return _by_pieces(by_word(first), self._vocabulary)

    def _by_sentencepieces(self, tapped: OpTrace, pieces: Pieces) -> WordLookup:
        """The op tells ids only: the tokenizer spells them out where it gives the same ones."""
        told = tapped.ids if tapped.ids is not None else _ids(pieces, self._vocabulary)
        if self._tokenizer is None:
            return _spelled_by_entries(tapped, pieces, told, self._vocabulary)
        texts = as_bytes(tapped.cut.values)
        same = [i for text in self._tokenizer.pieces(texts) for _, i in text] == told.tolist()
        if not same:
            return _spelled_by_entries(tapped, pieces, told, self._vocabulary)
        words = self._tokenizer.words(texts)
        bounds = np.array([0, *accumulate(map(len, words))], np.int64)
        flat = chain.from_iterable(words)
        unknown = self._tokenizer.unknown_id
        return judged_words(flat, bounds[tapped.cut.offsets], self._vocabulary, unknown)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """Not told: the model would have to be run on the word alone."""
        return ()

    def describe(self) -> tuple[str, ...]:
        """That nothing is described."""
        return (f"the model itself is run ({self._tap.entry}), and reports what it looks up",)

    @property
    def fingerprint(self) -> str:
        """Of the model's graph, in which all that cuts texts stands, and of the vocabulary."""
        told = f"vocabtool tap 1\n{self._vocabulary.fingerprint}\n{self._tap.entry}\n"
        return hashlib.sha256(told.encode() + self._model).hexdigest()


def tap_judge(tap: InstrumentedModel, same: Sequence[LookupPath], model: bytes) -> ExactTokenizer:
    """The ops that look words up in one vocabulary, tapped.

    ``model``: a digest of the graph's file.
    """
    tokenizer = None
    if same[0].sites[0].kind == "sentencepiece":
        tokenizer = sentencepieces_of(same[0])
    sites = frozenset[tuple[bytes, bytes]]().union(*(_live_sites(tap, way) for way in same))
    return ExactTokenizer(tap, same[0].vocabulary, sites, model, tokenizer)


def judges(
    tap: InstrumentedModel, live: Sequence[LookupPath], model: bytes
) -> dict[str, ExactTokenizer]:
    """A judge for each vocabulary that words are looked up in, by its name.

    ``live``: the lookups that :func:`is_live`; ``model``: a digest of the graph's file.
    """
    by_name: dict[str, list[LookupPath]] = {}
    for way in live:
        by_name.setdefault(way.vocabulary.name, []).append(way)
    return {name: tap_judge(tap, same, model) for name, same in by_name.items()}


def _side_by_side(cuts: Sequence[Cut]) -> Cut:
    """What several ops saw of the same texts, text by text, one op's words behind the other's."""
    if len(cuts) == 1:
        return cuts[0]
    import pyarrow as pa

    texts = [np.repeat(np.arange(len(cut.offsets) - 1), np.diff(cut.offsets)) for cut in cuts]
    order = np.argsort(np.concatenate(texts), kind="stable")
    values = pa.concat_arrays([cut.values for cut in cuts]).take(pa.array(order))
    return Cut(values, sum((cut.offsets for cut in cuts[1:]), cuts[0].offsets))


def is_live(tap: InstrumentedModel, reading: LookupPath) -> bool:
    """Whether the function that texts are given to reaches the lookup."""
    return bool(_live_sites(tap, reading))


def _live_sites(tap: InstrumentedModel, reading: LookupPath) -> frozenset[tuple[bytes, bytes]]:
    sites = {(site.body.name, site.node.name) for site in reading.sites}
    return frozenset(sites & {(op.function, op.node) for op in tap.ops if op.live})


def _by_pieces(tapped: OpTrace, vocabulary: Vocabulary) -> WordLookup:
    """Words of which the model made pieces: unknown where one piece is the unknown one."""
    pieces = tapped.pieces or Pieces(np.zeros(len(tapped.cut.values) + 1, np.int64))
    coded = encoded(tapped.cut)
    first = np.full(len(coded.distinct), len(coded.codes), np.int64)
    np.minimum.at(first, coded.codes, np.arange(len(coded.codes)))
    counts = np.diff(pieces.offsets)[first]
    starts = pieces.offsets[:-1][first]
    ids = tapped.ids if tapped.ids is not None else _ids(pieces, vocabulary)
    unknown = vocabulary.unknown.id if vocabulary.unknown is not None else -1
    before = np.concatenate(([0], np.cumsum(ids == unknown)))
    known = before[starts + counts] == before[starts]
    single = np.where(counts == 1, ids[np.minimum(starts, len(ids) - 1)] if len(ids) else -1, -1)
    places = {int(i): at for at, i in enumerate(vocabulary.id_array().tolist())}
    positions = np.array([places.get(i, -1) for i in single.tolist()], np.int64)
    return WordLookup(
        coded.codes,
        coded.offsets,
        coded.distinct,
        known,
        single,
        positions,
        counts.astype(np.int32),
    )


def _spelled_by_entries(
    tapped: OpTrace, pieces: Pieces, told_ids: Integers, vocabulary: Vocabulary
) -> WordLookup:
    """Words as pieces make them up; an unknown piece, told by its id, is spelled as such."""
    entries = dict(zip(vocabulary.id_array().tolist(), vocabulary.stored, strict=True))
    ids = told_ids.tolist()
    spelled = as_bytes(pieces.values) if pieces.values is not None else map(entries.get, ids)
    told = [(piece or b"", i) for piece, i in zip(spelled, ids, strict=True)]
    unknown = vocabulary.unknown.id if vocabulary.unknown is not None else -1
    words = [
        [_word(word, unknown) for word in grouped(tuple(told[start:end])) if word]
        for start, end in pairwise(pieces.offsets.tolist())
    ]
    bounds = np.array([0, *accumulate(map(len, words))], np.int64)
    flat = chain.from_iterable(words)
    return judged_words(flat, bounds[tapped.cut.offsets], vocabulary, unknown)


def _word(pieces: tuple[Piece, ...], unknown: int) -> Word:
    text = readable(b"".join(piece for piece, _ in pieces))
    return Word(text, pieces, all(i != unknown for _, i in pieces))


def _ids(pieces: Pieces, vocabulary: Vocabulary) -> Integers:
    """The ids of pieces that an op tells only as strings."""
    ids = vocabulary.id_array()
    values = as_bytes(pieces.values) if pieces.values is not None else []
    held = [vocabulary.positions.get(value, -1) for value in values]
    return np.array([int(ids[at]) if at >= 0 else -1 for at in held], np.int64)
