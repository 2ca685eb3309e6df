"""Steps whose results are those of TensorFlow's and tensorflow-text's ops, byte for byte.

Op sources: tensorflow/core/ops/string_ops.cc, tensorflow/core/kernels/string_ngrams_op.cc;
tensorflow_text/core/kernels: regex_split.cc, unicode_script_tokenizer.cc, whitespace_tokenizer.cc.
The rules of normalization are Unicode's (annex 15, and NFKC_Casefold of section 3.13). Characters
that are newer than Python's Unicode tables are not changed.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Any, ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.errors import VocabtoolError
from vocabtool.formats import wire
from vocabtool.tokenization.text_arrays import (
    WHITESPACE,
    ChangeStep,
    Integers,
    SplitStep,
    Step,
    Tokens,
    bool_array,
    is_filled,
    list_offsets,
    map_unless_ascii,
    quote,
    starts_of,
    string_array,
)
from vocabtool.vocabulary import decode, encode


@dataclass(frozen=True, slots=True)
class Lower(ChangeStep):
    """StringLower: lower-case A to Z; with ``utf8``, all scripts by ICU's rules, up to a NUL."""

    utf8: bool = False
    is_local: ClassVar[bool] = True

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        if not self.utf8:
            return pc.ascii_lower(values)
        return map_unless_ascii(values, pc.ascii_lower, self.change)

    def change(self, text: bytes) -> bytes:
        return text.partition(b"\0")[0].decode("utf-8", "replace").lower().encode()

    def describe(self) -> str:
        return "lower-case (every script)" if self.utf8 else "lower-case A to Z"


@dataclass(frozen=True, slots=True)
class RegexReplace(ChangeStep):
    pattern: str
    rewrite: str

    @property
    def local(self) -> bool:
        if not _matches_whitespace_apart(self.pattern):
            return False
        blanks = string_array(chr(byte) for byte in WHITESPACE)
        if "+" in self.pattern:  # a match of ``+`` may be several blanks, so no blank may match
            deleted = pc.replace_substring_regex(blanks, pattern=self.pattern, replacement="")
            return bool(deleted.equals(blanks))
        replaced = self.change_all(blanks).to_pylist()  # each blank must become blanks
        return all(text and not text.encode().strip(WHITESPACE) for text in replaced)

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        return pc.replace_substring_regex(values, pattern=self.pattern, replacement=self.rewrite)

    def describe(self) -> str:
        if not self.rewrite:
            return f"delete every match of {quote(self.pattern)}"
        return f"replace every match of {quote(self.pattern)} by {quote(self.rewrite)}"


def regex_fault(pattern: str, rewrite: str) -> str | None:
    """Return why RE2 rejects a pattern or its rewrite; ``None`` if it accepts both."""
    try:
        groups = compile_pattern(pattern).groups
    except VocabtoolError:
        return f"RE2 rejects its pattern {quote(pattern)}"
    for escape in re.findall(r"\\(.?)", rewrite, re.DOTALL):
        is_group = escape.isascii() and escape.isdigit() and int(escape) <= groups
        if escape != "\\" and not is_group:
            return f"RE2 rejects its rewrite {quote(rewrite)}"
    return None


@dataclass(frozen=True, slots=True)
class Strip(ChangeStep):
    """StringStrip: remove ASCII whitespace at both ends."""

    description: ClassVar[str] = "strip whitespace at both ends"

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        return pc.ascii_trim(values, characters=WHITESPACE.decode())


