"""Split texts into words with the ``tokenizers`` library, and look up the words.

- A word is usually a pre-token: a part of the text that the model splits into pieces without
  looking at the rest of the text. If a later piece of a pre-token begins with ``▁``, a new word
  begins there.
- A word is unknown if one of its pieces is the unknown piece, or if the model skips a part of it.
- Words are readable text: byte-level characters are decoded, and ``▁`` is replaced by a blank. If
  the tokenizer adds a blank before every word, blanks at the ends of words are removed.
- Bytes that are not UTF-8 reach the library as U+FFFD.

Keys and defaults of a ``tokenizer.json`` follow huggingface/tokenizers
(tokenizers/src/normalizers, tokenizers/src/pre_tokenizers, tokenizers/src/models).
"""

from __future__ import annotations

import binascii
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, count, pairwise
from threading import current_thread, main_thread
from typing import Any, Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vocabtool.errors import InvalidFile, VocabtoolError, library_errors
from vocabtool.formats import hf_tokenizer, sentencepiece
from vocabtool.formats.encoder_files import SENTENCES
from vocabtool.formats.tokenizer_folder import (
    ENGLISH,
    GPT2,
    LLAMA3,
    LOWER,
    QWEN2,
    byte_level,
    split,
)
from vocabtool.system.messages import plural
from vocabtool.tokenization.lookup import SpelledWord, WordLookup, join_lookups, look_up_spelled
from vocabtool.tokenization.text_arrays import (
    Integers,
    TokenCodes,
    Tokens,
    as_bytes,
    cut_before,
    slices,
    starts_of,
    text_bounds,
    text_data,
)
from vocabtool.vocabulary import ALPHABET, Vocabulary, printable

Json = dict[str, Any]
Added = tuple[str, int]  # an added token, such as ``[CLS]``, and its id
Chunking = Literal["behind", "before", "instead"]
"""How to split texts into chunks.

``behind``: behind each ASCII blank, for tokenizers whose first step removes all white space.
``before``: before a single blank between printable ASCII characters, for tokenizers that join
a blank to the next word.
``instead``: as ``before``, without the blank, for tokenizers that put a blank before each text.
"""

META: Final = "▁"
BYTE_LEVEL: Final = "ByteLevel"
METASPACE: Final = "Metaspace"
BEFORE: Final = ("normalizer", "pre_tokenizer")
SHOWN: Final = 40  # characters of a pattern

FINGERPRINTED: Final = ("normalizer", "pre_tokenizer", "added_tokens", "model", LOWER)
ENTRIES: Final = ("vocab", "merges")
BYTE: Final = re.compile("<0x[0-9A-Fa-f]{2}>")
BYTES: Final = {ord(shown): byte for byte, shown in enumerate(ALPHABET)}
MAX_GROWTH: Final = 64  # replacements may make a text at most this many times as long
MAX_STEPS: Final = 1_000  # normalizers and pre-tokenizers; known files have fewer than 20
MAX_PREPENDED: Final = 1024  # bytes that may be prepended to a text
SLICE_BYTES: Final = 1 << 18  # of texts that are split at once: a byte then takes 200 to 1,000

BLANKS: Final = b" \t\n\r"  # white space for all tokenizers; \v and \f are for only some
SPACE: Final = ord(" ")
VISIBLE: Final = bytes(range(ord("!"), ord("~") + 1))  # ASCII
MARKS: Final = re.sub(rb"[_0-9A-Za-z]", b"", VISIBLE)  # ``_`` may be a part of a word


class Pieces(NamedTuple):
    """The m pieces of ``n`` strings.

    - ``offsets``: shape (n + 1,). String ``i`` has ``pieces[offsets[i]:offsets[i + 1]]``.
    - ``spans``: Start and end of each piece in its string, in characters; empty unless requested.
    """

    pieces: list[str]
    ids: Integers
    offsets: Integers
    spans: list[tuple[int, int]]


