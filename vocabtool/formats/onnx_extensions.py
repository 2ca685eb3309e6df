"""Operators of onnxruntime-extensions: whole files of words, as text in an attribute of a node.

Layout: microsoft/onnxruntime-extensions, docs/custom_ops.md, operators/tokenizer and
operators/text. Tokenizers hold ``vocab.txt``, ``vocab.json`` with merges and added tokens,
``tokenizer.json``, a SentencePiece model or RWKV's lines; mappings hold lines of a key, a tab and a
value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile
from vocabtool.formats import hf_tokenizer, json_parsing, rwkv_vocab, sentencepiece_file, text_file
from vocabtool.formats.onnx_operators import Finding, list_of_strings, table
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.vocabulary import Place, Unknown, Vocabulary, decode

BERT_UNKNOWN: Final = b"[UNK]"  # the attribute's default
NOT_FOUND: Final = -1  # what WordpieceTokenizer gives

Texts = Mapping[bytes, bytes]  # the values of a node's string attributes


def _text(texts: Texts, *names: bytes) -> bytes:
    """The first of these attributes that is there."""
    for name in names:
        if name in texts:
            return texts[name]
    raise InvalidFile(f"no attribute {names[0].decode()}, wanted the words in it")


def _lines(text: bytes) -> ByteStrings:
    """The lines without empty ones, which are skipped and get no id."""
    lines = text_file.read_lines(text)
    return lines.take(np.flatnonzero(lines.lengths))


def _bert(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    entries = _lines(_text(texts, b"vocab_file", b"vocab"))
    found = np.flatnonzero(entries.equal_to(texts.get(b"unk_token", BERT_UNKNOWN)))
    unknown = Unknown(int(found[-1])) if len(found) else None
    vocabulary = table(name, place, entries, unknown=unknown, kind="wordpiece")
    yield replace(vocabulary, marker="##")


def _bpe(
    texts: Texts, name: str, place: Place, pre_tokenizer: str = "ByteLevel", **model: str
) -> Iterator[Finding]:
    """``vocab.json`` and ``merges.txt``, and added tokens as lines of ``token=id``."""
    added = [line.rpartition(b"=") for line in _lines(texts.get(b"added_token", b""))]
    ids = text_file.integers(ByteStrings.of(number for _, _, number in added)).tolist()
    merges = [line for line in _lines(texts.get(b"merges", b"")) if line[:9] != b"#version:"]
    document = {
        "model": {"type": "BPE", "vocab": _json(texts, b"vocab"), "merges": merges, **model},
        "pre_tokenizer": {"type": pre_tokenizer},
        "added_tokens": [
            {"content": decode(token), "id": number}
            for (token, _, _), number in zip(added, ids, strict=True)
        ],
    }
    yield _tokenizer(document, name, place)


def _clip(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    yield from _bpe(texts, name, place, end_of_word_suffix="</w>")


def _spm(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    yield from _bpe(texts, name, place, "Metaspace")


def _wordpiece(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    prefix = decode(texts.get(b"suffix_indicator", b"##"))
    model = {"vocab": _json(texts, b"vocab"), "continuing_subword_prefix": prefix}
    vocabulary = _tokenizer({"model": {"type": "WordPiece", **model}}, name, place)
    yield replace(vocabulary, unknown=Unknown(NOT_FOUND))


def _hf_json(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    document = _json(texts, b"tokenizer_vocab")
    reason = hf_tokenizer.recognise(document)
    if reason is not None:
        raise InvalidFile(f"tokenizer_vocab is not a tokenizer.json: {reason}")
    yield _tokenizer(document, name, place)


def _json(texts: Texts, name: bytes) -> Any:
    return json_parsing.parse(_text(texts, name))


def _tokenizer(document: Any, name: str, place: Place) -> Vocabulary:
    return replace(hf_tokenizer.vocabulary(document, name), places=(place,))


def _sentencepiece(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    yield sentencepiece_file.model(_text(texts, b"model"), name, place)


def _rwkv(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    yield rwkv_vocab.vocabulary(_text(texts, b"vocab"), name, place)


def _bpe_decoder(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    """Empty lines count here; an added token takes the place of what has its id."""
    entries = dict(enumerate(text_file.read_lines(_text(texts, b"id_vocab"))))
    numbers, tokens = _columns(_pairs(texts.get(b"added_tokens", b"")))
    entries |= zip(text_file.integers(numbers).tolist(), tokens, strict=True)
    ids = np.fromiter(entries, np.int64, len(entries))
    note = "gives the entry of an id"
    stored = ByteStrings.of(entries.values())
    yield replace(table(name, place, stored, ids, notes=(note,), kind="bpe"), marker="Ġ")


def _pairs(text: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Lines of two columns, a tab between; empty lines and columns are skipped."""
    for number, line in enumerate(text.split(b"\n"), start=1):
        columns = list(filter(None, line.split(b"\t")))
        if len(columns) == 2:
            yield columns[0], columns[1]
        elif line:
            got = f"{len(columns)} columns: {line[:40]!r}"
            raise InvalidFile(f"line {number:,} has {got}, wanted a key, a tab and a value")