@dataclass(frozen=True, slots=True)
class SplitWhitespace(SplitStep):
    """StringSplitV2 without a separator: split at runs of ASCII whitespace, drop empty strings."""

    description: ClassVar[str] = "split at whitespace"
    is_local: ClassVar[bool] = True

    def split_all(self, values: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        lists = pc.ascii_split_whitespace(values)
        words, offsets = lists.flatten(), list_offsets(lists)
        filled = is_filled(words)
        if filled.all():
            return words, offsets
        # Drop the empty string of leading or trailing whitespace.
        return words.filter(bool_array(filled)), starts_of(filled)[offsets]


@dataclass(frozen=True, slots=True)
class SplitOn(SplitStep):
    """StringSplitV2 with a separator; empty strings are kept."""

    separator: bytes

    def split(self, text: bytes) -> list[bytes]:
        return text.split(self.separator)

    def describe(self) -> str:
        return f"split at each {quote(self.separator)}"


@dataclass(frozen=True, slots=True)
class SplitAtAny(SplitStep):
    """StringSplit of TensorFlow 1: split at each of ``delimiters``; without any, at every byte."""

    delimiters: bytes = b" "
    skip_empty: bool = True

    def split(self, text: bytes) -> list[bytes]:
        if not self.delimiters or not text:
            return [text[i : i + 1] for i in range(len(text))]
        words = re.split(b"[" + re.escape(self.delimiters) + b"]", text)
        return [word for word in words if word] if self.skip_empty else words

    def describe(self) -> str:
        if not self.delimiters:
            return "split into bytes"
        empty = "" if self.skip_empty else ", empty words kept"
        return f"split at any of {quote(self.delimiters)}{empty}"


@dataclass(frozen=True, slots=True)
class Join(ChangeStep):
    """StringJoin with constants: put ``before`` and ``after`` around each string."""

    before: bytes
    after: bytes

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        # `pa.scalar` would load pandas.
        before, after, between = string_array((self.before, self.after, b"")).view(pa.binary())
        joined = pc.binary_join_element_wise(before, values.view(pa.binary()), after, between)
        return joined.view(pa.string())

    def describe(self) -> str:
        additions = [f"put {quote(self.before)} before"] if self.before else []
        additions += [f"put {quote(self.after)} after"] if self.after else []
        return " and ".join(additions) or "join with nothing"


@dataclass(frozen=True, slots=True)
class Transcode(ChangeStep):
    """UnicodeDecode and UnicodeEncode of whole texts: invalid bytes become U+FFFD."""

    description: ClassVar[str] = "repair invalid UTF-8"

    def change(self, text: bytes) -> bytes:
        return text.decode("utf-8", "replace").encode()


@dataclass(frozen=True, slots=True)
class Characters(SplitStep):
    """The ops of ``tf.strings.unicode_split``: each code point becomes a string."""

    description: ClassVar[str] = "split into characters"

    def split(self, text: bytes) -> list[bytes]:
        return [character.encode() for character in text.decode("utf-8", "replace")]


@dataclass(frozen=True, slots=True)
class DropEmpty(Step):
    description: ClassVar[str] = "drop empty strings"
    is_local: ClassVar[bool] = True

    def apply(self, tokens: Tokens) -> Tokens:
        return tokens.filter(is_filled(tokens.values))


@dataclass(frozen=True, slots=True)
class NGrams(Step):
    """StringNGrams: all n-grams of ``widths[0]`` words of a text, then of ``widths[1]``, ..."""

    separator: bytes
    widths: tuple[int, ...]

    def apply(self, tokens: Tokens) -> Tokens:
        words, separator = tokens.values.view(pa.binary()), pa.scalar(self.separator, pa.binary())
        begins, ends = tokens.offsets[:-1], tokens.offsets[1:]
        texts, ngrams = [np.zeros(0, np.int64)], [words[:0]]  # the text of each n-gram; n-grams
        for width in self.widths:
            counts = np.maximum(ends - begins - width + 1, 0)
            text = np.repeat(np.arange(len(counts)), counts)
            number_in_text = np.arange(len(text)) - (np.cumsum(counts) - counts)[text]
            first = begins[text] + number_in_text  # the first word of each n-gram
            joined = words.take(pa.array(first))
            for at in range(1, width):
                word = words.take(pa.array(first + at))
                joined = pc.binary_join_element_wise(joined, word, separator)
            texts.append(text)
            ngrams.append(joined)
        all_texts = np.concatenate(texts)
        values = pa.chunked_array(ngrams, pa.binary()).combine_chunks()
        values = values.take(pa.array(np.argsort(all_texts, kind="stable")))
        counts = np.bincount(all_texts, minlength=len(begins))
        return Tokens(values.view(pa.string()), starts_of(counts))

    def describe(self) -> str:
        widths = ", ".join(map(str, self.widths))
        return f"join runs of {widths} words with {self.separator.decode('utf-8', 'replace')!r}"


# TensorFlow Text.

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]

# Default_Ignorable_Code_Point (DerivedCoreProperties.txt), including reserved code points.
IGNORABLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# White_Space of Unicode (PropList.txt), unchanged since version 6.3.
BLANKS: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_BLANK: Final = b"|".join(blank.encode() for blank in BLANKS)
_BLANK_RUN: Final = re.compile(b"(%b)(?:%b)*" % (_BLANK, _BLANK))

# Characters that are words of their own in fast_wordpiece_tokenizer_utils.h: ASCII symbols (more
# than Unicode's punctuation), punctuation and blocks of Chinese characters.
ALONE: Final = (
    r"[!-/:-@\[-`{-~\pP\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2B73F}"
    r"\x{2B740}-\x{2B81F}\x{2B820}-\x{2CEAF}\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}]"
)
BOUNDARY: Final = rf"({ALONE}|[{BLANKS}]+)"
LOWER_CASE_FIELD: Final = 0  # lower_case_nfd_strip_accents of fast_bert_normalizer_model.fbs

