"""The steps of a ``tokenizer.json`` in plain words, and what they mean for words.

Keys and defaults as huggingface/tokenizers writes them (tokenizers/src/normalizers,
tokenizers/src/pre_tokenizers, tokenizers/src/models). Only the file is looked at here, for people
and for what may be told beforehand; cutting is left to the library (``hf_tokenizer.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

from vocabtool.vocabulary import printable

Json = dict[str, Any]
Chunking = Literal["behind", "before"]
"""Cut texts behind each ASCII blank, for tokenizers whose first cut takes all white space out; or
before a blank that stands alone between printable ASCII characters, for those that keep a blank
with the word behind it."""

META: Final = "▁"
BYTE_LEVEL: Final = "ByteLevel"
METASPACE: Final = "Metaspace"
BEFORE: Final = ("normalizer", "pre_tokenizer")
SEQUENCES: Final = ("normalizers", "pretokenizers")
SHOWN: Final = 40  # characters of a pattern

# Normalizers that treat each character alone, or with marks behind it: never across a blank.
LOCAL_NORMALIZERS: Final = frozenset(
    ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents")
)
# Pre-tokenizers that take white space out, and those that cut further what is given to them.
BLANK_SPLITTERS: Final = frozenset(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"))
CUT_FURTHER: Final = BLANK_SPLITTERS | {"Punctuation", "Digits", "ByteLevel", "Split"}

NORMALIZERS: Final = {
    "Lowercase": "lower-case",
    "StripAccents": "take combining marks off",
    "Nmt": "take control characters out, white space becomes a blank",
    "Precompiled": "replace characters by SentencePiece's table",
    "ByteLevel": "show every byte as a character",
}
PRE_TOKENIZERS: Final = {
    "BertPreTokenizer": "split at white space and around each punctuation mark",
    "Whitespace": "take runs of letters, digits and _, and runs of other signs",
    "WhitespaceSplit": "split at white space",
    "Punctuation": "split around punctuation",
    "Digits": "split around digits",
    "UnicodeScripts": "split where the script changes",
}
BEHAVIOURS: Final = {
    "Removed": ", which is left out",
    "MergedWithPrevious": ", which stays with what is before it",
    "MergedWithNext": ", which stays with what follows",
    "Contiguous": ", runs of it together",
}


def list_of_parts(document: Json) -> list[Json]:
    """Normalizers and pre-tokenizers in their order, those inside a Sequence one by one."""
    return [part for key in BEFORE for part in _parts(document.get(key))]


def is_byte_level(document: Json) -> bool:
    """Whether the model is given bytes, each shown as a character."""
    return any(part.get("type") == BYTE_LEVEL for part in list_of_parts(document))


def blank_mark(document: Json) -> str | None:
    """What stands for a blank in what the model is given, and begins a word; mostly ``▁``."""
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
    """Whether the mark of a blank is put before what no blank stands before, too."""
    return any(
        part.get("type") == "Prepend"
        or (part.get("type") == METASPACE and _scheme(part) == "always")
        for part in list_of_parts(document)
    )


def find_chunking(document: Json) -> Chunking | None:
    """How texts may be cut before a tokenizer gets them, with the same words; ``None``: not.

    Its normalizers must not look beyond a blank. Then texts may be cut behind blanks where the
    first pre-tokenizer takes all white space out and later ones treat what they are given alone;
    and before blanks where it is a single ByteLevel or Metaspace that begins a word there. (The
    pattern of a ByteLevel never goes on over a blank, and takes one with what follows it.) Added
    tokens must not reach over a blank.
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
    """What happens to a text, a line for each step."""
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
                yield "take control characters out, white space becomes a blank"
            if part.get("handle_chinese_chars", True):
                yield "set Chinese characters apart"
            if lower if accents is None else accents:
                yield "take accents off"
            if lower:
                yield "lower-case"
        case "NFC" | "NFD" | "NFKC" | "NFKD" as form:
            yield f"normalise to {form}"
        case "Strip":
            left, right = part.get("strip_left", True), part.get("strip_right", True)
            ends = "both ends" if left and right else "its beginning" if left else "its end"
            yield f"take white space off {ends}"
        case "Prepend":
            yield f"put {_quote(part.get('prepend'))} before it"
        case "Replace":
            yield f"replace {_pattern(part)} by {_quote(part.get('content'))}"
        case kind:
            yield NORMALIZERS.get(str(kind)) or f"{_quote(kind)}, as the tokenizers library does it"


def _pre_tokenizer(part: Json) -> str:
    match part.get("type"):
        case "Metaspace":
            mark = _quote(part.get("replacement", META))
            where = {"always": "every stretch", "first": "the text"}.get(_scheme(part))
            put = f", put one before {where}" if where else ""
            cut = ", split before each" if part.get("split", True) else ""
            return f"write blanks as {mark}{put}{cut}"
        case "ByteLevel":
            cut = "split into words with the blank before them, " * part.get("use_regex", True)
            put = "put a blank before it, " * part.get("add_prefix_space", True)
            return f"{put}{cut}show every byte as a character"
        case "Split":
            invert = part.get("invert") is True
            behaviour = BEHAVIOURS.get(str(part.get("behavior")), "")
            return f"{'keep only' if invert else 'split at'} {_pattern(part)}{behaviour}"
        case "CharDelimiterSplit":
            return f"split at {_quote(part.get('delimiter'))}"
        case kind:
            told = PRE_TOKENIZERS.get(str(kind))
            return told or f"{_quote(kind)}, as the tokenizers library does it"


def _model(model: Json, model_type: str) -> str:
    match model_type:
        case "WordLevel":
            return "look each word up whole"
        case "WordPiece":
            most = model.get("max_input_chars_per_word", 100)
            prefix = _quote(model.get("continuing_subword_prefix", "##"))
            return (
                f"cut each word into the longest pieces from left to right, {prefix} before all "
                f"but the first (WordPiece); one of more than {most} characters is unknown"
            )
        case "BPE":
            return "join each word's characters to pieces, merge by merge (BPE)"
        case _:
            return f"cut each word into its likeliest pieces ({model_type})"


def _parts(value: object) -> Iterator[Json]:
    """A step, or those of a Sequence in order; however deep, by a stack of our own."""
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
    """When a Metaspace puts its mark before; older files say it by ``add_prefix_space``."""
    scheme = part.get("prepend_scheme")
    if isinstance(scheme, str):
        return scheme
    return "always" if part.get("add_prefix_space", True) else "never"


def _pattern(part: Json) -> str:
    pattern = part.get("pattern")
    if isinstance(pattern, dict):
        if "Regex" in pattern:
            return f"what matches {_quote(pattern['Regex'])}"
        pattern = pattern.get("String")
    return _quote(pattern)


def _quote(value: object) -> str:
    text = value if isinstance(value, str) else str(value)
    cut = text[:SHOWN] + "..." * (len(text) > SHOWN)
    return repr(printable(cut.encode("utf-8", "replace")))
