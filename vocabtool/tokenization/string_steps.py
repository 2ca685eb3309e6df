"""Steps whose results are those of TensorFlow's string ops, byte for byte.

Op sources: tensorflow/core/ops/string_ops.cc, tensorflow/core/kernels/string_ngrams_op.cc.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import ClassVar, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.text_arrays import (
    WHITESPACE,
    ChangeStep,
    Integers,
    SplitStep,
    Step,
    Tokens,
    is_filled,
    list_offsets,
    map_distinct,
    map_unless_ascii,
    quote,
    starts_of,
)

Unit = Literal["BYTE", "UTF8_CHAR"]
Errors = Literal["replace", "strict", "ignore"]

# A pattern that matches one character or a run of them, independent of the context: classes and
# escapes, alternatives of them, with or without groups.
_CLASS: Final = (
    r"(?:\[\^?\]?(?:\\.|\[:\w+:\]|[^\\\]])+\]|\\[pP]\{\^?\w+\}|\\[pP]\w|\\[dDwWsS]|\\[^\w])"
)
_ONE_CHARACTER: Final = re.compile(rf"\(?(?:\(?{_CLASS}\)?\+?)(?:\|\(?{_CLASS}\)?\+?)*\)?\+?")


@dataclass(frozen=True, slots=True)
class Lower(ChangeStep):
    """StringLower: lower-case A to Z.

    ``utf8``: Whether all scripts are lower-cased by ICU's rules. If true, a text ends at NUL.
    """

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
class Upper(ChangeStep):
    utf8: bool = False
    is_local: ClassVar[bool] = True

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        if not self.utf8:
            return pc.ascii_upper(values)
        return map_unless_ascii(values, pc.ascii_upper, self.change)

    def change(self, text: bytes) -> bytes:
        return text.partition(b"\0")[0].decode("utf-8", "replace").upper().encode()

    def describe(self) -> str:
        return "upper-case (every script)" if self.utf8 else "upper-case a to z"


@dataclass(frozen=True, slots=True)
class RegexReplace(ChangeStep):
    pattern: str
    rewrite: str
    every: bool = True

    @property
    def local(self) -> bool:
        """Whether texts may be split at ASCII whitespace before the step is applied."""
        if not self.every or _ONE_CHARACTER.fullmatch(self.pattern) is None:
            return False
        blanks = pa.array([chr(byte) for byte in WHITESPACE])
        if "+" in self.pattern:  # a run may contain blanks: they must not match
            deleted = pc.replace_substring_regex(blanks, pattern=self.pattern, replacement="")
            return bool(deleted.equals(blanks))
        return all(
            new and not new.encode().strip(WHITESPACE)
            for new in self.change_all(blanks).to_pylist()
        )

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        return pc.replace_substring_regex(
            values,
            pattern=self.pattern,
            replacement=self.rewrite,
            max_replacements=None if self.every else 1,
        )

    def describe(self) -> str:
        which = "every" if self.every else "the first"
        if not self.rewrite:
            return f"delete {which} match of {quote(self.pattern)}"
        return f"replace {which} match of {quote(self.pattern)} by {quote(self.rewrite)}"


def regex_fault(pattern: str, rewrite: str) -> str | None:
    """Return why RE2 rejects a pattern or its rewrite; ``None`` if it accepts both."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        groups = re2.compile(pattern, options).groups
    except re2.error:
        return f"RE2 rejects its pattern {quote(pattern)}"
    for escape in re.findall(r"\\(.?)", rewrite, re.DOTALL):
        if escape != "\\" and not (escape.isascii() and escape.isdigit() and int(escape) <= groups):
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
    """StringSplitV2 without a separator: split at runs of ASCII whitespace, drop empty strings.

    ``most``: The largest number of splits; -1 means no limit.
    """

    most: int = -1

    @property
    def local(self) -> bool:
        return self.most < 0

    def split_all(self, values: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        if self.most >= 0:
            return SplitStep.split_all(self, values)
        lists = pc.ascii_split_whitespace(values)
        parts, offsets = lists.flatten(), list_offsets(lists)
        filled = is_filled(parts)
        if filled.all():
            return parts, offsets
        # Drop the empty string of leading or trailing whitespace.
        return parts.filter(filled), starts_of(filled)[offsets]

    def split(self, text: bytes) -> list[bytes]:
        """Split a text. After the last of ``most`` splits, the rest is one part, even if empty."""
        if self.most == 0:
            return [text]
        parts = text.lstrip(WHITESPACE).split(None, self.most)
        return [*parts, b""] if len(parts) == self.most else parts

    def describe(self) -> str:
        limit = f", at most {self.most} times" if self.most >= 0 else ""
        return f"split at whitespace{limit}"


@dataclass(frozen=True, slots=True)
class SplitOn(SplitStep):
    """StringSplitV2 with a separator; empty strings are kept."""

    separator: bytes
    most: int = -1

    def split(self, text: bytes) -> list[bytes]:
        return text.split(self.separator, self.most)

    def describe(self) -> str:
        limit = f", at most {self.most} times" if self.most >= 0 else ""
        return f"split at each {quote(self.separator)}{limit}"


@dataclass(frozen=True, slots=True)
class SplitAtAny(SplitStep):
    """StringSplit of TensorFlow 1: split at each of the bytes in ``delimiters``.

    Without delimiters, every byte is a word.
    """

    delimiters: bytes = b" "
    skip_empty: bool = True

    def split(self, text: bytes) -> list[bytes]:
        if not self.delimiters or not text:
            return [text[i : i + 1] for i in range(len(text))]
        parts = re.split(b"[" + re.escape(self.delimiters) + b"]", text)
        return [part for part in parts if part] if self.skip_empty else parts

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
        joined = pc.binary_join_element_wise(
            pa.scalar(self.before, pa.binary()),
            values.view(pa.binary()),
            pa.scalar(self.after, pa.binary()),
            pa.scalar(b"", pa.binary()),
        )
        return joined.view(pa.string())

    def describe(self) -> str:
        parts = [f"put {quote(self.before)} before"] if self.before else []
        parts += [f"put {quote(self.after)} after"] if self.after else []
        return " and ".join(parts) or "join with nothing"


@dataclass(frozen=True, slots=True)
class Substr(ChangeStep):
    """Substr: take ``length`` units of each string from position ``start``.

    - ``start``: A negative number counts from the end of the string.
    - ``unit``: What ``start`` and ``length`` count: bytes or characters.

    Raises :class:`VocabtoolError` for strings that are too short: the model would fail on them.
    """

    start: int
    length: int
    unit: Unit = "BYTE"

    def change(self, text: bytes) -> bytes:
        if self.unit == "UTF8_CHAR":  # up to the next byte that begins a character
            units = re.findall(rb"[^\x80-\xbf][\x80-\xbf]*|^[\x80-\xbf]+", text)
        else:
            units = [bytes((byte,)) for byte in text]
        start = self.start + len(units) if self.start < 0 else self.start
        if not 0 <= start <= len(units):
            raise VocabtoolError(
                f"the model fails on the text {quote(text[:40])}, which is too short for a "
                f"step: {self.describe()}"
            )
        return b"".join(units[start : start + self.length])

    def describe(self) -> str:
        unit = "characters" if self.unit == "UTF8_CHAR" else "bytes"
        return f"take {self.length} {unit} from position {self.start}"


@dataclass(frozen=True, slots=True)
class Decoder:
    """How UnicodeDecode and UnicodeTranscode decode UTF-8.

    ``controls``: whether control characters (below U+0020) are replaced, too.
    """

    errors: Errors = "replace"
    replacement: int = 0xFFFD
    controls: bool = False

    def decode(self, text: bytes) -> str:
        """Decode bytes. Raise :class:`VocabtoolError` if the model would fail on them."""
        parts: list[str] = []
        rest = text
        while True:
            try:
                parts.append(rest.decode())
                break
            except UnicodeDecodeError as error:
                parts += (rest[: error.start].decode(), "\ud800")
                rest = rest[error.end :]
        decoded = "".join(parts)
        if self.controls:
            decoded = re.sub("[\0-\x1f]", "\ud800", decoded)
        if self.errors == "strict" and "\ud800" in decoded:
            raise VocabtoolError(f"the model fails on a text that is not UTF-8: {quote(text[:40])}")
        return decoded.replace("\ud800", "" if self.errors == "ignore" else chr(self.replacement))


@dataclass(frozen=True, slots=True)
class Transcode(ChangeStep):
    decoding: Decoder = Decoder()
    description: ClassVar[str] = "repair invalid UTF-8"

    def change_all(self, values: pa.StringArray) -> pa.StringArray:
        if self.decoding.controls:
            return map_distinct(values, self.change)
        return map_unless_ascii(values, lambda unchanged: unchanged, self.change)

    def change(self, text: bytes) -> bytes:
        return self.decoding.decode(text).encode()


@dataclass(frozen=True, slots=True)
class Characters(SplitStep):
    """The ops of ``tf.strings.unicode_split``: each code point becomes a string."""

    decoding: Decoder = Decoder()
    description: ClassVar[str] = "split into characters"

    def split(self, text: bytes) -> list[bytes]:
        return [character.encode() for character in self.decoding.decode(text)]


@dataclass(frozen=True, slots=True)
class DropEmpty(Step):
    description: ClassVar[str] = "drop empty strings"
    is_local: ClassVar[bool] = True

    def apply(self, tokens: Tokens) -> Tokens:
        return tokens.filter(is_filled(tokens.values))


@dataclass(frozen=True, slots=True)
class NGrams(Step):
    """StringNGrams: all n-grams of ``widths[0]`` words of a text, then of ``widths[1]`` words, ...

    - ``pad_width``: The number of pads on each side of a text. N-grams of n words use no more than
      n - 1 of these pads. If ``pad_width`` is -1, they use exactly n - 1.
    - ``preserve_short``: Whether a text that is too short for any n-gram becomes one n-gram.
    """

    separator: bytes
    widths: tuple[int, ...]
    left_pad: bytes = b""
    right_pad: bytes = b""
    pad_width: int = 0
    preserve_short: bool = False

    def apply(self, tokens: Tokens) -> Tokens:
        """Return the n-grams of each text. If all texts are empty, no pads are added."""
        if not len(tokens.values):
            return Tokens(tokens.values, np.zeros_like(tokens.offsets))
        runs = list(self._runs(tokens))
        texts = np.concatenate([text for text, _ in runs])
        order = np.argsort(texts, kind="stable")
        joined = pa.chunked_array([values for _, values in runs], pa.binary()).combine_chunks()
        counts = np.bincount(texts, minlength=len(tokens.offsets) - 1)
        return Tokens(joined.take(pa.array(order)).view(pa.string()), starts_of(counts))

    def _runs(self, tokens: Tokens) -> Iterator[tuple[Integers, pa.BinaryArray]]:
        pads = pa.array([self.left_pad, self.right_pad], pa.binary())
        words = pa.chunked_array([tokens.values.view(pa.binary()), pads]).combine_chunks()
        lengths = np.diff(tokens.offsets)
        every = np.arange(len(lengths))
        short = lengths > 0
        yield every[:0], words[:0]
        for width in self.widths:
            pad = width - 1 if self.pad_width < 0 else min(self.pad_width, width - 1)
            short &= lengths + 2 * pad < width
            yield self._join(words, tokens, every, width, pad)
        pad = max(self.pad_width, 0)
        for length in np.unique(lengths[short]).tolist() if self.preserve_short else ():
            texts = every[short & (lengths == length)]
            yield self._join(words, tokens, texts, length + 2 * pad, pad)

    def _join(
        self, words: pa.BinaryArray, tokens: Tokens, texts: Integers, width: int, pad: int
    ) -> tuple[Integers, pa.BinaryArray]:
        """Return two arrays: for each n-gram, the index of its text; and the n-grams themselves.

        ``words``: The words of all texts, then the left pad and the right pad.
        """
        begins, ends = tokens.offsets[:-1][texts], tokens.offsets[1:][texts]
        counts = np.maximum(ends - begins + 2 * pad - width + 1, 0)
        owners = np.repeat(np.arange(len(texts)), counts)
        before = np.cumsum(counts) - counts
        starts = np.arange(len(owners)) - before[owners] + begins[owners] - pad
        left, right = len(words) - 2, len(words) - 1

        def column(at: int) -> pa.BinaryArray:
            places = np.where(starts + at < begins[owners], left, starts + at)
            places = np.where(starts + at >= ends[owners], right, places)
            return words.take(pa.array(places))

        separator = pa.scalar(self.separator, pa.binary())
        runs = reduce(
            lambda run, at: pc.binary_join_element_wise(run, column(at), separator),
            range(1, width),
            column(0),
        )
        return texts[owners], runs

    def describe(self) -> str:
        widths = ", ".join(map(str, self.widths))
        return f"join runs of {widths} words with {self.separator.decode('utf-8', 'replace')!r}"