class Cuts(NamedTuple):
    """The places where texts can be cut into chunks without changing their words.

    ``chunking``: ``None`` if texts cannot be cut. With ``behind``, they are also cut between two
    ASCII characters of ``marks``. ``ends``: which may stand before and behind a single blank.
    """

    chunking: Chunking | None
    marks: bytes = b""
    ends: tuple[bytes, bytes] = (VISIBLE, VISIBLE)

    def chunks(self, texts: pa.StringArray) -> Tokens:
        if self.chunking is None:
            return Tokens.whole(texts)
        data = text_data(texts)
        bounds = text_bounds(texts) - text_bounds(texts)[0]
        is_start = np.zeros(len(data) + 1, np.bool_)  # for each byte: whether a chunk begins there
        if self.chunking == "behind":
            is_start[1:] = _are_in(BLANKS, data)
            if self.marks:
                is_mark = _are_in(self.marks, data)
                is_start[1:-1] |= is_mark[:-1] & is_mark[1:]
            is_start[bounds] = True
            return Tokens(*cut_before(texts, np.flatnonzero(is_start)))
        if len(data) > 2:
            before, behind = (_are_in(end, data) for end in self.ends)
            is_start[1:-2] = (data[1:-1] == SPACE) & before[:-2] & behind[2:]
            # A neighbour of the first or the last character of a text is in another text.
            is_start[np.maximum(bounds - 1, 0)] = is_start[bounds] = False
        is_blank = is_start.copy()
        if self.chunking == "instead":
            is_start[1:] |= is_blank[:-1]
        is_start[bounds] = True
        starts = np.flatnonzero(is_start)
        chunks = Tokens(*cut_before(texts, starts))
        return chunks.filter(~is_blank[starts[:-1]]) if self.chunking == "instead" else chunks


def _are_in(characters: bytes, data: NDArray[np.uint8]) -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[list(characters)] = True
    return table[data]


