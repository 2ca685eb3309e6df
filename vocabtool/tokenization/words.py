"""The words of texts as one model makes them, and which of them it knows: the public ``Words``.

Either by the rule recovered from its graph, or by one that the caller names, or by running the
model (``exact``). Counting over a corpus is in ``oov/``, rewriting lines in ``mask.py``.

Most of what reads models is imported where one is read: an index, which has its words in a file of
their own, opens sooner without.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from vocabtool.choices import RULE_NAMES
from vocabtool.errors import NotFound, VocabtoolError
from vocabtool.formats import sentencepiece
from vocabtool.formats.reader import HEAD
from vocabtool.formats.saved_model import graph_files
from vocabtool.system.parallel import pipe_rows
from vocabtool.tokenization.lookup import (
    PieceTokenizer,
    RuleTokenizer,
    Tokenizer,
    WordLookup,
    keras_tokenizer_for,
)
from vocabtool.tokenization.rule import Rule, parse_rule, tokenizer_file
from vocabtool.tokenization.sentencepiece import SentencePieces, SentencePieceTokenizer
from vocabtool.tokenization.text_arrays import as_bytes, texts_array
from vocabtool.vocabulary import Kind, Vocabulary, decode, encode, guess_marker

if TYPE_CHECKING:
    from vocabtool.tokenization.instrumented_model import InstrumentedModel

NAME_RULE = f"Name a rule (--rule, in Python rule=): {', '.join(RULE_NAMES)}"
LIST = f"a list of words does not say how a text is cut into words, and cannot be run. {NAME_RULE}"
NAME_TOKENIZER = (
    "Name the tokenizer that makes them, a tokenizer.json or a SentencePiece .model: "
    "--rule tokenizer:FILE, in Python rule='tokenizer:FILE'"
)
SUBWORDS: Final[frozenset[Kind]] = frozenset(("sentencepiece", "wordpiece", "bpe", "unigram"))
MIN_SHARED_PIECES = 0.9  # control pieces need not be among a model's entries
How = Literal["recovered", "named", "exact"]


class Word(NamedTuple):
    """A word of a text: as it is looked up, and what came of that.

    ``id``: ``None`` where a hash bucket decides. ``pieces``: how many, of models of subwords.
    """

    word: bytes
    id: int | None
    known: bool
    pieces: int | None


@dataclass(frozen=True)
class Words:
    """How one model cuts texts, and which words it knows.

    ``vocabulary``: where it looks them up. ``how``: whether the way from text to words was read
    off the graph, named by the caller, or is the running model itself.
    ``others``: the model's other lookups of the same text (of n-grams, say), each by itself.
    ``notes``: what a person should know of these words.
    """

    vocabulary: Vocabulary
    how: How
    tokenizer: Tokenizer
    others: tuple[Words, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        model: str | Path | Vocabulary,
        *,
        name: str | None = None,
        rule: str | None = None,
        exact: bool = False,
        trust: bool = False,
    ) -> Words:
        """The words of a model, or of a mere vocabulary: itself, or any file that holds one.

        ``name``: the vocabulary, as ``inspect`` prints it; without, the largest that words are
        looked up in. ``rule``: how texts become words, where no model says: whitespace, lower,
        keras, ptb, regex:PATTERN or tokenizer:FILE.
        ``exact``: run the model itself, which needs TensorFlow; ``trust``: even where it holds ops
        that read files, use the network or run Python.
        Raises :class:`VocabtoolError` where the way to the words is not understood.
        """
        if exact and rule is not None:
            raise VocabtoolError("exact words are the model's own: name no rule")
        if rule is not None:
            vocabulary = model
            if not isinstance(vocabulary, Vocabulary):
                from vocabtool.formats.registry import extract

                vocabulary = extract(vocabulary, name)
            file = tokenizer_file(rule)
            if file is not None:
                words = tokenizer_of(file)
                check_pieces(words, file, vocabulary)
                return cls(vocabulary, "named", PieceTokenizer(words.tokenizer, vocabulary))
            steps = Rule(parse_rule(rule))
            marker = vocabulary.marker or guess_marker(vocabulary.stored)
            if marker is not None or vocabulary.kind in SUBWORDS:
                how = f"many are marked with {marker!r}" if marker else f"of {vocabulary.kind}"
                raise VocabtoolError(
                    f"{vocabulary.name}: its entries are pieces of words ({how}), among which a "
                    f"rule of whole words would find few. {NAME_TOKENIZER}"
                )
            return cls(vocabulary, "named", RuleTokenizer(steps, vocabulary))
        if isinstance(model, Vocabulary):
            raise VocabtoolError(f"{model.name}: {LIST}")
        from vocabtool.formats import registry

        if exact:
            if not registry.has_graphs(model):
                raise VocabtoolError(
                    f"{model}: it holds words, and no graph that could be run. {NAME_RULE}"
                )
            from vocabtool.tokenization.instrumented_model import InstrumentedModel

            return exact_words(InstrumentedModel.load(model, trust=trust), model, name)
        if not registry.has_graphs(model):
            return _from_file(model, name)
        return _from_graph(model, name)

    def look_up(self, texts: pa.Array | Iterable[str | bytes]) -> WordLookup:
        """The words of many texts as arrays, known and unknown."""
        return self.tokenizer.look_up(texts_array(texts))

    def judge(self, texts: pa.Array | Iterable[str | bytes]) -> WordLookup:
        """The old name of :meth:`look_up`."""
        warnings.warn("Words.judge is now called look_up", DeprecationWarning, stacklevel=2)
        return self.look_up(texts)

    def split(self, texts: pa.Array | Iterable[str | bytes]) -> pa.ListArray:
        """The words of each text: an Arrow list of structs ``word``, ``id``, ``known``, ``pieces``.

        ``word``: binary, as it is looked up; ``id``: int64, null where a hash bucket decides;
        ``pieces``: int32, null but for models of subwords.
        """
        judged = self.look_up(texts)
        ids = pa.array(judged.ids, mask=judged.ids < 0)
        pieces = pa.nulls(len(judged.known), pa.int32())
        if judged.pieces is not None:
            pieces = pa.array(judged.pieces, pa.int32())
        distinct = pa.StructArray.from_arrays(
            [judged.distinct.view(pa.binary()), ids, pa.array(judged.known), pieces],
            names=["word", "id", "known", "pieces"],
        )
        offsets = pa.array(judged.offsets.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, distinct.take(pa.array(judged.codes)))

    def pipe(
        self, texts: Iterable[str | bytes], *, batch_size: int = 256, workers: int = 1
    ) -> Iterator[tuple[Word, ...]]:
        """The words of each text as :meth:`split` gives them, in order, while texts come in.

        Whole batches are judged, ``workers`` of them at a time in threads; no more than
        ``2 * workers`` batches are taken ahead of what was asked for.
        """
        return pipe_rows(self._rows, texts, batch_size=batch_size, workers=workers)

    def _rows(self, texts: list[str | bytes]) -> list[tuple[Word, ...]]:
        judged = self.look_up(texts)
        words = as_bytes(judged.distinct)
        ids = [None if number < 0 else number for number in judged.ids.tolist()]
        pieces = [None] * len(words) if judged.pieces is None else judged.pieces.tolist()
        distinct = list(map(Word, words, ids, judged.known.tolist(), pieces))
        found = [distinct[code] for code in judged.codes.tolist()]
        return [tuple(found[start:end]) for start, end in pairwise(judged.offsets.tolist())]

    def unknown(self, text: str | bytes) -> list[str]:
        """The words of a text that the model does not know, in order."""
        judged = self.look_up([text])
        missing = judged.codes[~judged.known[judged.codes]]
        return [decode(word) for word in as_bytes(judged.distinct.take(missing))]

    def pieces(self, word: str | bytes) -> list[str]:
        """What a subword model makes of one of its words; empty for whole words, and exact ones."""
        key = word if isinstance(word, bytes) else encode(word)
        return [decode(piece) for piece in self.tokenizer.pieces(key)]

    def describe(self) -> tuple[str, ...]:
        """What happens to a text, a line for each step."""
        return self.tokenizer.describe()

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of the way from text to words."""
        return self.tokenizer.fingerprint


