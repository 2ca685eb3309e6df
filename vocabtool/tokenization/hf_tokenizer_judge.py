"""Known and unknown words of a ``tokenizer.json``, as the tokenizers library cuts them.

A word is what the pre-tokenizer leaves of the normalised text: what the model cuts by itself. Where
several such words stand together (no pre-tokenizer, or one that does not cut at blanks), a piece
that begins with the mark of a blank, ``▁``, begins a word. An added token is a word, and known.

Words are shown as people read them: byte-level characters as the bytes that they stand for, ``▁``
as the blank that it is. That blank is left out where the tokenizer puts one before every word.
Elsewhere it stays: ``the`` and `` the`` are different words to such a model, with ids of their own.
White space that the model is given is a word.

A word is unknown where a piece of it is the unknown one, or where the model passes over a part of
it without one. Bytes that are not UTF-8 reach the library as U+FFFD, as it only takes text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vocabtool.errors import reading
from vocabtool.formats import hf_tokenizer, json_file
from vocabtool.formats.json_file import parse
from vocabtool.formats.markers import ALPHABET
from vocabtool.tokenization import hf_tokenizer_steps as steps
from vocabtool.tokenization.hf_tokenizer_chunks import chunked
from vocabtool.tokenization.hf_tokenizer_steps import Json
from vocabtool.tokenization.hf_tokenizers import AddedWord, Cuts, HFTokenizer, PreToken
from vocabtool.tokenization.lookup import Spelled, WordLookup
from vocabtool.tokenization.rule import Coded, as_bytes_encoded, unfolded
from vocabtool.tokenization.sentencepiece_judge import judged_words
from vocabtool.tokenization.sentencepieces import Word
from vocabtool.tokenization.text_arrays import as_bytes, as_strings, string_array
from vocabtool.vocabulary import Vocabulary

if TYPE_CHECKING:
    import pyarrow as pa

MEANT: Final = ("normalizer", "pre_tokenizer", "added_tokens", "model")
BYTES: Final = {ord(shown): byte for byte, shown in enumerate(ALPHABET)}


class _Told(NamedTuple):
    """Distinct pre-tokens and what the model makes of them: the plain ones, then the added.

    ``codes``: int32, which of them stand one after the other in the texts; ``offsets``: int64,
    of each text's first among ``codes``.
    """

    codes: NDArray[np.int32]
    offsets: NDArray[np.int64]
    plain: list[str]
    added: list[AddedWord]
    cuts: Cuts


class HFWordTokenizer:
    """``data``: a tokenizer.json; ``document``: the same, parsed. For several threads at once.

    Raises what :class:`HFTokenizer` raises.
    """

    def __init__(self, data: bytes, document: Json, vocabulary: Vocabulary) -> None:
        self._document = document
        self._tokenizer = HFTokenizer(data, document)
        self._vocabulary = vocabulary
        self._mark = steps.blank_mark(document)
        self._mark_says_nothing = steps.is_mark_before_all(document)
        self._byte_level = steps.is_byte_level(document)
        self._whole_words = self._tokenizer.model_type == "WordLevel"
        self._way = steps.chunk_way(document)
        if self._way is not None and not self._tokenizer.without_blanks(self._tokenizer.added):
            self._way = None

    def look_up(self, texts: pa.StringArray) -> WordLookup:
        """Cut and look up, each distinct chunk once where that is the same."""
        found = None if self._way is None else chunked(texts, self._way)
        if found is None:
            return self._judged(self._told(texts))
        pieces, offsets = found
        encoded = as_bytes_encoded(pieces)
        judged = self._judged(self._told(as_strings(encoded.dictionary)))
        words = Coded(judged.codes, judged.offsets, judged.distinct)
        coded = unfolded(words, encoded.indices.to_numpy(), offsets)
        return judged._replace(codes=coded.codes, offsets=coded.offsets)

    def pieces(self, word: bytes) -> tuple[bytes, ...]:
        """As the model cuts the word; nothing for a model of whole words."""
        if self._whole_words:
            return ()
        shown = word.decode("utf-8", "replace")
        if shown in self._tokenizer.added:
            return (word,)
        return tuple(map(_encoded, self._tokenizer.pieces([self._given(word, shown)]).pieces))

    def describe(self) -> tuple[str, ...]:
        """The steps of the file."""
        model_type, added = self._tokenizer.model_type, self._tokenizer.added
        return tuple(steps.describe(self._document, model_type, added))

    @cached_property
    def fingerprint(self) -> str:
        """Of what the file says of texts and pieces; what only decodes or pads is left out."""
        told = {key: self._document.get(key) for key in MEANT}
        digest = hashlib.sha256(b"vocabtool tokenizer.json 1\n")
        digest.update(json.dumps(told).encode())
        return digest.hexdigest()

    def _told(self, texts: pa.StringArray) -> _Told:
        shown = [text.decode("utf-8", "replace") for text in as_bytes(texts)]
        found, offsets = self._tokenizer.pre_tokens(shown)
        distinct = dict.fromkeys(found)
        plain = [each for each in distinct if isinstance(each, str)]
        added = [each for each in distinct if not isinstance(each, str)]
        places = {each: at for at, each in enumerate(chain[PreToken](plain, added))}
        codes = np.fromiter(map(places.__getitem__, found), np.int32, len(found))
        joined = self._mark is not None and any(self._mark in each[1:] for each in plain)
        cuts = self._tokenizer.pieces(plain, starts=joined)
        return _Told(codes, offsets, plain, added, _with_added(cuts, added))

    def _judged(self, told: _Told) -> WordLookup:
        if told.cuts.starts and not self._whole_words:
            return self._by_marks(told)
        counts = np.diff(told.cuts.offsets)
        known = self._known(told)
        single = np.full(len(counts), -1, np.int64)
        positions = np.full(len(counts), -1, np.int64)
        ones = np.flatnonzero(counts == 1)
        firsts = told.cuts.offsets[ones]
        single[ones] = told.cuts.ids[firsts]
        held = self._vocabulary.positions
        entries = (_encoded(told.cuts.pieces[at]) for at in firsts.tolist())
        positions[ones] = [held.get(entry, -1) for entry in entries]
        positions[~known] = -1
        words = [*map(self._readable, told.plain), *(_encoded(word.content) for word in told.added)]
        return WordLookup(
            told.codes,
            told.offsets,
            string_array(words),
            known,
            single,
            positions,
            None if self._whole_words else counts.astype(np.int32),
            unique=len(set(words)) == len(words),
            spelled=None if self._whole_words else self._spelled(told.cuts),
        )

    def _spelled(self, cuts: Cuts) -> Spelled:
        known = cuts.ids != self._tokenizer.unknown_id
        return Spelled(list(map(_encoded, cuts.pieces)), known, cuts.offsets)

    def _by_marks(self, told: _Told) -> WordLookup:
        """Words inside pre-tokens, each from a piece that begins with the mark to the next."""
        known = self._known(told).tolist()
        each = [*told.plain, *(word.content for word in told.added)]
        words = [
            list(self._words(text, told.cuts, at, is_known=known[at]))
            for at, text in enumerate(each)
        ]
        lengths = np.array(list(map(len, words)), np.int64)[told.codes]
        bounds = np.append(0, np.cumsum(lengths))[told.offsets]
        flat = chain.from_iterable(words[code] for code in told.codes.tolist())
        return judged_words(flat, bounds, self._vocabulary, self._tokenizer.unknown_id)

    def _words(self, text: str, cuts: Cuts, at: int, *, is_known: bool) -> Iterator[Word]:
        first, last = cuts.offsets[at : at + 2].tolist()
        mark = self._mark or steps.META
        told = is_known or self._unknown_told  # else where a piece stands is not certain
        inner = [i for i in range(first + 1, last) if told and cuts.pieces[i].startswith(mark)]
        for start, end in pairwise((first, *inner, last)):
            begin = cuts.starts[start] if start > first else 0
            stop = cuts.starts[end] if end < last else len(text)
            ids = cuts.ids[start:end].tolist()
            pieces = zip(map(_encoded, cuts.pieces[start:end]), ids, strict=True)
            known = is_known or (self._unknown_told and self._tokenizer.unknown_id not in ids)
            yield Word(self._readable(text[begin:stop]), tuple(pieces), known)

    @property
    def _unknown_told(self) -> bool:
        """Whether the model puts an unknown piece in place of what it does not know."""
        return self._tokenizer.unknown_id >= 0

    def _known(self, told: _Told) -> NDArray[np.bool_]:
        """Whether each of the strings is known to the last of its characters."""
        cuts, unknown = told.cuts, self._tokenizer.unknown_id
        starts, ends = cuts.offsets[:-1], cuts.offsets[1:]
        before = np.append(0, np.cumsum(cuts.ids == unknown))
        known: NDArray[np.bool_] = (before[ends] == before[starts]) & (ends > starts)
        if self._whole_words and self._tokenizer.unknown_token is not None:
            own = self._tokenizer.unknown_token
            known |= np.array([word == own for word in (*told.plain, *told.added)], np.bool_)
        if self._tokenizer.model_type == "BPE" and not self._unknown_told:
            bounds = zip(told.plain, cuts.offsets.tolist(), cuts.offsets.tolist()[1:], strict=False)
            whole = [self._joined(cuts.pieces[a:b]) == _encoded(word) for word, a, b in bounds]
            known[: len(whole)] &= np.array(whole, np.bool_)
        known[len(told.plain) :] = True
        return known

    def _joined(self, pieces: Sequence[str]) -> bytes:
        """What pieces of BPE say together, to see whether something was left out."""
        model = self._document["model"]
        prefix = model.get("continuing_subword_prefix") or ""
        suffix = model.get("end_of_word_suffix") or ""
        bare = [piece.removeprefix(prefix) if at else piece for at, piece in enumerate(pieces)]
        bare[-1:] = [piece.removesuffix(suffix) for piece in bare[-1:]]
        if not model.get("byte_fallback"):
            return _encoded("".join(bare))
        return b"".join(map(_byte_or_text, bare))

    def _readable(self, given: str) -> bytes:
        """A word that the model is given, as people read it."""
        if self._byte_level:
            codes = [BYTES.get(ord(c), -1) for c in given]
            return _encoded(given) if -1 in codes else bytes(codes)
        if self._mark is None:
            return _encoded(given)
        text = given.replace(self._mark, " ")
        return _encoded((text.strip(" ") if self._mark_says_nothing else text) or text)

    def _given(self, word: bytes, shown: str) -> str:
        """The reverse of it: what the model is given for a word."""
        if self._byte_level:
            return "".join(ALPHABET[byte] for byte in word)
        if self._mark is None:
            return shown
        begin = self._mark if self._mark_says_nothing and shown.strip(" ") else ""
        return begin + shown.replace(" ", self._mark)


def tokenizer_for(file: Path, vocabulary: Vocabulary) -> HFWordTokenizer | None:
    """The judge of a tokenizer.json, whose entries are ``vocabulary``; ``None`` for another file.

    Raises :class:`InvalidFile` where the library refuses what vocabtool reads, and
    :class:`VocabtoolError` where it is missing.
    """
    with reading(str(file)):
        data = file.read_bytes()
        if not json_file.BEGINS.match(data):
            return None
        document = parse(data)
        if hf_tokenizer.recognise(document) is not None:
            return None
        return HFWordTokenizer(data, document, vocabulary)


def _with_added(cuts: Cuts, added: Sequence[AddedWord]) -> Cuts:
    """Added tokens behind the others, one piece each."""
    ends = cuts.offsets[-1] + np.arange(1, len(added) + 1)
    return Cuts(
        [*cuts.pieces, *(word.content for word in added)],
        np.append(cuts.ids, np.array([word.id for word in added], np.int64)),
        np.append(cuts.offsets, ends),
        cuts.starts and [*cuts.starts, *(0 for _ in added)],
    )


def _encoded(text: str) -> bytes:
    return text.encode()


def _byte_or_text(piece: str) -> bytes:
    """The byte that ``<0x41>`` stands for, or the piece."""
    if len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">"):
        return bytes.fromhex(piece[3:5])
    return piece.encode()
