"""Describe the steps of a ``tokenizer.json``, and decide where a text can be split into chunks.

Keys and defaults follow huggingface/tokenizers (tokenizers/src/normalizers,
tokenizers/src/pre_tokenizers, tokenizers/src/models).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from vocabtool.vocabulary import printable

Json = dict[str, Any]
Chunking = Literal["behind", "before"]
"""How to split texts into chunks.

``behind``: behind each ASCII blank, for tokenizers whose first step removes all white space.
``before``: before a single blank between printable ASCII characters, for tokenizers that join
a blank to the next word.
"""

META: Final = "▁"
BYTE_LEVEL: Final = "ByteLevel"
METASPACE: Final = "Metaspace"
BEFORE: Final = ("normalizer", "pre_tokenizer")
SEQUENCES: Final = ("normalizers", "pretokenizers")
SHOWN: Final = 40  # characters of a pattern

# Normalizers that treat each character alone or with its combining marks, never across a blank.
LOCAL_NORMALIZERS: Final = frozenset(
    ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents")
)
# Pre-tokenizers that remove white space, and those that only split further.
BLANK_SPLITTERS: Final = frozenset(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"))
CUT_FURTHER: Final = BLANK_SPLITTERS | {"Punctuation", "Digits", "ByteLevel", "Split"}

NORMALIZERS: Final = {
    "Lowercase": "lower-case",
    "StripAccents": "remove combining marks",
    "Nmt": "remove control characters, replace white space by blanks",
    "Precompiled": "replace characters by SentencePiece's table",
    "ByteLevel": "write every byte as a character",
}
PRE_TOKENIZERS: Final = {
    "BertPreTokenizer": "split at white space and around each punctuation mark",
    "Whitespace": "split into runs of letters, digits and _, and runs of other characters",
    "WhitespaceSplit": "split at white space",
    "Punctuation": "split around punctuation",
    "Digits": "split around digits",
    "UnicodeScripts": "split where the script changes",
}
BEHAVIOURS: Final = {
    "Removed": " and remove it",
    "MergedWithPrevious": " and join it to the text before",
    "MergedWithNext": " and join it to the text after",
    "Contiguous": ", adjacent matches together",
}


def list_of_parts(document: Json) -> list[Json]:
    """Return all normalizers, then all pre-tokenizers. A ``Sequence`` is replaced by its parts."""
    return [part for key in BEFORE for part in _parts(document.get(key))]


def is_byte_level(document: Json) -> bool:
    return any(part.get("type") == BYTE_LEVEL for part in list_of_parts(document))


def blank_mark(document: Json) -> str | None:
    """Return the marker that replaces a blank, usually ``▁``; ``None`` if blanks stay."""
    for part in list_of_parts(document):
        if part.get("type") == METASPACE:
            mark = part.get("replacement")
            return mark if isinstance(mark, str) and mark else META
        if part.get("type") in ("Replace", "Prepend") and META in (
            part.get("content"),
            part.get("prepend"),
        ):
            return META
    return None


def is_mark_before_all(document: Json) -> bool:
    """Return whether every part of a text begins with the marker (``▁``), even without a blank.

    Added tokens separate the parts.
    """
    return any(
        part.get("type") == "Prepend"
        or (part.get("type") == METASPACE and _scheme(part) == "always")
        for part in list_of_parts(document)
    )


def find_chunking(document: Json) -> Chunking | None:
    """Return where texts can be cut without changing their words; ``None`` if nowhere.

    - ``behind``: After each blank.
    - ``before``: Before each blank, for tokenizers that join a blank to the next word.
    """
    normalizers = _parts(document.get("normalizer"))
    if not all(part.get("type") in LOCAL_NORMALIZERS for part in normalizers):
        return None
    first, *others = list(_parts(document.get("pre_tokenizer"))) or [{}]
    if first.get("type") in BLANK_SPLITTERS:
        alone = all(
            _scheme(part) == "always"
            if part.get("type") == METASPACE
            else part.get("type") in CUT_FURTHER
            for part in others
        )
        return "behind" if alone else None
    cuts = {BYTE_LEVEL: first.get("use_regex", True), METASPACE: first.get("split", True)}
    reaches_behind = any(
        token.get("rstrip") is True for token in document.get("added_tokens") or []
    )
    if others or reaches_behind or cuts.get(str(first.get("type"))) is not True:
        return None
    return "before"


def describe(document: Json, model_type: str, added: dict[str, int]) -> Iterator[str]:
    yield "read bytes that are not UTF-8 as U+FFFD"
    if added:
        shown = ", ".join(printable(token.encode("utf-8", "replace")) for token in list(added)[:3])
        tokens = f"{len(added):,} added token" + "s" * (len(added) > 1)
        yield f"keep {tokens} whole: {shown}" + ", ..." * (len(added) > 3)
    for part in _parts(document.get("normalizer")):
        yield from _normalizer(part)
    for part in _parts(document.get("pre_tokenizer")):
        yield _pre_tokenizer(part)
    yield _model(document["model"], model_type)


def _normalizer(part: Json) -> Iterator[str]:
    match part.get("type"):
        case "BertNormalizer":
            lower = part.get("lowercase", True)
            accents = part.get("strip_accents")
            if part.get("clean_text", True):
                yield "remove control characters, replace white space by blanks"
            if part.get("handle_chinese_chars", True):
                yield "put blanks around Chinese characters"
            if lower if accents is None else accents:
                yield "remove accents"
            if lower:
                yield "lower-case"
        case "NFC" | "NFD" | "NFKC" | "NFKD" as form:
            yield f"normalise to {form}"
        case "Strip":
            left, right = part.get("strip_left", True), part.get("strip_right", True)
            ends = "both ends" if left and right else "the beginning" if left else "the end"
            yield f"remove white space at {ends}"
        case "Prepend":
            yield f"put {_quote(part.get('prepend'))} before the text"
        case "Replace":
            yield f"replace {_pattern(part)} by {_quote(part.get('content'))}"
        case kind:
            yield NORMALIZERS.get(str(kind)) or f"{_quote(kind)} (by the tokenizers library)"


def _pre_tokenizer(part: Json) -> str:
    match part.get("type"):
        case "Metaspace":
            mark = _quote(part.get("replacement", META))
            where = {"always": "every part", "first": "the text"}.get(_scheme(part))
            put = f", put one before {where}" if where else ""
            cut = ", split before each one" if part.get("split", True) else ""
            return f"replace blanks by {mark}{put}{cut}"
        case "ByteLevel":
            cut = "split into words with the preceding blank, " * part.get("use_regex", True)
            put = "put a blank before the text, " * part.get("add_prefix_space", True)
            return f"{put}{cut}write every byte as a character"
        case "Split":
            invert = part.get("invert") is True
            behaviour = BEHAVIOURS.get(str(part.get("behavior")), "")
            return f"split at {'all text except ' * invert}{_pattern(part)}{behaviour}"
        case "CharDelimiterSplit":
            return f"split at {_quote(part.get('delimiter'))}"
        case kind:
            told = PRE_TOKENIZERS.get(str(kind))
            return told or f"{_quote(kind)} (by the tokenizers library)"


def _model(model: Json, model_type: str) -> str:
    match model_type:
        case "WordLevel":
            return "look each word up"
        case "WordPiece":
            most = model.get("max_input_chars_per_word", 100)
            prefix = _quote(model.get("continuing_subword_prefix", "##"))
            return (
                f"split each word from left to right into the longest pieces, {prefix} before all "
                f"but the first (WordPiece); words of more than {most} characters are unknown"
            )
        case "BPE":
            return "split each word into characters and merge them into pieces (BPE)"
        case _:
            return f"split each word into its most likely pieces ({model_type})"


def _parts(value: object) -> Iterator[Json]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, dict):
            continue
        inner = next((part[key] for key in SEQUENCES if isinstance(part.get(key), list)), None)
        if inner is None:
            yield part
        else:
            waiting += reversed(inner)


def _scheme(part: Json) -> str:
    scheme = part.get("prepend_scheme")
    if isinstance(scheme, str):
        return scheme
    return "always" if part.get("add_prefix_space", True) else "never"  # as in older files


def _pattern(part: Json) -> str:
    pattern = part.get("pattern")
    if isinstance(pattern, dict):
        if "Regex" in pattern:
            return f"matches of {_quote(pattern['Regex'])}"
        pattern = pattern.get("String")
    return _quote(pattern)


def _quote(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    cut = text[:SHOWN] + "..." * (len(text) > SHOWN)
    return repr(printable(cut.encode("utf-8", "replace")))