def _from_file(model: str | Path, name: str | None) -> Words:
    """The words of what holds no graphs: a SentencePiece model or a tokenizer.json cuts texts.

    Of several vocabularies the first that says how, unless ``name`` tells which is meant.
    """
    from vocabtool.formats import registry

    found = registry.inspect(model, small=name is not None)
    chosen = registry.choose(found, name)
    path = graph_files.path_of(model)
    others = [other for other in found.vocabularies if other is not chosen and name is None]
    for vocabulary in (chosen, *others):
        tokenizer = _own_tokenizer(vocabulary, path)
        if tokenizer is None:
            continue
        notes = found.warnings
        left_out = [other.name for other in found.vocabularies if other is not vocabulary]
        if name is None and left_out:
            notes = (*notes, f"not looked at, --name takes another: {', '.join(left_out)}")
        return Words(vocabulary, "recovered", tokenizer, notes=notes)
    if chosen.kind not in SUBWORDS and not (chosen.marker or guess_marker(chosen.stored)):
        raise VocabtoolError(f"{path}: {LIST}")
    raise VocabtoolError(
        f"{path}: how texts are cut into these pieces is not read from it, and it cannot be run. "
        f"{NAME_TOKENIZER}"
    )


def _own_tokenizer(vocabulary: Vocabulary, path: Path) -> Tokenizer | None:
    """Cuts texts as the file does that holds the vocabulary; ``None`` where it does not say how."""
    from vocabtool.tokenization import hf_tokenizer

    model = vocabulary.stored.data  # pieces of SentencePiece are read in place, wherever that is
    if vocabulary.kind == "sentencepiece" and sentencepiece.looks_like_model(model[:HEAD]):
        return SentencePieceTokenizer(Rule(()), SentencePieces(model), vocabulary)
    files = [path]
    if path.is_dir():  # the files of the folder in which the vocabulary was found
        names = {place.file: None for place in vocabulary.places if "/" not in place.file}
        files = [path / name for name in names if (path / name).is_file()]
    for file in files:
        for tokenizer_for in (hf_tokenizer.tokenizer_for, keras_tokenizer_for):
            tokenizer: Tokenizer | None = tokenizer_for(file, vocabulary)
            if tokenizer is not None:
                return tokenizer
    return None


