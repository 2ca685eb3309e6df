"""How tensorflow-text's ops cut texts: at matches of a pattern, at changes of script, at blanks.

Op sources: tensorflow_text/core/kernels/regex_split.cc, unicode_script_tokenizer.cc and
whitespace_tokenizer.cc. Cutting words into pieces is in ``wordpiece.py`` and
``sentencepieces.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from typing import Any, Final, Literal

from vocabtool.errors import VocabtoolError
from vocabtool.tokenization.distinct import split_once
from vocabtool.tokenization.strings import WHITESPACE, shown
from vocabtool.tokenization.text_arrays import Cut, cut_further

# White_Space of Unicode (PropList.txt), the same since version 6.3.
BLANKS: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
_BLANK: Final = b"|".join(blank.encode() for blank in BLANKS)
_BLANK_RUN: Final = re.compile(b"(%b)(?:%b)*" % (_BLANK, _BLANK))

# One thing that a pattern asks for: a class, a character, an escape.
_CLASS: Final = (
    r"(?:\[\^?\]?(?:\\x\{\w+\}|\\[pP]\{\^?\w+\}|\\.|\[:\^?\w+:\]|[^\\\]])+\]"
    r"|\\[pP]\{\^?\w+\}|\\[pP]\w|\\x\{\w+\}|\\[dDwWsS]|\\[^\w]|[^\\\[\](){}.^$*+?|])"
)
_ALTERNATIVE: Final = rf"(?:{_CLASS}\+?)+"
_PLAIN: Final = re.compile(rf"\(?(?P<all>{_ALTERNATIVE}(?:\|{_ALTERNATIVE})*)\)?")
_ONLY_BLANKS: Final = re.compile(r"\[?(?:[ \t-\r]|\\[stnvfr]|\[:space:\])+\]?")
_LOOKS_BACK: Final = re.compile(r"\^|\\[AbB]")


@dataclass(frozen=True, slots=True)
class RegexSplit:
    """RegexSplitWithOffsets: what stands between matches of ``delimiter``, nothing empty.

    ``delimiter``: RE2, what its first group matches counts. ``keep``: a delimiter that it matches
    from end to end is a word, too. A text ends at NUL. Raises :class:`VocabtoolError` where the
    model would fail.
    """

    delimiter: str
    keep: str = "()"

    @property
    def local(self) -> bool:
        """Whether no match holds whitespace and anything else, or looks at what is around it.

        What stands behind a NUL and a blank is lost only if texts are not cut first.
        """
        return _apart_from_whitespace(self.delimiter)

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        return cut_further(cut, *split_once(cut.values, self._split))

    def _split(self, text: bytes) -> list[bytes]:
        return cut_at(self.delimiter, self.keep, text.partition(b"\0")[0])

    def describe(self) -> str:
        """In plain words."""
        kept = f", keep those of {shown(self.keep)} as words"
        return f"split at matches of {shown(self.delimiter)}{kept}"


def cut_at(delimiter: str, keep: str, text: bytes) -> list[bytes]:
    """What stands between matches of ``delimiter``, and those that ``keep`` matches, too.

    Raises :class:`VocabtoolError` for a pattern that is none, or that matches nothing at all.
    """
    kept = _compiled(keep)
    words, read = [], 0
    for start, end, after in _delimiters(delimiter, text):
        if start > read:
            words.append(text[read:start])
        if kept.fullmatch(text[start:end]):
            words.append(text[start:end])
        read = after
    return [*words, text[read:]] if read < len(text) else words


@cache
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as error:
        raise VocabtoolError(
            f"the model splits at {pattern!r}, which is no regular expression of RE2: {error}"
        ) from error


def _delimiters(pattern: str, text: bytes) -> Iterator[tuple[int, int, int]]:
    """Where the first group of each match starts and ends, and where the match itself ends."""
    regex = _compiled(pattern)
    if not regex.groups:
        return
    read = 0
    behind = _LOOKS_BACK.search(pattern) is not None
    while match := regex.search(text[read:] if behind else text, 0 if behind else read):
        offset = read if behind else 0
        start, end, after = (offset + at for at in (*match.span(1), match.end()))
        if after == read or start < offset:
            raise VocabtoolError(
                f"the model splits at {pattern!r}, which matches nothing at all in "
                f"{text[:40]!r}: the model never ends on it"
            )
        yield start, end, after
        read = after


@cache
def _apart_from_whitespace(pattern: str) -> bool:
    """Whether each alternative is one class of blanks only, or several that hold none."""
    found = _PLAIN.fullmatch(pattern)
    if found is None or (pattern[0] == "(") != (pattern[-1] == ")"):
        return False
    return all(map(_clean, _alternatives(found["all"])))


def _alternatives(pattern: str) -> Iterator[list[tuple[str, str]]]:
    """The classes of each alternative, each with its ``+`` or without."""
    classes: list[tuple[str, str]] = []
    for name, more, bar in re.findall(rf"({_CLASS})(\+?)(\|?)", pattern):
        classes.append((name, more))
        if bar:
            yield classes
            classes = []
    yield classes


def _clean(classes: list[tuple[str, str]]) -> bool:
    blank = [_holds(name) for name, _ in classes]
    if not any(held for held, _ in blank):
        return True
    (held, others), (_, more) = blank[0], classes[0]
    return len(classes) == 1 and not (more and held and others)


@cache
def _holds(name: str) -> tuple[bool, bool]:
    """Whether a class holds ASCII whitespace, and whether it may hold anything else."""
    regex = _compiled(name)
    blank = any(regex.fullmatch(bytes((byte,))) for byte in WHITESPACE)
    return blank, _ONLY_BLANKS.fullmatch(name) is None


@dataclass(frozen=True, slots=True)
class ScriptSplit:
    """UnicodeScriptTokenizeWithOffsets on text that was decoded: runs of one script.

    Common and Inherited are scripts like others, and whitespace is Common. It is left out only
    after that: ``a b`` is cut, ``! ?`` is one word ``!?``. ``keep_whitespace``: runs of
    whitespace are words.
    """

    keep_whitespace: bool = False

    @property
    def local(self) -> bool:
        """Whether whitespace parts what stands around it."""
        return self.keep_whitespace

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        return cut_further(cut, *split_once(cut.values, self._split))

    def _split(self, text: bytes) -> list[bytes]:
        decoded = text.decode("utf-8", "replace")
        if self.keep_whitespace:
            runs = groupby(decoded, lambda c: (_script(c), c in BLANKS))
            return ["".join(run).encode() for _, run in runs]
        words = ("".join(c for c in run if c not in BLANKS) for _, run in groupby(decoded, _script))
        return [word.encode() for word in words if word]

    def describe(self) -> str:
        """In plain words."""
        kept = "keep" if self.keep_whitespace else "leave out"
        return f"split where the script changes, {kept} whitespace"


@cache
def _script(character: str) -> str:
    import unicodedataplus

    name: str = unicodedataplus.script(character)
    return name


@dataclass(frozen=True, slots=True)
class WhitespaceSplit:
    """WhitespaceTokenizeWithOffsets: what stands between whitespace of Unicode, nothing empty.

    ``version`` 1 takes text that was decoded, 2 takes bytes and leaves a word that stands before
    whitespace of n bytes (a no-break space) the first n - 1 of them: a flaw of the op that words
    must share to be found.
    """

    version: Literal[1, 2] = 1
    local: bool = field(default=True, init=False, repr=False, compare=False)

    def apply(self, cut: Cut) -> Cut:
        """Cut each string."""
        return cut_further(cut, *split_once(cut.values, self._split))

    def _split(self, text: bytes) -> list[bytes]:
        words, read = [], 0
        for blanks in _BLANK_RUN.finditer(text):
            if blanks.start() > read:
                kept = len(blanks[1]) - 1 if self.version == 2 else 0
                words.append(text[read : blanks.start() + kept])
            read = blanks.end()
        return [*words, text[read:]] if read < len(text) else words

    def describe(self) -> str:
        """In plain words."""
        return "split at whitespace of every script"
