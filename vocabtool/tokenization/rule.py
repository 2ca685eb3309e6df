"""A rule: the steps that split a text into words, with a description and a fingerprint.

A rule is read from a model's graph. For a word list, or a model that takes ids instead of text, the
caller names one of these:

===================  ===========================================================================
``whitespace``       split at ASCII whitespace
``lower``            lower-case in every script, then split at ASCII whitespace
``keras``            the default of TextVectorization: lower-case A to Z, delete
                     ASCII punctuation, split at ASCII whitespace
``ptb``              Penn Treebank tokens, lower-cased; see :data:`INSIDE`
``words``            runs of letters and digits, lower-cased; see :data:`RUNS`
``regex:PATTERN``    each non-empty match of an RE2 pattern is a word
``bert-uncased``     the pieces of BERT's tokenizer, lower-cased; needs a vocab.txt
``bert-cased``       the pieces of BERT's tokenizer, not lower-cased; needs a vocab.txt
``tiktoken:NAME``    the pieces of an encoding such as ``cl100k_base``; needs tiktoken's ranks
``tokenizer:FILE``   the pieces of a Hugging Face tokenizer.json, a SentencePiece model, a GGUF
                     file, or a vocabulary file with a settings file beside it; FILE may be a
                     folder with such a file
===================  ===========================================================================
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from itertools import chain, count
from typing import ClassVar, Final, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.choices import NAMED, RULE_NAMES, BertRule, TiktokenName
from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.steps import (
    Join,
    Lower,
    NGrams,
    RegexReplace,
    SplitWhitespace,
    compile_pattern,
)
from vocabtool.tokenization.text_arrays import (
    ChangeStep,
    Integers,
    SplitStep,
    Step,
    TokenCodes,
    Tokens,
    as_bytes,
    bool_array,
    chunks,
    is_filled,
    list_offsets,
    map_unless_ascii,
    starts_of,
    string_array,
    text_data,
)
from vocabtool.vocabulary import Vocabulary, decode, encode

MAX_GROWTH: Final = 64  # output bytes per byte of the texts
GROWTH_ALLOWANCE: Final = 1 << 20  # bytes that a step may always produce
SHORT: Final = 4096  # bytes; the chunks of shorter texts are remembered
MAX_REMEMBERED: Final = 1 << 13  # chunks
MIN_CAPITALS: Final = 0.01  # share of the entries; fewer are special entries such as <UNK>
MARKS: Final = (b",", b".")
CASED_WITH_MARKS: Final = r"regex:[^\s!-/:-@\[-`{-~]+|[!-/:-@\[-`{-~]"
CASED: Final = r"regex:[^\s!-/:-@\[-`{-~]+"
TOKENIZER: Final = "a tokenizer.json, a SentencePiece .model or a GGUF file"
BLANKS: Final = "a b\tc\nd\ve\ff\rg"


@dataclass(frozen=True)
class Rule:
    """The steps that split a text into words, in order. Its methods are thread-safe."""

    steps: tuple[Step, ...]
    _words_of_chunks: dict[bytes, list[bytes]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def tokens(self, texts: pa.StringArray | Tokens) -> Tokens:
        """Return the words. Raises :class:`VocabtoolError` if a step makes the texts too long."""
        tokens = texts if isinstance(texts, Tokens) else Tokens.whole(texts)
        most = MAX_GROWTH * tokens.values.nbytes + GROWTH_ALLOWANCE
        for step in self.steps:
            tokens = step.apply(tokens)
            if tokens.values.nbytes > most:
                raise VocabtoolError(
                    f"the step {step.describe()!r} lengthens the texts to {tokens.values.nbytes:,} "
                    f"bytes, wanted at most {most:,}; the model may be malicious"
                )
        return tokens

    def token_codes(self, texts: pa.StringArray) -> TokenCodes:
        """Return the words of texts as codes. If possible, equal chunks are split only once."""
        is_short = texts.nbytes < SHORT
        # A text with NUL cannot be cut, because some steps end a text there.
        can_be_cut = self.works_between_blanks and text_data(texts).all()
        if not can_be_cut or (is_short and self.ngrams):
            return TokenCodes.encode(self.tokens(texts))
        if is_short:
            return self._remembered_codes(texts)
        chunk_codes = TokenCodes.encode(Tokens(*chunks(texts)))
        alone, joins = self.steps[: self._first_join], self.steps[self._first_join :]
        tokens = Rule(alone).tokens(chunk_codes.distinct)
        codes = TokenCodes.encode(tokens).of_texts(chunk_codes.codes, chunk_codes.offsets)
        if not joins:
            return codes
        tokens = Tokens(codes.distinct.take(codes.codes), codes.offsets)
        return TokenCodes.encode(Rule(joins).tokens(tokens))

    def _remembered_codes(self, texts: pa.StringArray) -> TokenCodes:
        """Return the words of short texts as codes, and remember the words of each new chunk."""
        chunks_of_texts = [text.split() for text in as_bytes(texts)]
        words_of = self._words_of_chunks
        new = {chunk for chunk in chain.from_iterable(chunks_of_texts) if chunk not in words_of}
        if new:
            # Replaced, not emptied: this call and other threads still read the full dictionary.
            if len(words_of) > MAX_REMEMBERED:
                vars(self)["_words_of_chunks"] = {}
            words_of.update(zip(new, self.tokens(string_array(new)).to_lists(), strict=True))
        words = [
            [*chain.from_iterable(map(words_of.__getitem__, chunks_of_text))]
            for chunks_of_text in chunks_of_texts
        ]
        distinct: dict[bytes, int] = {}  # the code of each word
        codes = [distinct.setdefault(word, len(distinct)) for word in chain.from_iterable(words)]
        lengths = [*map(len, words)]
        return TokenCodes(np.array(codes, np.int32), starts_of(lengths), string_array(distinct))

    @cached_property
    def _first_join(self) -> int:
        """The index of the first step that makes n-grams; the number of steps if there is none."""
        joins = (at for at, step in enumerate(self.steps) if isinstance(step, NGrams))
        return next(joins, len(self.steps))

    @cached_property
    def works_between_blanks(self) -> bool:
        """Whether each chunk between blanks can be split into words on its own.

        A step must split at ASCII whitespace, and each step before it treat parts alone. Steps that
        make n-grams, and all steps after them, are not considered.
        """
        tokens = Tokens.whole(string_array([BLANKS]))
        for step in self.steps[: self._first_join]:
            if not step.local:
                return False
            tokens = step.apply(tokens)
            if tokens.to_lists() == [BLANKS.encode().split()]:
                return True
        return False

    def describe(self) -> tuple[str, ...]:
        return tuple(step.describe() for step in self.steps) or ("the whole text is one word",)

    @property
    def fingerprint(self) -> str:
        steps = "".join(f"{step!r}\n" for step in self.steps)
        return hashlib.sha256(f"vocabtool rule 1\n{steps}".encode()).hexdigest()

    @property
    def ngrams(self) -> bool:
        return self._first_join < len(self.steps)


PUNCTUATION: Final = r"[!-/:-@\[-`{-~]"  # all ASCII punctuation

# Treebank tokenization as pairs (pattern, replacement), in order, on lower-case text. Tokens are
# separated by blanks. INSIDE comes first, then AT_ENDS, which expects a blank at both ends.
# For ASCII text these are the tokens of nltk's TreebankWordTokenizer, with two deliberate
# differences. Letters, digits and white space are those of ASCII (in nltk: of Unicode, and the
# control characters U+001C to U+001F separate words). Case is folded first, so that mixed case
# (``N't``, ``'Ll``) is split as well.
INSIDE: Final = (
    # Opening quotation marks: at the start, after a blank or an opening bracket.
    ('^"', "``"),
    ("``", " `` "),
    (r"""([ (\[{<])("|'')""", r"\1 `` "),
    # Commas and colons, except before a digit (10:30, 1,000).
    (r"([,:])([^\d])", r" \1 \2"),
    ("[,:]$", r" \0 "),
    (r"\.{3}", " ... "),
    ("[#$%&;@]", r" \0 "),
    # Only a full stop at the end; closing brackets and quotation marks may follow.
    (r"""([^.])(\.)([\])}>"']*)[\s\v]*$""", r"\1 \2\3 "),
    ("[!?]", r" \0 "),
    ("([^'])' ", r"\1 ' "),
    (r"[(){}<>\[\]]", r" \0 "),
    ("--", " -- "),
)
AT_ENDS: Final = (
    ("''", " '' "),
    ('"', " '' "),
    # 's 'm 'd and a bare '; then 'll 're 've n't: separate words.
    ("([^' ])('[dms]?) ", r"\1 \2 "),
    ("([^' ])('ll|'re|'ve|n't) ", r"\1 \2 "),
    # Two words written as one.
    (r"\b(can)(not)\b", r" \1 \2 "),
    (r"\b(d)('ye)\b", r" \1 \2 "),
    (r"\b(gim|lem)(me)\b", r" \1 \2 "),
    (r"\b(gon)(na)\b", r" \1 \2 "),
    (r"\b(got)(ta)\b", r" \1 \2 "),
    (r"\b(more)('n)\b", r" \1 \2 "),
    (r"\b(wan)(na)([\s\v])", r" \1 \2 \3"),
    (r" ('t)(is|was)\b", r" \1 \2 "),
)

# Runs of letters, marks and digits. Runs that are joined by ``-``, ``_`` or ``.`` are one word if
# one of them has a digit (``sku-48007-h``, ``3.11``), because the parts of such a code say little.
# Only sixteen runs are searched for a digit, so that the time is proportional to the text's length.
RUN: Final = r"[\pL\pM\pN]+"
RUNS: Final = rf"(?:{RUN}[-_.]){{0,16}}[\pL\pM]*\pN[\pL\pM\pN]*(?:[-_.]{RUN})*|{RUN}"


@dataclass(frozen=True, slots=True)
class LowerEveryScript(ChangeStep):
    """Lower-case by Unicode's rules, also after a NUL. Invalid bytes are kept."""

    description: ClassVar[str] = "lower-case in every script"
    is_local: ClassVar[bool] = True

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        return map_unless_ascii(values, pc.ascii_lower, self.change)

    def change(self, text: bytes) -> bytes:
        return encode(decode(text).lower())


SMALL: Final = 1 << 15  # bytes of texts; Arrow compiles a pattern at each call, RUNS for 30 ms


@dataclass(frozen=True, slots=True)
class Matches(SplitStep):
    """Each non-empty match of a pattern is a word."""

    pattern: str

    @property
    def local(self) -> bool:
        return RegexReplace(self.pattern, "x").local

    def split_all(self, values: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        if len(text_data(values)) < SMALL:
            pattern = compile_pattern(self.pattern)
            words, lengths = [], []
            for text in as_bytes(values):
                matches = [match.group() for match in pattern.finditer(text) if match.group()]
                words += matches
                lengths.append(len(matches))
            return string_array(words), starts_of(lengths)
        # Put a separator before and behind each match, and split there. The separator is in none
        # of the strings, and cannot overlap with itself.
        separator = next(
            separator
            for separator in map("\x1e{}\x1f".format, count())
            if not pc.any(pc.match_substring(values, pattern=separator)).as_py()
        )
        separated = pc.replace_substring_regex(
            values, pattern=self.pattern, replacement=rf"{separator}\0{separator}"
        )
        lists = pc.split_pattern(separated, separator)
        offsets, strings = list_offsets(lists), lists.flatten()
        number = np.arange(len(strings)) - np.repeat(offsets[:-1], np.diff(offsets))
        is_match = is_filled(strings) & (number % 2 == 1)  # every second string is a match
        return strings.filter(bool_array(is_match)), starts_of(is_match)[offsets]

    def describe(self) -> str:
        return f"each match of {self.pattern!r} is a word"


def parse_rule(spec: str) -> tuple[Step, ...]:
    """Return a rule's steps; :class:`VocabtoolError` if it is unknown, invalid or makes pieces."""
    if makes_pieces(spec):
        raise VocabtoolError(
            f"the rule {spec!r} needs the pieces of a vocabulary, but names no vocabulary; use "
            "tokenizer:FILE"
        )
    match spec:
        case "whitespace":
            return (SplitWhitespace(),)
        case "lower":
            return (LowerEveryScript(), SplitWhitespace())
        case "keras":
            return (Lower(), RegexReplace(PUNCTUATION, ""), SplitWhitespace())
        case "ptb":
            inside, ends = ([RegexReplace(*pair) for pair in pairs] for pairs in (INSIDE, AT_ENDS))
            return (LowerEveryScript(), *inside, Join(b" ", b" "), *ends, SplitWhitespace())
        case "words":  # split first, so that each distinct chunk is matched only once
            return (LowerEveryScript(), SplitWhitespace(), Matches(RUNS))
    if not spec.startswith("regex:"):
        close = get_close_matches(spec.lower(), NAMED, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        what = f"unknown rule {spec!r} (expected one of {', '.join(RULE_NAMES)}).{hint}"
        raise VocabtoolError(what)
    pattern = spec.removeprefix("regex:")
    if not pattern:
        raise VocabtoolError("regex: needs a pattern, for example regex:[a-z]+")
    try:
        pc.replace_substring_regex(pa.array([""]), pattern=pattern, replacement="")
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise VocabtoolError(
            f"regex:{pattern!r} is not a valid RE2 pattern: {error}. RE2 has no lookahead and no "
            "back references."
        ) from error
    return (Matches(pattern),)


def makes_pieces(spec: str) -> bool:
    """Return whether a rule is of BERT or tiktoken; refuse an unknown encoding."""
    name, _, encoding = spec.partition(":")
    if name != "tiktoken":
        return spec in get_args(BertRule)
    if encoding not in get_args(TiktokenName):
        listed = ", ".join(get_args(TiktokenName))
        raise VocabtoolError(f"unknown encoding {encoding!r} (expected one of {listed})")
    return True


def names_tokenizer(spec: str) -> bool:
    """Return whether a rule is ``tokenizer:FILE``."""
    return spec.startswith("tokenizer:") and spec != "tokenizer:"


def guess_rule(vocabulary: Vocabulary) -> tuple[str, str]:
    """Return the rule that fits the entries best, and the reason."""
    entries = vocabulary.stored.to_arrow()
    capitals = pc.sum(pc.match_substring_regex(entries, "[A-Z]")).as_py() or 0
    has_capitals = capitals > MIN_CAPITALS * len(entries)
    has_marks = all(mark in vocabulary for mark in MARKS)
    reason = (
        f"{'many' if has_capitals else 'hardly any'} entries have capital letters; "
        f"the comma and the full stop are {'entries' if has_marks else 'not both entries'}"
    )
    if has_capitals:
        return CASED_WITH_MARKS if has_marks else CASED, reason
    return "ptb" if has_marks else "keras", reason