def tokenizer_of(file: Path) -> Words:
    """The words of a tokenizer by itself: of a tokenizer.json or a SentencePiece model.

    Raises :class:`NotFound`, and :class:`VocabtoolError` for a file that cuts no texts.
    """
    if not file.is_file():
        raise NotFound(
            f"{file}: no such file; wanted a tokenizer.json or a SentencePiece .model, or a folder "
            "with one"
        )
    from vocabtool.formats.registry import extract

    vocabulary = extract(file)
    tokenizer = _own_tokenizer(vocabulary, file)
    if tokenizer is None:
        raise VocabtoolError(
            f"{file}: does not say how texts are cut; wanted a tokenizer.json or a SentencePiece "
            ".model"
        )
    return Words(vocabulary, "recovered", tokenizer)


def check_pieces(tokenizer: Words, file: Path, *vocabularies: Vocabulary) -> None:
    """Refuse a tokenizer whose pieces are not the entries of any of the vocabularies."""
    pieces = tokenizer.vocabulary.stored
    counts = [sum(piece in each.positions for piece in pieces) for each in vocabularies]
    if max(counts) < len(pieces) * MIN_SHARED_PIECES:
        shares = " and ".join(
            f"{each.name} holds only {count:,}"
            for each, count in zip(vocabularies, counts, strict=True)
        )
        raise VocabtoolError(
            f"{file} cuts texts into {len(pieces):,} pieces, of which {shares}: it is not this "
            "model's tokenizer. --name takes another vocabulary"
        )


def _from_graph(model: str | Path, name: str | None) -> Words:
    from vocabtool.tokenization import infer_rule

    found, paths = infer_rule.read_lookup_paths(model)
    chosen = infer_rule.choose(paths, found, name)
    tokenizer = chosen.tokenizer()
    others, notes = [], [*found.warnings, *infer_rule.notes_on_unclear(paths, chosen)]
    for path in paths:
        if path is chosen or path.text != chosen.text or not path.is_understood:
            continue
        try:
            others.append(Words(path.vocabulary, "recovered", path.tokenizer()))
        except VocabtoolError as error:
            notes.append(f"left out: {error}")
    return Words(chosen.vocabulary, "recovered", tokenizer, tuple(others), tuple(notes))


def exact_words(instrumented: InstrumentedModel, model: str | Path, name: str | None) -> Words:
    """The words that a running model looks up. Raises :class:`NoVocabulary` where it looks up none.

    ``model``: what was loaded; ``name``: the vocabulary, if several are looked up in.
    """
    from vocabtool.tokenization import infer_rule
    from vocabtool.tokenization.instrumented_model import ExactTokenizer

    found, paths = infer_rule.read_lookup_paths(model)
    reached = {(op.function, op.node) for op in instrumented.ops if op.live}
    live = [path for path in paths if path.places & reached]
    chosen = infer_rule.choose(live, found, name).vocabulary.name
    with graph_files.open_graphs(model).file.open("rb") as file:
        graph = hashlib.file_digest(file, "sha256").digest()
    words = {}
    for path in live:
        same = [other for other in live if other.vocabulary.name == path.vocabulary.name]
        if same[0] is path:
            tokenizer = ExactTokenizer(instrumented, same, graph)
            words[path.vocabulary.name] = Words(path.vocabulary, "exact", tokenizer)
    first = words.pop(chosen)
    return replace(first, others=tuple(words.values()), notes=found.warnings)