# One element of a pattern: a class, a character, an escape.
_ELEMENT: Final = (
    r"(?:\[\^?\]?(?:\\x\{\w+\}|\\[pP]\{\^?\w+\}|\\.|\[:\^?\w+:\]|[^\\\]])+\]"
    r"|\\[pP]\{\^?\w+\}|\\[pP]\w|\\x\{\w+\}|\\[dDwWsS]|\\[^\w]|[^\\\[\](){}.^$*+?|])"
)
_ALTERNATIVE: Final = rf"(?:{_ELEMENT}\+?)+"
_ALTERNATIVES: Final = re.compile(rf"\(?(?P<all>{_ALTERNATIVE}(?:\|{_ALTERNATIVE})*)\)?")
_ONLY_BLANKS: Final = re.compile(r"\[?(?:[ \t-\r]|\\[stnvfr]|\[:space:\])+\]?")
_LOOKS_BACK: Final = re.compile(r"\^|\\[AbB]")


@dataclass(frozen=True, slots=True)
class NormalizeUtf8(ChangeStep):
    """NormalizeUTF8: normalize texts to the Unicode ``form``. Invalid bytes are kept."""

    form: Form
    is_local: ClassVar[bool] = True  # whitespace neither composes nor moves

    def change(self, text: bytes) -> bytes:
        return encode(unicodedata.normalize(self.form, decode(text)))

    def describe(self) -> str:
        return f"Unicode normalization {self.form}"


@dataclass(frozen=True, slots=True)
class CaseFold(ChangeStep):
    """CaseFoldUTF8, which is Unicode's NFKC_Casefold. Invalid bytes are kept."""

    description: ClassVar[str] = "fold case and compatibility forms, remove ignorable characters"
    is_local: ClassVar[bool] = True

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        return map_unless_ascii(values, pc.ascii_lower, self.change)

    def change(self, text: bytes) -> bytes:
        return encode(unicodedata.normalize("NFC", "".join(map(_fold, decode(text)))))


@cache
def _fold(character: str) -> str:
    """Return NFKC_Casefold of one character."""
    before, after = "", unicodedata.normalize("NFD", character)
    while before != after:
        before = after
        after = unicodedata.normalize("NFKC", IGNORABLE.sub("", before).casefold())
    return after


@dataclass(frozen=True, slots=True)
class BertNormalize(ChangeStep):
    """FastBertNormalize: replace control and format characters by spaces.

    ``lower``: whether case is folded and accents are removed first.
    """

    lower: bool
    is_local: ClassVar[bool] = True

    @classmethod
    def read(cls, model: bytes) -> BertNormalize:
        return cls(bool(wire.flatbuffer_root(model).byte(LOWER_CASE_FIELD)))

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        def change_ascii(values: pa.StringArray) -> pa.StringArray:
            spaced = pc.replace_substring_regex(values, "[\x01-\x1f\x7f]", " ")
            return pc.ascii_lower(spaced) if self.lower else spaced

        return map_unless_ascii(values, change_ascii, self.change)

    def change(self, text: bytes) -> bytes:
        return encode("".join(_bert_character(c, self.lower) for c in decode(text)))

    def describe(self) -> str:
        spaced = "control characters become spaces"
        return f"fold case, remove accents, {spaced}" if self.lower else spaced


@cache
def _bert_character(character: str, lower: bool) -> str:
    """Return what :class:`BertNormalize` makes of one character that may be outside of ASCII."""
    if not lower:
        return " " if unicodedata.category(character) in ("Cc", "Cf") else character
    apart = unicodedata.normalize("NFD", _fold(character))
    return "".join(_bert_character(c, False) for c in apart if unicodedata.category(c) != "Mn")


@dataclass(frozen=True, slots=True)
class BertSplit(SplitStep):
    """Split texts at Unicode whitespace, as FastWordpieceTokenizeWithOffsets does.

    Each punctuation mark and each Chinese character is a word.
    """

    description: ClassVar[str] = (
        "split at whitespace; punctuation and Chinese characters are words of their own"
    )
    is_local: ClassVar[bool] = True

    def split(self, text: bytes) -> list[bytes]:
        return split_at_matches(BOUNDARY, ALONE, text)


@dataclass(frozen=True, slots=True)
class RegexSplit(SplitStep):
    """RegexSplitWithOffsets: split at matches of ``delimiter``, drop empty words.

    In each match, the text of the first group is the delimiter. It becomes a word, too, if ``keep``
    matches it completely. A text ends at NUL.
    """

    delimiter: str
    keep: str = "()"

    @property
    def local(self) -> bool:
        return _matches_whitespace_apart(self.delimiter)

    def split(self, text: bytes) -> list[bytes]:
        return split_at_matches(self.delimiter, self.keep, text.partition(b"\0")[0])

    def describe(self) -> str:
        matches = f"split at matches of {quote(self.delimiter)}"
        return f"{matches}, keep matches of {quote(self.keep)} as words"