class HFWordTokenizer:
    """Splits texts into words, and each distinct word into pieces, with the ``tokenizers`` library.

    - ``document``: The parsed tokenizer.json. Its entries and merges are removed.
    - ``raw``: Whether the entries of the vocabulary are plain bytes, not byte-level characters.
    - ``fingerprint``: Hexadecimal SHA-256 of the parts of the file that determine words and pieces.
    - ``special_tokens``: The number of special tokens that the tokenizer adds to a text.

    Methods are thread-safe. Raises :class:`InvalidFile` if the library rejects the file, and
    :class:`VocabtoolError` if the tokenizer skips merges at random (BPE dropout).
    """

    def __init__(self, document: Json, vocabulary: Vocabulary, *, raw: bool = False) -> None:
        from tokenizers import Tokenizer

        _check_parts(document)
        data = json.dumps(without_own_keys(document))
        facts = {key: document[key] for key in FINGERPRINTED if key in document}
        digest = hashlib.sha256(b"vocabtool tokenizer.json 1\n")
        digest.update(json.dumps(facts).encode())
        self.fingerprint = digest.hexdigest()
        for key in ENTRIES:  # a large part of the memory; the library has them, too
            document["model"].pop(key, None)
        self.document, self._vocabulary, self._raw = document, vocabulary, raw
        self.truncation: Json = document.get("truncation") or {}

        with library_errors("the tokenizers library rejects the file"):
            full = Tokenizer.from_str(data)
            self._splitter: Any = Tokenizer.from_str(json.dumps(_splitter(document, full)))
            self._model: Any = Tokenizer(full.model)
            self.special_tokens: int = full.num_special_tokens_to_add(is_pair=False)
            added = sorted(full.get_added_tokens_decoder().items())
            splits = self._splitter.get_added_tokens_decoder().items()
        self._model_type = type(full.model).__name__
        self._whole_words = self._model_type == "WordLevel"
        dropout = getattr(full.model, "dropout", None)
        if dropout:
            raise VocabtoolError(
                f"the tokenizer skips merges at random (dropout {dropout:g}), so its words differ "
                "from run to run; set model.dropout to null in the file"
            )

        self._contents = {number: token.content for number, token in splits}
        # The id of each added token. Before 0.23, the library numbered some in another way.
        self._added = {
            token.content: vocabulary.id_of(token.content)
            if token.content.encode() in vocabulary.positions
            else number
            for number, token in added
        }
        unknown_token = getattr(full.model, "unk_token", None)
        if unknown_token is None:
            unknown_id = document["model"].get("unk_id")
        else:
            unknown_id = full.model.token_to_id(unknown_token)
        self._unknown_token: str | None = unknown_token
        self.unknown_id: int = -1 if unknown_id is None else unknown_id
        self._skips_silently = self._model_type == "BPE" and unknown_id is None

        self._mark = blank_mark(document)
        # Whether each part between added tokens begins with the marker, even without a blank.
        self._mark_says_nothing = any(
            step.get("type") == "Prepend"
            or (step.get("type") == METASPACE and _scheme(step) == "always")
            for step in list_of_parts(document)
        )
        self._byte_level = is_byte_level(document)
        self._lower = document.get(LOWER) is True
        with library_errors("the tokenizers library fails on a text"):
            self._cuts = find_cuts(document, full, [*self._added])

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        chunks = TokenCodes.encode(Tokens(*self._cuts.chunks(texts)))
        first, *others = slices(chunks.distinct, SLICE_BYTES)
        lookup = self._look_up(first)
        if others:
            lookup = join_lookups(chain([lookup], map(self._look_up, others)))
        return lookup.of_texts(chunks.codes, chunks.offsets)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        if self._whole_words:
            return ()
        text = word.decode("utf-8", "replace")
        if text in self._added:
            return (word,)
        # The inverse of _readable.
        if self._byte_level:
            text = "".join(ALPHABET[byte] for byte in word)
        elif self._mark is not None:
            mark = self._mark if self._mark_says_nothing and text.strip(" ") else ""
            text = mark + text.replace(" ", self._mark)
        return tuple(map(self._entry, self._cut([text]).pieces))

    def chunks_of(self, texts: pa.StringArray) -> tuple[pa.StringArray, Integers]:
        """Return chunks, and offsets: shape (n + 1,); whole texts if cuts might change words."""
        chunking = None if self._cuts.chunking == "instead" else self._cuts.chunking
        return Cuts(chunking).chunks(texts)

    def with_tokens(self, words: Iterable[str], **flags: bool) -> Any:
        """Return a ``tokenizers.Tokenizer`` with added tokens. ``flags``: of ``AddedToken``."""
        import tokenizers

        splitter = self._splitter
        copy = tokenizers.Tokenizer(self._model.model)
        if splitter.normalizer is not None:
            copy.normalizer = splitter.normalizer
        if splitter.pre_tokenizer is not None:
            copy.pre_tokenizer = splitter.pre_tokenizer
        tokens = sorted(splitter.get_added_tokens_decoder().items())
        copy.add_tokens([token for _, token in tokens])
        copy.add_tokens([tokenizers.AddedToken(word, **flags) for word in words])
        return copy

    def describe(self) -> tuple[str, ...]:
        return tuple(_describe(self.document, self._model_type, self._added))

    def _look_up(self, texts: pa.StringArray) -> WordLookup:
        """Return the words of texts without cutting the texts into chunks."""
        strings = [text.decode("utf-8", "replace") for text in as_bytes(texts)]
        if self._lower:
            strings = [string.lower() for string in strings]
        with library_errors("the tokenizers library fails on a text"):
            encoded = _encode(self._splitter, strings)
        # The pre-tokens of all texts. An added token, with an id above 0, becomes a pair.
        tokens: list[str | Added] = encoded.tokens
        ids = np.array(encoded.ids, np.int64)
        for at in np.flatnonzero(ids).tolist():
            content = self._contents[int(ids[at])]
            tokens[at] = (content, self._added[content])
        offsets = _offsets(encoded.word_ids, len(strings))
        places = {token: at for at, token in enumerate(dict.fromkeys(tokens))}
        codes = np.fromiter(map(places.__getitem__, tokens), np.int32, len(tokens))
        pretokens = [token for token in places if isinstance(token, str)]
        words_of = dict(zip(pretokens, self._words(pretokens), strict=True))
        words = []
        for token in places:
            if isinstance(token, str):
                words.append(words_of[token])
            else:
                content, id_ = token
                entry = content.encode()
                words.append([SpelledWord(entry, ((entry, id_),), known=True)])
        flat = chain.from_iterable(words)
        bounds = starts_of([*map(len, words)])
        lookup = look_up_spelled(flat, bounds, self._vocabulary, self.unknown_id)
        if self._whole_words:
            lookup = lookup._replace(pieces=None, spelled=None)
        return lookup.of_texts(codes, offsets)

    def _cut(self, strings: Sequence[str], *, spans: bool = False) -> Pieces:
        """Return the pieces of each string. A string that the model rejects has no pieces."""
        try:
            with library_errors("the tokenizers library fails on a word"):
                encoded = _encode(self._model, strings)
        except VocabtoolError:
            if len(strings) < 2:
                return Pieces([], np.zeros(0, np.int64), np.zeros(len(strings) + 1, np.int64), [])
            cuts = [self._cut([string], spans=spans) for string in strings]
            return Pieces(
                [piece for cut in cuts for piece in cut.pieces],
                np.concatenate([cut.ids for cut in cuts]),
                starts_of([len(cut.pieces) for cut in cuts]),
                [span for cut in cuts for span in cut.spans],
            )
        offsets = _offsets(encoded.word_ids, len(strings))
        ids = np.array(encoded.ids, np.int64)
        return Pieces(encoded.tokens, ids, offsets, encoded.offsets if spans else [])

    def _join(self, pieces: Sequence[str]) -> bytes:
        """Return the text that BPE pieces spell. With byte fallback, ``<0x41>`` is the byte A."""
        model = self.document["model"]
        prefix = model.get("continuing_subword_prefix") or ""
        suffix = model.get("end_of_word_suffix") or ""
        bare = [piece.removeprefix(prefix) if at else piece for at, piece in enumerate(pieces)]
        bare[-1:] = [piece.removesuffix(suffix) for piece in bare[-1:]]
        falls_back = bool(model.get("byte_fallback"))
        return b"".join(
            bytes.fromhex(piece[3:5]) if falls_back and BYTE.fullmatch(piece) else piece.encode()
            for piece in bare
        )

    def _words(self, pretokens: list[str]) -> list[list[SpelledWord]]:
        """Return the words of each pre-token. A piece that begins with ``▁`` begins a new word."""
        mark = self._mark or META
        has_marks = self._mark is not None and not self._whole_words
        has_several_words = has_marks and any(mark in pretoken[1:] for pretoken in pretokens)
        cuts = self._cut(pretokens, spans=has_several_words)
        entries = list(map(self._entry, cuts.pieces))
        ids = cuts.ids.tolist()
        rows = []
        for pretoken, (first, last) in zip(pretokens, pairwise(cuts.offsets.tolist()), strict=True):
            known = first < last and self.unknown_id not in ids[first:last]
            if self._whole_words and pretoken == self._unknown_token:
                known = True
            if self._skips_silently and self._join(cuts.pieces[first:last]) != pretoken.encode():
                known = False
            starts = [first]  # the first piece of each word
            # If the model skips unknown characters, the position of a piece is uncertain.
            if has_several_words and (known or self.unknown_id >= 0):
                starts += [i for i in range(first + 1, last) if cuts.pieces[i].startswith(mark)]
            words = []
            for start, end in pairwise((*starts, last)):
                text_start = cuts.spans[start][0] if start > first else 0
                text_end = cuts.spans[end][0] if end < last else len(pretoken)
                text = self._readable(pretoken[text_start:text_end])
                is_known = known or (len(starts) > 1 and self.unknown_id not in ids[start:end])
                pieces = tuple(zip(entries[start:end], ids[start:end], strict=True))
                words.append(SpelledWord(text, pieces, is_known))
            rows.append(words)
        return rows

    def _entry(self, piece: str) -> bytes:
        return bytes(BYTES[ord(character)] for character in piece) if self._raw else piece.encode()

    def _readable(self, pretoken: str) -> bytes:
        """Return the text that a pre-token stands for (see the top of this file)."""
        if self._byte_level:
            codes = [BYTES.get(ord(character), -1) for character in pretoken]
            return pretoken.encode() if -1 in codes else bytes(codes)
        if self._mark is None:
            return pretoken.encode()
        text = pretoken.replace(self._mark, " ")
        bare = text.strip(" ") if self._mark_says_nothing else text
        return (bare or text).encode()


