"""Known and unknown words as the running model tells them, of what its ops saw."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.tokenization.infer_rule import LookupPath
from vocabtool.tokenization.instrumented_model import InstrumentedModel
from vocabtool.tokenization.lookup import (
    RuleTokenizer,
    SpelledWord,
    WordLookup,
    look_up_spelled,
)
from vocabtool.tokenization.op_traces import OpTrace, Pieces
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.sentencepiece import (
    SentencePieces,
    group_by_word,
    readable_word,
)
from vocabtool.tokenization.text_arrays import (
    TokenCodes,
    Tokens,
    as_bytes,
    starts_of,
    string_array,
)

FAST_WORDPIECE: Final = "FastWordpieceTokenizeWithOffsets"
SUFFIX: Final = b"##"


class ExactTokenizer:
    """What a running model looks up in one vocabulary.

    ``paths``: its lookups there, which the model reaches; ``graph``: a digest of the graph's file.
    """

    def __init__(self, model: InstrumentedModel, paths: Sequence[LookupPath], graph: bytes) -> None:
        self._model = model
        self._vocabulary = paths[0].vocabulary
        self._places = frozenset[tuple[bytes, bytes]]().union(*(path.places for path in paths))
        self._graph = graph
        self._sentencepieces: SentencePieces | None = None
        if paths[0].sites[0].kind == "sentencepiece":
            self._sentencepieces = paths[0].sentencepieces()
        self._whole_words = RuleTokenizer(Rule(()), self._vocabulary)

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Run the model on the texts; what it looked up, known and unknown."""
        return self.look_up_traces(self._model.run(as_bytes(texts)))

    def look_up_traces(self, traces: Sequence[OpTrace]) -> WordLookup:
        """The same of a run that was made already."""
        own = [each for each in traces if (each.op.function, each.op.node) in self._places]
        first = own[0]
        if first.pieces is None:
            tokens = first.tokens
            if len(own) > 1:  # text by text, one op's words behind the other's
                parts = [each.tokens for each in own]
                lengths = [np.diff(part.offsets) for part in parts]
                texts = np.concatenate([np.repeat(np.arange(len(each)), each) for each in lengths])
                values = pa.concat_arrays([part.values for part in parts])
                order = pa.array(np.argsort(texts, kind="stable"))
                tokens = Tokens(values.take(order), starts_of(np.sum(lengths, axis=0)))
            return self._whole_words.look_up_words(TokenCodes.encode(tokens))
        trace, pieces = trace_by_word(first, first.pieces)
        words, unknown = self._spell(trace, pieces)
        offsets = starts_of(list(map(len, words)))[trace.tokens.offsets]
        return look_up_spelled(chain.from_iterable(words), offsets, self._vocabulary, unknown)

    def _spell(self, trace: OpTrace, pieces: Pieces) -> tuple[Sequence[Sequence[SpelledWord]], int]:
        """The words of each string, and the id of the unknown piece."""
        strings, vocabulary = as_bytes(trace.tokens.values), self._vocabulary
        unknown = vocabulary.unknown.id if vocabulary.unknown is not None else -1
        values = as_bytes(pieces.values) if pieces.values is not None else None
        if pieces.ids is not None:
            ids: list[int] = pieces.ids.tolist()
        else:
            known = dict(zip(vocabulary.stored, vocabulary.id_array().tolist(), strict=True))
            ids = [known.get(value, unknown) for value in values or ()]
        model = self._sentencepieces
        # Where the op's own tokenizer gives the same ids, it tells bytes and unknown pieces too.
        if model is not None and ids == [i for text in model.pieces(strings) for _, i in text]:
            return model.words(strings), model.unknown_id
        if values is None:
            entries = dict(zip(vocabulary.id_array().tolist(), vocabulary.stored, strict=True))
            values = [entries.get(number, b"") for number in ids]
        numbered = list(zip(values, ids, strict=True))
        words: list[list[SpelledWord]] = []
        bounds = pairwise(pieces.offsets.tolist())
        for string, (start, end) in zip(strings, bounds, strict=True):
            cut = tuple(numbered[start:end])
            each = [(string, cut)]
            if vocabulary.kind == "sentencepiece":  # the pieces spell the words
                own = [word for word in group_by_word(cut) if word]
                each = [(readable_word(b"".join(piece for piece, _ in w)), w) for w in own]
            words.append(
                [SpelledWord(t, w, all(number != unknown for _, number in w)) for t, w in each]
            )
        return words, unknown

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """Not told: the model would have to be run on the word alone."""
        return ()

    def describe(self) -> tuple[str, ...]:
        """That nothing is described."""
        entry = self._model.entry.name
        return (f"the model itself is run ({entry}), and reports what it looks up",)

    @property
    def fingerprint(self) -> str:
        """Of the model's graph, in which all that cuts texts stands, and of the vocabulary."""
        entry = self._model.entry.name
        facts = f"vocabtool tap 1\n{self._vocabulary.fingerprint}\n{entry}\n"
        return hashlib.sha256(facts.encode() + self._graph).hexdigest()


def exact_tokenizers(
    model: InstrumentedModel, paths: Sequence[LookupPath], graph: bytes
) -> dict[str, ExactTokenizer]:
    """A tokenizer for each vocabulary that words are looked up in, by its name.

    ``paths``: the lookups that the model :func:`reaches`; ``graph``: a digest of its file.
    """
    by_name: dict[str, list[LookupPath]] = {}
    for path in paths:
        by_name.setdefault(path.vocabulary.name, []).append(path)
    return {name: ExactTokenizer(model, same, graph) for name, same in by_name.items()}


def reaches(model: InstrumentedModel, path: LookupPath) -> bool:
    """Whether the function that texts are given to reaches the lookup."""
    return any(op.live and (op.function, op.node) in path.places for op in model.ops)


def trace_by_word(trace: OpTrace, pieces: Pieces) -> tuple[OpTrace, Pieces]:
    """The same with one string for each word, of an op that takes texts and cuts words itself.

    A piece goes on with a word where it begins with ``##`` and where the piece before it ends.
    A word is what stands there in the op's string, which is the text normalised. Strings without
    pieces are gone. What another op told is given back as it is.
    """
    values, begins, ends = pieces.values, pieces.starts, pieces.ends
    if trace.op.op != FAST_WORDPIECE or values is None or begins is None or ends is None:
        return trace, pieces
    string_of = np.repeat(np.arange(len(trace.tokens.values)), np.diff(pieces.offsets))
    first = ~np.array(pc.starts_with(values.view(pa.binary()), SUFFIX), np.bool_)
    first[:1] = True
    first[1:] |= (begins[1:] != ends[:-1]) | (string_of[1:] != string_of[:-1])
    starts = np.append(np.flatnonzero(first), len(first)).astype(np.int64)
    texts = as_bytes(trace.tokens.values)
    places = zip(string_of[starts[:-1]], begins[starts[:-1]], ends[starts[1:] - 1], strict=True)
    words = string_array(texts[at][start:end] for at, start, end in places)
    offsets = starts_of(first)[pieces.offsets][trace.tokens.offsets]
    inside = begins[starts[:-1]].repeat(np.diff(starts))
    moved = Pieces(starts, values, pieces.ids, begins - inside, ends - inside)
    return trace._replace(tokens=Tokens(words, offsets), pieces=moved), moved
