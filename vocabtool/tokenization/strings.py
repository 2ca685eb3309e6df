"""TensorFlow's own string ops as steps, on Arrow arrays: change each string, or cut it.

Each does what the op of the same purpose does, byte for byte (tensorflow/core/ops/string_ops.cc,
unicode_ops in the same list). Ops of tensorflow-text are in ``normalizing.py`` and
``tokenizing.py``; which of them a model uses is found by ``recovery.py``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.distinct import changed, list_offsets, mapped_once, split_once
from vocabtool.tokenization.text_arrays import Cut, as_strings, cut_further
from vocabtool.vocabulary import printable

if TYPE_CHECKING:
    import pyarrow as pa

WHITESPACE: Final = b" \t\n\v\f\r"  # what isspace() of C says
Unit = Literal["BYTE", "UTF8_CHAR"]
Errors = Literal["replace", "strict", "ignore"]

# A pattern that matches one character, or a run of them, and looks at nothing around: bracketed
# classes and escaped ones, alternatives of them, in groups or not.
_CLASS: Final = (
    r"(?:\[\^?\]?(?:\\.|\[:\w+:\]|[^\\\]])+\]|\\[pP]\{\^?\w+\}|\\[pP]\w|\\[dDwWsS]|\\[^\w])"
)
_ONE: Final = re.compile(rf"\(?(?:\(?{_CLASS}\)?\+?)(?:\|\(?{_CLASS}\)?\+?)*\)?\+?")


def shown(text: bytes | str) -> str:
    """A pattern or a separator for people, as it is but for what cannot be printed."""
    return f"'{printable(text.encode() if isinstance(text, str) else text)}'"


@dataclass(frozen=True, slots=True)
class Lower:
    """StringLower. ``utf8``: every script, as ICU does it, which ends a text at NUL."""

    utf8: bool = False
    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Lower-case each string."""
        import pyarrow.compute as pc

        if not self.utf8:
            return cut._replace(values=pc.ascii_lower(cut.values))
        return cut._replace(values=changed(cut.values, pc.ascii_lower, _lower))

    def describe(self) -> str:
        """In plain words."""
        return "lower-case (every script)" if self.utf8 else "lower-case A to Z"


@dataclass(frozen=True, slots=True)
class Upper:
    """StringUpper, like :class:`Lower`."""

    utf8: bool = False
    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Upper-case each string."""
        import pyarrow.compute as pc

        if not self.utf8:
            return cut._replace(values=pc.ascii_upper(cut.values))
        return cut._replace(values=changed(cut.values, pc.ascii_upper, _upper))

    def describe(self) -> str:
        """In plain words."""
        return "upper-case (every script)" if self.utf8 else "upper-case a to z"


def _lower(text: bytes) -> bytes:
    return _before_nul(text).lower().encode()


def _upper(text: bytes) -> bytes:
    return _before_nul(text).upper().encode()


def _before_nul(text: bytes) -> str:
    return text.partition(b"\0")[0].decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class RegexReplace:
    """RegexReplace and StaticRegexReplace. ``rewrite``: with ``\\1`` for the first group.

    ``every``: all matches, else the first only.
    """

    pattern: str
    rewrite: str
    every: bool = True

    @property
    def local(self) -> bool:
        """Whether a match is one character or a run of them that never holds ASCII whitespace.

        Whitespace may be replaced where it stays whitespace.
        """
        return self.every and _keeps_whitespace(self.pattern, self.rewrite)

    def apply(self, cut: Cut) -> Cut:
        """Replace in each string."""
        import pyarrow.compute as pc

        values = pc.replace_substring_regex(
            cut.values,
            pattern=self.pattern,
            replacement=self.rewrite,
            max_replacements=None if self.every else 1,
        )
        return cut._replace(values=values)

    def describe(self) -> str:
        """In plain words."""
        which = "every" if self.every else "the first"
        if not self.rewrite:
            return f"delete {which} match of {shown(self.pattern)}"
        return f"replace {which} match of {shown(self.pattern)} by {shown(self.rewrite)}"


def regex_fault(pattern: str, rewrite: str) -> str | None:
    """Why RE2 does not take a pattern or its rewrite; ``None``: it does."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        groups = re2.compile(pattern, options).groups
    except re2.error:
        return f"its pattern {shown(pattern)} is none that RE2 takes"
    for escape in re.findall(r"\\(.?)", rewrite, re.DOTALL):
        if escape != "\\" and not (escape.isascii() and escape.isdigit() and int(escape) <= groups):
            return f"its rewrite {shown(rewrite)} is none that RE2 takes"
    return None