def without_own_keys(document: Json) -> Json:
    """Return a ``tokenizer.json`` that the library accepts. It refuses unknown keys."""
    return {key: value for key, value in document.items() if key != LOWER}


def _splitter(document: Json, tokenizer: Any) -> Json:
    """Describe a tokenizer that splits texts into pre-tokens and added tokens, but not further.

    Added tokens get ids from 1 on, and all pre-tokens the id 0. If several added tokens have the
    same normalised text, the library would match any of them; only the first of them is added.
    """
    added, normalised_texts = [], set()
    for token in document.get("added_tokens") or []:
        text = token["content"]
        if token.get("normalized") is True:
            if tokenizer.normalizer is not None:
                text = tokenizer.normalizer.normalize_str(text)
            if text in normalised_texts:
                continue
            normalised_texts.add(text)
        added.append(token)
    contents = {token["content"] for token in added}
    piece = next(c for c in map(chr, count(1)) if c not in contents)  # no added token
    model = {"type": "Unigram", "vocab": [[piece, 0.0]], "unk_id": 0}
    return {**{key: document.get(key) for key in BEFORE}, "added_tokens": added, "model": model}


def _offsets(rows: list[int], count: int) -> Integers:
    """Return where the tokens of each of ``count`` strings begin. ``rows``: each token's string."""
    return starts_of(np.bincount(np.array(rows, np.int64), minlength=count))