def _columns(pairs: Iterator[tuple[bytes, bytes]]) -> tuple[ByteStrings, ByteStrings]:
    """Keys and values; of equal keys the last counts."""
    found = dict(pairs)
    return ByteStrings.of(found), ByteStrings.of(found.values())


def _string_mapping(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    keys, values = _columns(_pairs(_text(texts, b"map")))
    note = "gives other strings for these; the ids are their positions"
    yield table(name, place, keys, notes=(note,))
    yield list_of_strings(values, f"{name}.values", place)


def _string_to_vector(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    words, vectors = _columns(_pairs(_text(texts, b"map")))
    if _dimension(vectors) != 1:
        note = f"gives {_dimension(vectors):,} numbers for each; the ids are their positions"
        yield table(name, place, words, notes=(note,))
        return
    unknown = text_file.integers(ByteStrings.of((_text(texts, b"unk"),)))
    yield table(name, place, words, text_file.integers(vectors), unknown=Unknown(int(unknown[0])))


def _vector_to_string(texts: Texts, name: str, place: Place) -> Iterator[Finding]:
    pairs = _pairs(_text(texts, b"map"))
    vectors, words = _columns((vector, word) for word, vector in pairs)
    if _dimension(vectors) != 1:
        note = f"{_dimension(vectors):,} numbers give each; the ids are their positions"
        yield table(name, place, words, notes=(note,))
        return
    note = "gives the entry of an id"
    yield table(name, place, words, text_file.integers(vectors), notes=(note,))


def _dimension(vectors: ByteStrings) -> int:
    """How many numbers the first holds, as the library takes it for all."""
    return len(vectors[0].split()) if len(vectors) else 0


OPERATORS: Final[dict[bytes, Callable[[Texts, str, Place], Iterator[Finding]]]] = {
    b"BertTokenizer": _bert,
    b"HfBertTokenizer": _bert,
    b"BertTokenizerDecoder": _bert,
    b"GPT2Tokenizer": _bpe,
    b"RobertaTokenizer": _bpe,
    b"CLIPTokenizer": _clip,
    b"SpmTokenizer": _spm,
    b"WordpieceTokenizer": _wordpiece,
    b"HfJsonTokenizer": _hf_json,
    b"BpeDecoder": _bpe_decoder,
    b"SentencepieceTokenizer": _sentencepiece,
    b"SentencepieceDecoder": _sentencepiece,
    b"TrieTokenizer": _rwkv,
    b"TrieDetokenizer": _rwkv,
    b"StringMapping": _string_mapping,
    b"StringToVector": _string_to_vector,
    b"VectorToString": _vector_to_string,
}
