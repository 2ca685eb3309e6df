"""The public ``Words``: the words of texts, and which of them a model knows.

``KnownWords`` remembers which words it knows, for the queries of an index.

Modules that read models are imported inside functions, so that an index opens faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from vocabtool.choices import RULE_NAMES
from vocabtool.errors import VocabtoolError
from vocabtool.formats import encoder_files
from vocabtool.formats.files import split_name
from vocabtool.system.arguments import check_arguments
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.system.messages import MAX_DOCUMENT_BYTES, text_too_long
from vocabtool.tokenization.lookup import RuleTokenizer, Tokenizer, WordLookup
from vocabtool.tokenization.rule import (
    TOKENIZER,
    Rule,
    guess_rule,
    makes_pieces,
    names_tokenizer,
    parse_rule,
)
from vocabtool.tokenization.text_arrays import as_bytes, starts_of, text_bounds, texts_array
from vocabtool.vocabulary import STILL_A_VECTOR, Kind, Vocabulary, decode, encode

NAME_RULE = f"name a rule with --rule (in Python rule=): {', '.join(RULE_NAMES)}"
LIST = f"a list of words does not define how a text is split into words; {NAME_RULE}"
NAME_TOKENIZER = (
    f"name their tokenizer, {TOKENIZER}: --rule tokenizer:FILE (in Python rule='tokenizer:FILE')"
)
# Rules for pieces with a marker, if no tokenizer is there.
OR_NAME: Final = {"##": "bert-uncased or --rule bert-cased", " ": "tiktoken:ENCODING"}
SUBWORDS: Final[frozenset[Kind]] = frozenset(("sentencepiece", "wordpiece", "bpe", "unigram"))
How = Literal["recovered", "named", "guessed"]
MAX_REMEMBERED: Final = 1 << 16  # words; then the cache is cleared
MAX_REMEMBERED_LENGTH: Final = 100  # characters; longer words rarely repeat


class Word(NamedTuple):
    """A word of a text, and the result of its lookup.

    - ``id``: ``None`` if a hash bucket determines the id, or if the word has several pieces.
    - ``pieces``: The number of subword pieces; ``None`` for models of whole words.
    """

    word: str
    id: int | None
    known: bool
    pieces: int | None

    @property
    def word_bytes(self) -> bytes:
        """The word as the model looks it up."""
        return encode(self.word)


@dataclass(frozen=True)
class Words:
    """The words that one model makes from texts, and which of these words it knows.

    - ``vocabulary``: The vocabulary in which the words are looked up.
    - ``how``: The source of the rule that splits texts: the model (``"recovered"``), the caller
      (``"named"``), or a guess for word vectors (``"guessed"``).
    - ``others``: The model's other lookups of the same text, for example of n-grams.
    - ``notes``: Warnings for the user.
    - ``rule``: The name of the rule, as :meth:`of` accepts it. ``None`` if the rule is in the graph
      of a model.
    - ``source``: The model and the name that were passed to :meth:`of`. ``None`` if a vocabulary
      was passed.
    """

    vocabulary: Vocabulary
    how: How
    tokenizer: Tokenizer
    others: tuple[Words, ...] = ()
    notes: tuple[str, ...] = ()
    rule: str | None = None
    source: tuple[str | Path, str | None] | None = None

    @classmethod
    @check_arguments
    def of(
        cls, model: str | Path | Vocabulary, *, name: str | None = None, rule: str | None = None
    ) -> Words:
        """Return the words of a model, of a vocabulary file, or of a vocabulary.

        - ``name``: The name of the vocabulary, as ``inspect`` prints it. The default is the largest
          vocabulary in which the model looks words up.
        - ``rule``: How to split texts into words, for files that do not say it: ``whitespace``,
          ``lower``, ``keras``, ``ptb``, ``words``, ``regex:PATTERN``, ``bert-uncased``,
          ``bert-cased``, ``tiktoken:ENCODING`` or ``tokenizer:FILE``.

        Raises :class:`VocabtoolError` if the rule cannot be determined.
        """
        if isinstance(model, Vocabulary):
            if rule is None:
                raise VocabtoolError(f"{model.name}: {LIST}")
            words = cls(model, "named", _tokenizer_by_rule(model, rule), rule=rule)
        else:
            from vocabtool.formats import detection, registry

            if rule is not None:
                vocabulary = registry.extract(model, name)
                words = cls(vocabulary, "named", _tokenizer_by_rule(vocabulary, rule), rule=rule)
            elif detection.has_graphs(model):
                words = _from_graph(model, name)
            else:
                words = _from_file(model, name)
            words = replace(words, source=(model, name))
        notes = (note for note in words.vocabulary.notes if note.startswith(STILL_A_VECTOR))
        return replace(words, notes=(*words.notes, *notes))

    def look_up(self, texts: pa.Array | Iterable[str | bytes]) -> WordLookup:
        """Return all words of many texts as arrays, with their ids and whether they are known.

        Raises :class:`VocabtoolError` for a text of more than ``MAX_DOCUMENT_BYTES``, as the
        readers of files do.
        """
        array = texts_array(texts)
        if array.nbytes > MAX_DOCUMENT_BYTES:
            longest = int(np.diff(text_bounds(array)).max(initial=0))
            if longest > MAX_DOCUMENT_BYTES:
                raise VocabtoolError(text_too_long(longest, MAX_DOCUMENT_BYTES))
        return self.tokenizer.look_up(array)

    def split(self, texts: pa.Array | Iterable[str | bytes]) -> pa.ListArray:
        """Return the words of each text as an Arrow list of structs.

        - ``word``: binary, as the model looks it up.
        - ``id``: int64, null if a hash bucket determines it or the word has several pieces.
        - ``known``: bool.
        - ``pieces``: int32, the number of subword pieces, null for models of whole words.
        """
        lookup = self.look_up(texts)
        ids = pa.array(lookup.ids, mask=lookup.ids < 0)
        pieces = pa.nulls(len(lookup.known), pa.int32())
        if lookup.pieces is not None:
            pieces = pa.array(lookup.pieces, pa.int32())
        distinct = pa.StructArray.from_arrays(
            [lookup.distinct.view(pa.binary()), ids, pa.array(lookup.known), pieces],
            names=["word", "id", "known", "pieces"],
        )
        offsets = pa.array(lookup.offsets.astype(np.int32))
        return pa.ListArray.from_arrays(offsets, distinct.take(pa.array(lookup.codes)))

    def unknown(self, text: str | bytes) -> list[str]:
        """Return the words of a text that the model does not know, in order."""
        lookup = self.look_up([text])
        unknown = lookup.codes[~lookup.known[lookup.codes]]
        return [decode(word) for word in as_bytes(lookup.distinct.take(unknown))]

    def split_words(self, text: str | bytes, pieces: int = 3) -> list[str]:
        """Return the words of a text that the model splits into ``pieces`` or more, in order.

        The list is empty for a model of whole words.
        """
        lookup = self.look_up([text])
        if lookup.pieces is None:
            return []
        split = lookup.codes[lookup.pieces[lookup.codes] >= pieces]
        return [decode(word) for word in as_bytes(lookup.distinct.take(split))]

    def pieces(self, word: str | bytes) -> list[str]:
        """Return the subword pieces of a word. The list is empty for models of whole words."""
        key = word if isinstance(word, bytes) else encode(word)
        return [decode(piece) for piece in self.tokenizer.pieces(key)]

    def describe(self) -> tuple[str, ...]:
        """Describe the steps that split a text into words, one line for each step."""
        return self.tokenizer.describe()

    @property
    def subword(self) -> bool:
        """Whether the model uses subword pieces."""
        return self.look_up(["a"]).pieces is not None

    @property
    def fingerprint(self) -> str:
        """Hexadecimal SHA-256 of the rule that splits texts into words."""
        return self.tokenizer.fingerprint


@dataclass(frozen=True, slots=True)
class WordStatus:
    """The result of looking up a word.

    - ``known``: whether the model's vocabulary contains all keys that the model's rule makes from
      the word.
    - ``pieces``: number of subword pieces, or ``None``.
    """

    known: bool
    pieces: int | None = None


class KnownWords:
    """Looks up which words a model knows, by the rule of the model. Thread-safe.

    A word is unknown if the rule turns it into an unknown token, or into nothing. ``subword``:
    whether the model uses subword pieces. ``notes``: what must be told with unknown words.
    """

    def __init__(self, words: Words) -> None:
        self.words = words
        self._remembered: dict[str, WordStatus] = {}
        self.subword = words.subword
        notes = words.vocabulary.notes
        self.notes = tuple(note for note in notes if note.startswith(STILL_A_VECTOR))

    def statuses(self, surfaces: Sequence[str]) -> list[WordStatus]:
        """Return the status of each word. New words are looked up in one call of the model."""
        remembered, judged = self._remembered, dict[str, WordStatus]()
        new = [word for word in dict.fromkeys(surfaces) if word not in remembered]
        if new:
            batch = self.words.look_up(new)
            unknown_before = starts_of(~batch.known[batch.codes])
            pieces_before = None if batch.pieces is None else batch.ends
            for surface, (start, end) in zip(new, pairwise(batch.offsets.tolist()), strict=True):
                known = start < end and bool(unknown_before[start] == unknown_before[end])
                pieces = None
                if pieces_before is not None:
                    pieces = int(pieces_before[end] - pieces_before[start])
                judged[surface] = WordStatus(known, pieces)
            short = {word: judged[word] for word in new if len(word) <= MAX_REMEMBERED_LENGTH}
            # Another thread may still read the old dictionary, so it is replaced, never cleared.
            if len(self._remembered) + len(short) > MAX_REMEMBERED:
                self._remembered = {}
            self._remembered.update(short)
        return [judged.get(surface) or remembered[surface] for surface in surfaces]


# What defines the words of an encoder that has none: a file or model, or entries.
GivenWords: TypeAlias = Words | Vocabulary | str | Path | Iterable[str]
PLAIN_RULE: Final = "keras"  # for bare entries: lower-case, without ASCII punctuation


def words_of(source: GivenWords, rule: str | None = None) -> Words:
    """Return the words of a model, or those that an encoder without a vocabulary gets.

    ``source``: a string may be ``FILE#NAME``. ``rule``: by default ``keras`` for a vocabulary or
    entries. Raises :class:`VocabtoolError` if ``source`` is a :class:`Words` with another rule.
    """
    if isinstance(source, Words):
        if rule not in (None, source.rule):
            raise VocabtoolError(f"these words already have a rule; leave out the rule {rule!r}")
        return source
    if isinstance(source, str):
        path, name = split_name(source)
        return Words.of(path, name=name, rule=rule)
    if isinstance(source, Path):
        return Words.of(source, rule=rule)
    if not isinstance(source, Vocabulary):
        source = Vocabulary("words", "list", ByteStrings.of(map(encode, source)))
    return Words.of(source, rule=rule or PLAIN_RULE)


@check_arguments
def words(
    model: Words | Vocabulary | str | Path, text: str, *, rule: str | None = None
) -> list[Word]:
    """Return the words that a model makes of a text, in order, as the command ``words`` does.

    - ``model``: a model, ``MODEL#NAME`` for one of its vocabularies, or its words.
    - ``rule``: as in :meth:`Words.of`.
    """
    (rows,) = words_of(model, rule).split([text]).to_pylist()
    return [Word(decode(row["word"]), row["id"], row["known"], row["pieces"]) for row in rows]


def _tokenizer_by_rule(vocabulary: Vocabulary, rule: str) -> Tokenizer:
    """Return the tokenizer of a named rule. Refuse a rule of whole words for a list of pieces."""
    if names_tokenizer(rule) or makes_pieces(rule):
        from vocabtool.tokenization.tokenizer_files import tokenizer_by_rule

        return tokenizer_by_rule(rule, vocabulary)
    steps = Rule(parse_rule(rule))
    marker = vocabulary.likely_marker
    if marker is not None or vocabulary.kind in SUBWORDS:
        how = f"marker {marker!r}" if marker else vocabulary.kind
        raise VocabtoolError(
            f"{vocabulary.name}: its entries are subword pieces ({how}), but the rule "
            f"{rule!r} makes whole words; {NAME_TOKENIZER}"
        )
    return RuleTokenizer(steps, vocabulary)


def _from_file(model: str | Path, name: str | None) -> Words:
    """Return the words of a vocabulary in a file: ``name``, or the first that has a tokenizer."""
    from vocabtool.formats import registry
    from vocabtool.tokenization.tokenizer_files import tokenizer_for

    contents = registry.inspect(model, small=name is not None)
    chosen = registry.choose(contents, name)
    path = encoder_files.path_of(model)
    candidates = [chosen]
    if name is None:
        candidates += [other for other in contents.vocabularies if other is not chosen]
    for vocabulary in candidates:
        result = tokenizer_for(path, vocabulary)
        if result is None:
            continue
        tokenizer, file = result
        notes = contents.warnings
        left_out = [other.name for other in contents.vocabularies if other is not vocabulary]
        if name is None and left_out:
            listed = ", ".join(left_out)
            notes = (*notes, f"other vocabularies, to be chosen with MODEL#NAME: {listed}")
        rule = None if file is None else f"tokenizer:{file}"
        return Words(vocabulary, "recovered", tokenizer, notes=notes, rule=rule)
    if chosen.rule is not None:
        words = Words.of(chosen, rule=chosen.rule)
        return replace(words, how="recovered", notes=contents.warnings)
    if chosen.kind == "vectors":
        rule, reason = guess_rule(chosen)
        note = f"no --rule given: using {rule}, because {reason}"
        words = Words.of(chosen, rule=rule)
        return replace(words, how="guessed", notes=(*contents.warnings, note))
    marker = chosen.likely_marker
    if chosen.kind not in SUBWORDS and marker is None:
        raise VocabtoolError(f"{path}: {LIST}")
    other = f", or --rule {OR_NAME[marker]}" if marker in OR_NAME else ""
    raise VocabtoolError(
        f"{path}: contains subword pieces, but no tokenizer that vocabtool can read; "
        f"{NAME_TOKENIZER}{other}"
    )


def _from_graph(model: str | Path, name: str | None) -> Words:
    """Return the words of the first lookup in a vocabulary, ``name`` or any, with the others."""
    from vocabtool.tokenization import infer_rule

    contents, paths = infer_rule.read_lookup_paths(model)
    chosen = infer_rule.choose(paths, contents, name)
    tokenizer = chosen.tokenizer()
    others, notes = [], list(contents.warnings)
    for path in paths:
        if isinstance(path.rule, infer_rule.Unclear):
            if path.vocabulary.name == chosen.vocabulary.name:
                notes.append(
                    f"{chosen.vocabulary.name}: another lookup in this vocabulary cannot be read "
                    f"(the op {path.rule.op}: {path.rule.why}); its words are left out"
                )
            continue
        is_understood = path.kind in infer_rule.UNDERSTOOD
        if path is chosen or path.text != chosen.text or not is_understood:
            continue
        try:
            others.append(Words(path.vocabulary, "recovered", path.tokenizer()))
        except VocabtoolError as error:
            notes.append(f"skipped: {error}")
    return Words(chosen.vocabulary, "recovered", tokenizer, tuple(others), tuple(notes))