def _encode(tokenizer: Any, strings: Sequence[str]) -> Any:
    options = {"is_pretokenized": True, "add_special_tokens": False}
    # encode_batch releases the interpreter's lock, but starts threads. Later forks would then warn.
    if current_thread() is main_thread():
        return tokenizer.encode(strings, **options)
    (encoded,) = tokenizer.encode_batch([strings], **options)
    return encoded


def _check_parts(document: Json) -> None:
    """Refuse many steps, steps that make texts far longer, and damaged tables of characters."""
    steps = list_of_parts(document)
    if len(steps) > MAX_STEPS:
        raise InvalidFile(f"{len(steps):,} normalizers and pre-tokenizers (allowed: {MAX_STEPS:,})")
    growth, prepended = 1, 0
    for step in steps:  # steps are recognised by their keys, because older files have no types
        table = step.get("precompiled_charsmap")
        if isinstance(table, str) and table:
            try:
                charsmap = binascii.a2b_base64(table, strict_mode=True)
            except ValueError as error:
                raise InvalidFile(f"precompiled_charsmap: wanted base64: {error}") from error
            sentencepiece.check_charsmap(charsmap)
        prefix, content = step.get("prepend"), step.get("content")
        if isinstance(prefix, str):
            prepended += len(prefix.encode("utf-8", "replace"))
        if isinstance(content, str):
            pattern = step.get("pattern")
            is_regex = isinstance(pattern, dict) and "Regex" in pattern
            # A regular expression may match between two characters, which both stay.
            growth *= max(1, len(content.encode("utf-8", "replace")) + is_regex)
    if growth > MAX_GROWTH or prepended > MAX_PREPENDED:
        raise InvalidFile(
            f"the normalizer can make a text {growth:,} times as long and prepend {prepended:,} "
            f"bytes (allowed: {MAX_GROWTH} times and {MAX_PREPENDED:,} bytes)"
        )


# What a tokenizer.json says.