def split_at_matches(delimiter: str, keep: str, text: bytes) -> list[bytes]:
    """Return the text between matches, and delimiters that match ``keep``; refuse empty matches."""
    regex, keep_regex = compile_pattern(delimiter), compile_pattern(keep)
    words, read = [], 0
    # The op cuts off what it has read, so that ``^`` matches again. A search from a position in the
    # whole text is faster, and the same for patterns that do not look back.
    looks_back = _LOOKS_BACK.search(delimiter) is not None
    while regex.groups:
        cut = read if looks_back else 0  # bytes of the text that are not searched
        match = regex.search(text[cut:], read - cut)
        if match is None:
            break
        start, end, after = (cut + at for at in (*match.span(1), match.end()))
        if after == read or start < cut:
            raise VocabtoolError(
                f"the model splits at {delimiter!r}, which matches empty text in {text[:40]!r}; "
                "the model would never end"
            )
        if start > read:
            words.append(text[read:start])
        if keep_regex.fullmatch(text[start:end]):
            words.append(text[start:end])
        read = after
    return [*words, text[read:]] if read < len(text) else words


@cache
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern for RE2, which Arrow uses too. It is compiled once in a process."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        what = f"the model splits at {pattern!r}, which RE2 rejects: {error}"
        raise VocabtoolError(what) from error


@cache
def _matches_whitespace_apart(pattern: str) -> bool:
    """Return whether each match of a pattern is either all whitespace or has no whitespace.

    ``False`` for a pattern that is not simply alternatives of elements, such as ``[!-/]|\\s+``.
    """
    match = _ALTERNATIVES.fullmatch(pattern)
    if match is None or (pattern[0] == "(") != (pattern[-1] == ")"):
        return False
    blanks = [bytes((byte,)) for byte in WHITESPACE]
    elements = re.findall(rf"({_ELEMENT})(\+?)(\|?)", match["all"])
    start = 0  # the first element of the current alternative
    for end, (element, plus, bar) in enumerate(elements, 1):
        if not bar and end < len(elements):
            continue
        matches_blank = [
            any(map(compile_pattern(one).fullmatch, blanks)) for one, *_ in elements[start:end]
        ]
        if any(matches_blank) and len(matches_blank) > 1:
            return False
        if matches_blank[-1] and plus and _ONLY_BLANKS.fullmatch(element) is None:
            return False
        start = end
    return True


@dataclass(frozen=True, slots=True)
class ScriptSplit(SplitStep):
    """UnicodeScriptTokenizeWithOffsets on decoded text: each run of one script is a word.

    With ``keep_whitespace``, runs of whitespace are words. Otherwise, whitespace and punctuation
    count as one script, and whitespace is removed after the split: ``a b`` becomes ``a`` and ``b``.
    ``! ?`` is one run and becomes ``!?``.
    """

    keep_whitespace: bool = False

    @property
    def local(self) -> bool:
        return self.keep_whitespace

    def split(self, text: bytes) -> list[bytes]:
        decoded = text.decode("utf-8", "replace")
        if self.keep_whitespace:
            runs = groupby(decoded, lambda c: (_script(c), c in BLANKS))
            return ["".join(run).encode() for _, run in runs]
        words = []
        for _, run in groupby(decoded, _script):
            word = "".join(character for character in run if character not in BLANKS)
            if word:
                words.append(word.encode())
        return words

    def describe(self) -> str:
        verb = "keep" if self.keep_whitespace else "remove"
        return f"split where the script changes, {verb} whitespace"


@cache
def _script(character: str) -> str:
    """Return the Unicode script of a character, such as ``Latin``."""
    import unicodedataplus

    name: str = unicodedataplus.script(character)
    return name


@dataclass(frozen=True, slots=True)
class WhitespaceSplit(SplitStep):
    """WhitespaceTokenizeWithOffsetsV2: the non-empty text between Unicode whitespace.

    The op has a flaw: if a blank of n bytes follows a word, the first n - 1 bytes of the blank are
    added to the word.
    """

    description: ClassVar[str] = "split at whitespace of every script"
    is_local: ClassVar[bool] = True

    def split(self, text: bytes) -> list[bytes]:
        words, read = [], 0
        for blanks in _BLANK_RUN.finditer(text):
            if blanks.start() > read:
                first_blank = blanks[1]
                words.append(text[read : blanks.start() + len(first_blank) - 1])
            read = blanks.end()
        return [*words, text[read:]] if read < len(text) else words