@cache
def _keeps_whitespace(pattern: str, rewrite: str) -> bool:
    if _ONE.fullmatch(pattern) is None:
        return False
    import pyarrow as pa
    import pyarrow.compute as pc

    blanks = pa.array([chr(byte) for byte in WHITESPACE])
    # A run may hold blanks among other characters: it must not match any.
    made = "" if "+" in pattern else rewrite
    after = pc.replace_substring_regex(blanks, pattern=pattern, replacement=made).to_pylist()
    if "+" in pattern:
        return bool(after == blanks.to_pylist())
    return all(new and not new.encode().strip(WHITESPACE) for new in after)


@dataclass(frozen=True, slots=True)
class Strip:
    """StringStrip: ASCII whitespace at both ends."""

    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Strip each string."""
        import pyarrow.compute as pc

        return cut._replace(values=pc.ascii_trim(cut.values, characters=WHITESPACE.decode()))

    def describe(self) -> str:
        """In plain words."""
        return "strip whitespace at both ends"


@dataclass(frozen=True, slots=True)
class SplitWhitespace:
    """StringSplitV2 without a separator: at runs of ASCII whitespace, nothing empty.

    ``most``: cut at most so many times, the rest stays whole; -1: at all.
    """

    most: int = -1

    @property
    def local(self) -> bool:
        """Whether it cuts at all whitespace."""
        return self.most < 0

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        if self.most >= 0:
            return cut_further(cut, *split_once(cut.values, self._some))
        return cut_further(cut, *split_whitespace(cut.values))

    def _some(self, text: bytes) -> list[bytes]:
        """The rest follows even where it is empty, once there were enough."""
        if self.most == 0:
            return [text]
        parts = text.lstrip(WHITESPACE).split(None, self.most)
        full = len(parts) == self.most
        return [*parts, b""] if full else parts

    def describe(self) -> str:
        """In plain words."""
        limit = f", {self.most} times at most" if self.most >= 0 else ""
        return f"split at whitespace{limit}"


def split_whitespace(values: pa.StringArray) -> tuple[pa.StringArray, Any]:
    """What stands between runs of ASCII whitespace; offsets int64, shape (len(values) + 1,)."""
    import pyarrow.compute as pc

    lists = pc.ascii_split_whitespace(values)
    parts, offsets = lists.flatten(), list_offsets(lists)
    filled = pc.not_equal(pc.binary_length(parts), 0).to_numpy(zero_copy_only=False)
    if not filled.all():  # an empty one stands where a text begins or ends with whitespace
        parts = parts.filter(filled)
        offsets = np.concatenate(([0], np.cumsum(filled)))[offsets].astype(np.int64)
    return parts, offsets


@dataclass(frozen=True, slots=True)
class SplitOn:
    """StringSplitV2 with a separator: what stands between is kept, empty or not."""

    separator: bytes
    most: int = -1
    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        return cut_further(cut, *split_once(cut.values, self._split))

    def _split(self, text: bytes) -> list[bytes]:
        return text.split(self.separator, self.most)

    def describe(self) -> str:
        """In plain words."""
        limit = f", {self.most} times at most" if self.most >= 0 else ""
        return f"split at each {shown(self.separator)}{limit}"


@dataclass(frozen=True, slots=True)
class SplitAtAny:
    """StringSplit of TensorFlow 1: at each of the bytes in ``delimiters``; none: after each byte.

    ``skip_empty``: leave out what is empty.
    """

    delimiters: bytes = b" "
    skip_empty: bool = True
    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        return cut_further(cut, *split_once(cut.values, self._split))

    def _split(self, text: bytes) -> list[bytes]:
        if not self.delimiters or not text:
            return [text[i : i + 1] for i in range(len(text))]
        parts = re.split(b"[" + re.escape(self.delimiters) + b"]", text)
        return [part for part in parts if part] if self.skip_empty else parts

    def describe(self) -> str:
        """In plain words."""
        if not self.delimiters:
            return "split into bytes"
        empty = "" if self.skip_empty else ", empty words kept"
        return f"split at any of {shown(self.delimiters)}{empty}"


@dataclass(frozen=True, slots=True)
class Join:
    """StringJoin with constants: each string gets ``before`` and ``after``."""

    before: bytes
    after: bytes
    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Put the constants around each string."""
        import pyarrow as pa
        import pyarrow.compute as pc

        joined = pc.binary_join_element_wise(
            pa.scalar(self.before, pa.binary()),
            cut.values.view(pa.binary()),
            pa.scalar(self.after, pa.binary()),
            pa.scalar(b"", pa.binary()),
        )
        return cut._replace(values=as_strings(joined))

    def describe(self) -> str:
        """In plain words."""
        parts = [f"put {shown(self.before)} before"] if self.before else []
        parts += [f"put {shown(self.after)} behind"] if self.after else []
        return " and ".join(parts) or "join with nothing"


