"""Rules from text to words that a caller names, where no model tells its own.

That is for a word list, or for a model that takes ids instead of text. Rules that a model brings
along are read from its graph, in ``recovery.py``.

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

from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, assert_never, get_args

import numpy as np

from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.distinct import changed, list_offsets
from vocabtool.tokenization.strings import Join, Lower, RegexReplace, SplitWhitespace
from vocabtool.tokenization.text_arrays import Cut, Step, cut_further
from vocabtool.vocabulary import decode, encode

if TYPE_CHECKING:
    import pyarrow as pa

Name = Literal["whitespace", "lower", "keras", "ptb"]
NAMES: Final[tuple[Name, ...]] = get_args(Name)
RULE_NAMES: Final = (*NAMES, "regex:PATTERN", "tokenizer:FILE")

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
class LowerEveryScript:
    """Lower-case by Unicode's rules. Unlike StringLower it goes on behind a NUL, and what is not
    UTF-8 stays as it is.
    """

    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Lower-case each string."""
        import pyarrow.compute as pc

        return cut._replace(values=changed(cut.values, pc.ascii_lower, _lower))

    def describe(self) -> str:
        """In plain words."""
        return "lower-case in every script"


def _lower(text: bytes) -> bytes:
    return encode(decode(text).lower())


@dataclass(frozen=True, slots=True)
class Matches:
    """Each match of an RE2 pattern, from left to right, that is not empty."""

    pattern: str

    @property
    def local(self) -> bool:
        """Whether a match is a run of characters, looks at nothing around and holds no blank."""
        return RegexReplace(self.pattern, "x").local

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        import pyarrow as pa
        import pyarrow.compute as pc

        mark = _mark(cut.values)
        marked = pc.replace_substring_regex(
            cut.values, pattern=self.pattern, replacement=rf"{mark}\0{mark}"
        )
        lists = pc.split_pattern(marked, mark)
        offsets, parts = list_offsets(lists), lists.flatten()
        place = np.arange(len(parts)) - np.repeat(offsets[:-1], np.diff(offsets))
        filled = pc.not_equal(pc.binary_length(parts), 0).to_numpy(zero_copy_only=False)
        kept = filled & (place % 2 == 1)  # every other one stands between two marks
        bounds = np.concatenate(([0], np.cumsum(kept)))[offsets].astype(np.int64)
        return cut_further(cut, parts.filter(pa.array(kept)), bounds)

    def describe(self) -> str:
        """In plain words."""
        return f"each match of {self.pattern!r} is a word"


def _mark(values: pa.StringArray) -> str:
    """A text that stands in none of the strings, and that cannot overlap with itself."""
    import pyarrow.compute as pc

    for number in count():
        mark = f"\x1e{number}\x1f"
        if not pc.any(pc.match_substring(values, pattern=mark)).as_py():
            return mark
    raise AssertionError("numbers do not end")


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


def parse_rule(spec: str) -> tuple[Step, ...]:
    """The steps of a rule, given as one of :data:`RULE_NAMES`, but for ``tokenizer:FILE``.

    Raises :class:`VocabtoolError` for a name that is none, and a pattern that RE2 does not take.
    """
    name, colon, rest = spec.partition(":")
    if name == "regex" and colon:
        return (_matches(rest),)
    for known in NAMES:
        if spec == known:
            return _named(known)
    meant = get_close_matches(spec.lower(), NAMES, 1)
    hint = f" Did you mean {meant[0]}?" if meant else ""
    raise VocabtoolError(
        f"{spec!r} is not a rule from text to words.{hint} Choose one of {', '.join(RULE_NAMES)}."
    )


def _named(name: Name) -> tuple[Step, ...]:
    match name:
        case "whitespace":
            return (SplitWhitespace(),)
        case "lower":
            return (LowerEveryScript(), SplitWhitespace())
        case "keras":
            return (Lower(), RegexReplace(PUNCTUATION, ""), SplitWhitespace())
        case "ptb":
            return _treebank()
        case _:
            assert_never(name)


def _treebank() -> tuple[Step, ...]:
    inside, at_ends = ([RegexReplace(*pair) for pair in pairs] for pairs in (INSIDE, AT_ENDS))
    return (LowerEveryScript(), *inside, Join(b" ", b" "), *at_ends, SplitWhitespace())


def _matches(pattern: str) -> Matches:
    """Raises :class:`VocabtoolError` with what RE2 says of a pattern."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pattern:
        raise VocabtoolError("regex: is followed by no pattern. Wanted: regex:[a-z]+ or the like.")
    try:
        pc.replace_substring_regex(pa.array([""]), pattern=pattern, replacement="")
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        raise VocabtoolError(
            f"regex:{pattern!r} is not a pattern that RE2 takes: {error}. "
            "Its syntax has no lookahead and no back references."
        ) from error
    return Matches(pattern)
