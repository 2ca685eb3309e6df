"""A rule: the steps from a text to words, applied fast, told in plain words, and fingerprinted.

Where a rule provably works between blanks it is applied to the distinct chunks of many texts only
(a corpus has a hundred times fewer of them than words). Which words are known is in ``lookup.py``.

A rule is read from a model's graph, in ``infer_rule.py``, or a caller names one of these: for a
word list, or for a model that takes ids instead of text.

===================  ===========================================================================
``whitespace``       split at ASCII whitespace
``lower``            lower-case in every script, then split at ASCII whitespace
``keras``            what TextVectorization does unless told otherwise: lower-case A to Z, delete
                     ASCII punctuation, split at ASCII whitespace
``ptb``              tokens in the manner of the Penn Treebank, lower-cased; see :data:`INSIDE`
``regex:PATTERN``    each match of an RE2 pattern that is not empty is a word
``tokenizer:FILE``   the pieces that a Hugging Face tokenizer.json or a SentencePiece model makes,
                     FILE or in the folder FILE; ``sentencepiece:FILE`` says the same
===================  ===========================================================================
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.choices import NAMED, RULE_NAMES
from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.string_steps import Join, Lower, NGrams, RegexReplace, SplitWhitespace
from vocabtool.tokenization.text_arrays import (
    ChangeStep,
    Integers,
    SplitStep,
    Step,
    TokenCodes,
    Tokens,
    chunks,
    is_filled,
    list_offsets,
    map_unless_ascii,
    starts_of,
    string_array,
    text_data,
)
from vocabtool.vocabulary import decode, encode

MAX_GROWTH: Final = 64  # times as many bytes as the texts have
GROWTH_ALLOWANCE: Final = 1 << 20  # bytes that a step may always make
SHORT: Final = 4096  # bytes of texts that are not worth a search for pieces that repeat
BLANKS: Final = "a b\tc\nd\ve\ff\rg"


@dataclass(frozen=True)
class Rule:
    """How texts become words. Rules are equal when their steps are."""

    steps: tuple[Step, ...]

    def tokens(self, texts: pa.StringArray | Tokens) -> Tokens:
        """The words of each text, or of what it was cut into: each step on all of it.

        Raises :class:`VocabtoolError` where a model's graph blows texts up.
        """
        tokens = texts
        if not isinstance(tokens, Tokens):
            tokens = Tokens(texts, np.arange(len(texts) + 1, dtype=np.int64))
        most = MAX_GROWTH * tokens.values.nbytes + GROWTH_ALLOWANCE
        for step in self.steps:
            tokens = step.apply(tokens)
            if tokens.values.nbytes > most:
                raise VocabtoolError(
                    f"the step {step.describe()!r} makes {tokens.values.nbytes:,} bytes of a few "
                    "texts: no model that is meant well does that"
                )
        return tokens

    def token_codes(self, texts: pa.StringArray) -> TokenCodes:
        """The same words, each distinct piece of text looked at once where that is the same."""
        if texts.nbytes < SHORT or not self.works_between_blanks(texts):
            return TokenCodes.encode(self.tokens(texts))
        of_texts, offsets = chunks(texts)
        encoded = of_texts.view(pa.binary()).dictionary_encode()
        alone, joins = self.steps[: self._first_join], self.steps[self._first_join :]
        tokens = Rule(alone).tokens(encoded.dictionary.view(pa.string()))
        codes = TokenCodes.encode(tokens).of_texts(encoded.indices.to_numpy(), offsets)
        if not joins:
            return codes
        tokens = Tokens(codes.distinct.take(codes.codes), codes.offsets)
        return TokenCodes.encode(Rule(joins).tokens(tokens))

    def works_between_blanks(self, texts: pa.StringArray) -> bool:
        """Whether the words of texts are those of what stands between blanks, one by one.

        N-grams are made of them afterwards. No text may hold NUL, which ends a text for some ops.
        """
        return self._is_local and bool(text_data(texts).all())

    @cached_property
    def _first_join(self) -> int:
        """The place of the first step that joins words; those before treat each string alone."""
        joins = (at for at, step in enumerate(self.steps) if isinstance(step, NGrams))
        return next(joins, len(self.steps))

    @cached_property
    def _is_local(self) -> bool:
        """Whether texts may be cut at ASCII whitespace first: a later step cuts there anyway.

        All steps up to that one must treat what stands between blanks alone; those behind it get
        the same strings either way.
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
        """One line for each step."""
        return tuple(step.describe() for step in self.steps) or ("the whole text is one word",)

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of what the steps do."""
        steps = "".join(f"{step!r}\n" for step in self.steps)
        return hashlib.sha256(f"vocabtool rule 1\n{steps}".encode()).hexdigest()

    @property
    def ngrams(self) -> bool:
        """Whether it makes more than single words of a text."""
        return self._first_join < len(self.steps)


PUNCTUATION: Final = r"[!-/:-@\[-`{-~]"  # all of ASCII's

# Conventions of Treebank tokenization as (what, instead), in the order in which they apply to a
# lower-case text. What is split off stands between blanks then. INSIDE comes first, then AT_ENDS,
# for which a text has a blank at both ends.
#
# For ASCII text these are the tokens of nltk's TreebankWordTokenizer, but for what is meant:
# letters, digits and white space are those of ASCII (there: of Unicode, and the control characters
# U+001C to U+001F part words), and case is gone before words are cut, so that mixed case (``N't``,
# ``'Ll``) is cut like any other.
INSIDE: Final = (
    # Quotation marks that open: at the start, behind a blank or an opening bracket.
    ('^"', "``"),
    ("``", " `` "),
    (r"""([ (\[{<])("|'')""", r"\1 `` "),
    # Commas and colons, but not before a digit (10:30, 1,000).
    (r"([,:])([^\d])", r" \1 \2"),
    ("[,:]$", r" \0 "),
    (r"\.{3}", " ... "),
    ("[#$%&;@]", r" \0 "),
    # A full stop at the end only; closing brackets and quotation marks may follow it.
    (r"""([^.])(\.)([\])}>"']*)[\s\v]*$""", r"\1 \2\3 "),
    ("[!?]", r" \0 "),
    ("([^'])' ", r"\1 ' "),
    (r"[(){}<>\[\]]", r" \0 "),
    ("--", " -- "),
)
AT_ENDS: Final = (
    ("''", " '' "),
    ('"', " '' "),
    # 's 'm 'd and a bare '; then 'll 're 've n't: each a word of its own.
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


@dataclass(frozen=True, slots=True)
class LowerEveryScript(ChangeStep):
    """Lower-case by Unicode's rules. Unlike StringLower it goes on behind a NUL, and what is not
    UTF-8 stays as it is.
    """

    description: ClassVar[str] = "lower-case in every script"
    is_local: ClassVar[bool] = True

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        return map_unless_ascii(values, pc.ascii_lower, self.change)

    def change(self, text: bytes) -> bytes:
        return encode(decode(text).lower())


@dataclass(frozen=True, slots=True)
class Matches(SplitStep):
    """Each match of an RE2 pattern, from left to right, that is not empty."""

    pattern: str

    @property
    def local(self) -> bool:
        """Whether a match is a run of characters, looks at nothing around and holds no blank."""
        return RegexReplace(self.pattern, "x").local

    def split_all(self, values: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        # A text that stands in none of the strings, and that cannot overlap with itself.
        separator = next(
            separator
            for separator in map("\x1e{}\x1f".format, count())
            if not pc.any(pc.match_substring(values, pattern=separator)).as_py()
        )
        separated = pc.replace_substring_regex(
            values, pattern=self.pattern, replacement=rf"{separator}\0{separator}"
        )
        lists = pc.split_pattern(separated, separator)
        offsets, parts = list_offsets(lists), lists.flatten()
        place = np.arange(len(parts)) - np.repeat(offsets[:-1], np.diff(offsets))
        is_match = is_filled(parts) & (place % 2 == 1)  # every other one is between two separators
        return parts.filter(pa.array(is_match)), starts_of(is_match)[offsets]

    def describe(self) -> str:
        return f"each match of {self.pattern!r} is a word"


def parse_rule(spec: str) -> tuple[Step, ...]:
    """The steps of a rule, given as one of :data:`RULE_NAMES`, but for ``tokenizer:FILE``.

    Raises :class:`VocabtoolError` for a name that is none, and a pattern that RE2 does not take.
    """
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
    if not spec.startswith("regex:"):
        close = get_close_matches(spec.lower(), NAMED, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        raise VocabtoolError(
            f"{spec!r} is not a rule from text to words.{hint} Choose one of "
            f"{', '.join(RULE_NAMES)}."
        )
    pattern = spec.removeprefix("regex:")
    if not pattern:
        raise VocabtoolError("regex: is followed by no pattern. Wanted: regex:[a-z]+ or the like.")
    try:
        pc.replace_substring_regex(pa.array([""]), pattern=pattern, replacement="")
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise VocabtoolError(
            f"regex:{pattern!r} is not a pattern that RE2 takes: {error}. "
            "Its syntax has no lookahead and no back references."
        ) from error
    return (Matches(pattern),)


def tokenizer_file(spec: str) -> Path | None:
    """The file of a rule ``tokenizer:FILE``, which no steps stand for; ``None``: another rule.

    Of a folder it is the tokenizer.json in it, else the ``.model``.
    """
    name, _, file = spec.partition(":")
    if name not in ("tokenizer", "sentencepiece") or not file:
        return None
    path = Path(file)
    inside = (path / "tokenizer.json", *sorted(path.glob("*.model")))
    return next(filter(Path.is_file, inside), path)