@dataclass(frozen=True, slots=True)
class Substr:
    """Substr. ``start``: from the end where negative. ``length``: in units, as ``start``.

    Raises :class:`VocabtoolError` where a string is too short: the model fails there, too.
    """

    start: int
    length: int
    unit: Unit = "BYTE"
    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Take the part of each string."""
        return cut._replace(values=mapped_once(cut.values, self._part))

    def _part(self, text: bytes) -> bytes:
        units = _characters(text) if self.unit == "UTF8_CHAR" else [bytes((b,)) for b in text]
        start = self.start + len(units) if self.start < 0 else self.start
        if not 0 <= start <= len(units):
            raise VocabtoolError(
                f"the model takes {self.describe()}, but the text {shown(text[:40])} has only "
                f"{len(units)}: the model fails on it"
            )
        return b"".join(units[start : start + self.length])

    def describe(self) -> str:
        """In plain words."""
        unit = "characters" if self.unit == "UTF8_CHAR" else "bytes"
        return f"{self.length} {unit} from {self.start} on"


def _characters(text: bytes) -> list[bytes]:
    """Bytes from one that begins a character up to the next that does."""
    return re.findall(rb"[^\x80-\xbf][\x80-\xbf]*|^[\x80-\xbf]+", text)


@dataclass(frozen=True, slots=True)
class Decoding:
    """How UnicodeDecode and UnicodeTranscode read UTF-8.

    ``errors``: what becomes of bytes that are not; ``replacement``: the character put there, and
    instead of control characters (below U+0020) where ``controls``.
    """

    errors: Errors = "replace"
    replacement: int = 0xFFFD
    controls: bool = False

    def decode(self, text: bytes) -> str:
        """Read bytes. Raises :class:`VocabtoolError` where the model would fail."""
        instead = "" if self.errors == "ignore" else chr(self.replacement)
        parts: list[str] = []
        rest = text
        while True:
            try:
                parts.append(rest.decode())
                break
            except UnicodeDecodeError as error:
                self._accept(text)
                parts += (rest[: error.start].decode(), "\ud800")
                rest = rest[error.end :]
        decoded = "".join(parts)
        if self.controls and min(decoded, default=" ") < " ":
            self._accept(text)
            decoded = "".join("\ud800" if c < " " else c for c in decoded)
        return decoded.replace("\ud800", instead)

    def _accept(self, text: bytes) -> None:
        if self.errors == "strict":
            raise VocabtoolError(f"the model fails on text that is not UTF-8: {shown(text[:40])}")


@dataclass(frozen=True, slots=True)
class Transcode:
    """UnicodeTranscode from UTF-8 to UTF-8: repairs what is not."""

    decoding: Decoding = Decoding()
    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Repair each string."""
        return cut._replace(values=changed(cut.values, self._ascii, self._repaired))

    def _ascii(self, values: pa.StringArray) -> pa.StringArray:
        return mapped_once(values, self._repaired) if self.decoding.controls else values

    def _repaired(self, text: bytes) -> bytes:
        return self.decoding.decode(text).encode()

    def describe(self) -> str:
        """In plain words."""
        return "repair what is not UTF-8"


@dataclass(frozen=True, slots=True)
class Characters:
    """UnicodeDecode, then each code point as a string of its own: ``tf.strings.unicode_split``."""

    decoding: Decoding = Decoding()
    local: bool = field(default=False, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Cut each string into its code points."""
        return cut_further(cut, *split_once(cut.values, self._split))

    def _split(self, text: bytes) -> list[bytes]:
        return [c.encode() for c in self.decoding.decode(text)]

    def describe(self) -> str:
        """In plain words."""
        return "split into characters"


@dataclass(frozen=True, slots=True)
class DropEmpty:
    """Empty strings left out: padding, or what a model takes for a missing value."""

    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Drop the empty ones."""
        import pyarrow.compute as pc

        filled = pc.not_equal(pc.binary_length(cut.values), 0).to_numpy(zero_copy_only=False)
        kept = np.concatenate(([0], np.cumsum(filled)))[cut.offsets].astype(np.int64)
        return Cut(cut.values.filter(filled), kept)

    def describe(self) -> str:
        """In plain words."""
        return "leave out what is empty"