# Normalizers that treat each character alone or with its combining marks, never across a blank.
LOCAL_NORMALIZERS: Final = frozenset(
    ("BertNormalizer", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Precompiled", "StripAccents")
)
# SentencePiece's way to write the blank before each word.
SENTENCEPIECE: Final[list[Json]] = [
    {"type": "Prepend", "prepend": META},
    {"type": "Replace", "pattern": {"String": " "}, "content": META},
]
REACHING: Final = ("normalized", "lstrip", "rstrip")  # flags of added tokens
AFFIXES: Final = ("ignore_merges", "continuing_subword_prefix", "end_of_word_suffix")  # of BPE
# As the published files of Llama 3 and Qwen 2 spell ENGLISH.
ENGLISH_AS_PUBLISHED: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
# Regular expressions with which a blank begins a word, and never ends or joins words.
BLANK_FIRST: Final = [
    *map(split, (GPT2, LLAMA3, QWEN2)),
    *(split(pattern.replace(ENGLISH, ENGLISH_AS_PUBLISHED)) for pattern in (LLAMA3, QWEN2)),
]
*_, WRITE_BYTES = byte_level((LLAMA3,))
# Pre-tokenizers that remove white space, and those that only split further.
BLANK_SPLITTERS: Final = frozenset(("BertPreTokenizer", "Whitespace", "WhitespaceSplit"))
CUT_FURTHER: Final = BLANK_SPLITTERS | {"Punctuation", "Digits", "ByteLevel", "Split"}

# What parts do, in plain words. Other parts are named with their settings.
PLAIN: Final = {
    "Lowercase": "lower-case",
    "StripAccents": "remove combining marks",
    "Precompiled": "replace characters by SentencePiece's table",
    "BertPreTokenizer": "split at white space and around each punctuation mark",
    "Whitespace": "split into runs of letters, digits and _, and runs of other characters",
    "WhitespaceSplit": "split at white space",
    "Punctuation": "split around punctuation",
    "Digits": "split around digits",
    "WordLevel": "look each word up",
    "BPE": "split each word into characters and merge them into pieces (BPE)",
}


def list_of_parts(document: Json) -> list[Json]:
    """Return all normalizers, then all pre-tokenizers. A ``Sequence`` is replaced by its parts."""
    return [step for key in BEFORE for step in hf_tokenizer.parts(document.get(key))]


def is_byte_level(document: Json) -> bool:
    return any(step.get("type") == BYTE_LEVEL for step in list_of_parts(document))


def blank_mark(document: Json) -> str | None:
    """Return the marker that replaces a blank, usually ``▁``; ``None`` if blanks stay."""
    for step in list_of_parts(document):
        if step.get("type") == METASPACE:
            mark = step.get("replacement")
            return mark if isinstance(mark, str) and mark else META
        if step.get("type") in ("Replace", "Prepend") and META in (
            step.get("content"),
            step.get("prepend"),
        ):
            return META
    return None


def find_cuts(document: Json, tokenizer: Any, added: list[str]) -> Cuts:
    """Return where texts can be cut without changing their words. ``added``: the added tokens."""
    normalizer = tokenizer.normalizer
    tokens = [*added]  # as they are, and normalised
    if normalizer is not None:
        tokens += map(normalizer.normalize_str, added)
    if any(character.isspace() for token in tokens for character in token):
        return Cuts(None)
    if _is_marked_bpe(document, tokenizer):
        # No cut beside a character with which an added token ends or begins.
        lasts = {token[-1:].encode() for token in tokens}
        firsts = {token[:1].encode() for token in tokens}
        before = bytes(c for c in VISIBLE if bytes([c]) not in lasts)
        behind = bytes(c for c in VISIBLE if bytes([c]) not in firsts)
        return Cuts("instead", ends=(before, behind))
    normalizers = [step.get("type") for step in hf_tokenizer.parts(document.get("normalizer"))]
    if not LOCAL_NORMALIZERS.issuperset(normalizers):
        return Cuts(None)
    first, *others = list(hf_tokenizer.parts(document.get("pre_tokenizer"))) or [{}]
    chunking = _blanks_to_cut_at(first, others, document.get("added_tokens") or [])
    if "Precompiled" in normalizers:  # a table may change a blank with the character behind it
        shown = VISIBLE.decode()
        changed = [normalizer.normalize_str(character) for character in shown]
        blank_stays = normalizer.normalize_str(" ") == " "
        stays = blank_stays and all(text and text in shown for text in changed)
        return Cuts("before" if chunking and stays else None)
    # BERT makes each mark a word, so texts may be cut between marks, but not in an added token.
    pairs = chain.from_iterable(pairwise(token.encode()) for token in tokens)
    if (
        first.get("type") == "BertPreTokenizer"
        and not document.get(LOWER)
        and not any(left in MARKS and right in MARKS for left, right in pairs)
    ):
        return Cuts(chunking, MARKS)
    return Cuts(chunking)


def _blanks_to_cut_at(first: Json, others: list[Json], added: list[Json]) -> Chunking | None:
    """Return whether pre-tokenizers allow cuts behind or before blanks; ``None`` if at neither."""
    kind = first.get("type")
    if kind in BLANK_SPLITTERS:
        for step in others:
            if step.get("type") == METASPACE:
                if _scheme(step) != "always":  # it treats the first word of a text differently
                    return None
            elif step.get("type") not in CUT_FURTHER:
                return None
        return "behind"
    if any(token.get("rstrip") is True for token in added):  # includes the blank behind the token
        return None
    if others == [WRITE_BYTES] and first in BLANK_FIRST:
        return "before"
    if others or kind not in (BYTE_LEVEL, METASPACE):
        return None
    splits = first.get("use_regex" if kind == BYTE_LEVEL else "split", True)
    return "before" if splits is True else None


def _is_marked_bpe(document: Json, tokenizer: Any) -> bool:
    """Whether this is SentencePiece's BPE, and no piece continues behind the beginning of a word.

    Then the pieces of each word are the same, whatever is around it.
    """
    if document.get("pre_tokenizer") is not None:
        return False
    if list(hf_tokenizer.parts(document.get("normalizer"))) != SENTENCEPIECE:
        return False
    added = document.get("added_tokens") or []
    if any(token.get(flag) for token in added for flag in REACHING):
        return False
    model = document["model"]
    if type(tokenizer.model).__name__ != "BPE" or any(model.get(key) for key in AFFIXES):
        return False
    entries = tokenizer.get_vocab()
    needed = {META, tokenizer.model.unk_token}
    return needed <= entries.keys() and not any(META in entry.lstrip(META) for entry in entries)


def _describe(document: Json, model_type: str, added: dict[str, int]) -> Iterator[str]:
    yield "read bytes that are not UTF-8 as U+FFFD"
    if document.get(LOWER) is True:
        yield f"lower-case ({SENTENCES})"
    if added:
        shown = ", ".join(printable(token.encode("utf-8", "replace")) for token in list(added)[:3])
        more = ", ..." if len(added) > 3 else ""
        yield f"keep {plural(len(added), 'added token', 'added tokens')} whole: {shown}{more}"
    for step in list_of_parts(document):
        yield from _describe_part(step)
    model = document["model"]
    if model_type == "WordPiece":
        most = model.get("max_input_chars_per_word", 100)
        prefix = _quote(model.get("continuing_subword_prefix", "##"))
        yield (
            f"split each word from left to right into the longest pieces, {prefix} before all "
            f"but the first (WordPiece); words of more than {most} characters are unknown"
        )
    else:
        likely = f"split each word into its most likely pieces ({model_type})"
        yield PLAIN.get(model_type, likely)


def _describe_part(step: Json) -> Iterator[str]:
    match step.get("type"):
        case "BertNormalizer":
            lower = step.get("lowercase", True)
            strip_accents = step.get("strip_accents")
            if step.get("clean_text", True):
                yield "remove control characters, replace white space by blanks"
            if step.get("handle_chinese_chars", True):
                yield "put blanks around Chinese characters"
            if strip_accents or (lower and strip_accents is None):
                yield "remove accents"
            if lower:
                yield "lower-case"
        case "Metaspace":
            mark = _quote(step.get("replacement", META))
            where = {"always": "every part", "first": "the text"}.get(_scheme(step))
            put = f", put one before {where}" if where else ""
            cut = ", split before each one" if step.get("split", True) else ""
            yield f"replace blanks by {mark}{put}{cut}"
        case "ByteLevel":
            changes = ["write every byte as a character"]
            if step.get("use_regex", True):
                changes.insert(0, "split into words with the preceding blank")
            if step.get("add_prefix_space", True):
                changes.insert(0, "put a blank before the text")
            yield ", ".join(changes)
        case str(kind) if kind in PLAIN:
            yield PLAIN[kind]
        case kind:
            settings = [
                f"{name if name.isidentifier() else _quote(name)} {_quote(value)}"
                for name, value in step.items()
                if name != "type"
            ]
            yield ", ".join((_quote(kind), *settings))


def _scheme(step: Json) -> str:
    """Return where a Metaspace step puts a mark: before each part, the first one, or none."""
    scheme = step.get("prepend_scheme")
    if isinstance(scheme, str):
        return scheme
    return "always" if step.get("add_prefix_space", True) else "never"  # as in older files


def _quote(value: object) -> str:
    text = str(value)
    shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    return repr(printable(shown.encode("utf-8", "replace")))
