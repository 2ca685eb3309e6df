"""Tokenizers of other formats, described as a ``tokenizer.json`` for the ``tokenizers`` library.

If the library cannot express a rule, or the rule is not documented, an error names the rule. The
descriptions follow these sources:

- GGUF: ``src/llama-vocab.cpp`` in ggml-org/llama.cpp, with ``parse_special=false``: control tokens
  in a text are plain text, but user-defined tokens are kept whole. One difference: for BERT, words
  of more than 100 characters are unknown, as in BERT's own tokenizer.
- tiktoken: ``tiktoken_ext/openai_public.py`` in openai/tiktoken. A file contains ranks but no
  pattern, so the caller names the encoding. OpenAI's own files are recognised by their hash.
- ``vocab.json`` with ``merges.txt``, and ``vocab.txt``: the tokenizer in huggingface/transformers
  that ``tokenizer_config.json`` names, with its settings.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats import gguf, json_file, word_list
from vocabtool.formats.files import read_file
from vocabtool.formats.static_embedding import TOKENIZER_CONFIG
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.hf_description import Json
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer
from vocabtool.tokenization.tokenizer_parts import (
    ENGLISH,
    GGUF,
    GPT2,
    KEPT_WHOLE,
    PLAIN_ENDS,
    PUBLISHED,
    QWEN2,
    RAW,
    TIKTOKEN,
    WHOLE_FIRST,
    added_tokens,
    bert_normalizer,
    bpe,
    byte_level,
    document,
    listed_pairs,
    pairs,
    replace,
    split,
    with_ends,
    wordpiece,
)
from vocabtool.vocabulary import ALPHABET, Place, Vocabulary

OTHERWISE: Final = "name a tokenizer.json of the same model: --rule tokenizer:FILE"


def tokenizer_for(file: Path, vocabulary: Vocabulary) -> HFWordTokenizer | None:
    """Return the tokenizer that a file and the settings beside it define; ``None`` for other files.

    Raises :class:`InvalidFile` for a damaged file, and :class:`UnsupportedFormat` for an unknown
    rule.
    """
    with reading(str(file)):
        found = document_of(file)
        if found is not None:
            return tokenizer_from(found, vocabulary)
        if vocabulary.kind != "bpe" or vocabulary.marker != " ":
            return None
        pattern = _pattern_of(file)
    return (
        None
        if pattern is None
        else tokenizer_from(_tiktoken(vocabulary, pattern), vocabulary, raw=True)
    )


def tokenizer_by_name(rule: str, vocabulary: Vocabulary) -> HFWordTokenizer:
    """Return the tokenizer for ``bert-cased``, ``bert-uncased`` or ``tiktoken:NAME``.

    Raises :class:`VocabtoolError` if the entries do not fit the rule.
    """
    _, _, encoding = rule.partition(":")
    for name, pattern in TIKTOKEN.items():
        if name == encoding:
            return tokenizer_from(_tiktoken(vocabulary, pattern), vocabulary, raw=True)
    if vocabulary.marker != "##":
        raise VocabtoolError(
            f"{vocabulary.name}: the rule {rule!r} needs pieces that begin with ##, as in the "
            "vocab.txt of BERT"
        )
    lower = rule == "bert-uncased"
    return tokenizer_from(_bert(_texts(vocabulary), lowercase=lower), vocabulary)


def tokenizer_from(contents: Json, vocabulary: Vocabulary, *, raw: bool = False) -> HFWordTokenizer:
    return HFWordTokenizer(json.dumps(contents).encode(), contents, vocabulary, raw=raw)


def copy_of(file: Path) -> bytes:
    """Return the result of :func:`document_of` as JSON; if it is ``None``, the file's bytes."""
    found = document_of(file)
    return file.read_bytes() if found is None else json.dumps(found).encode()


def document_of(file: Path) -> Json | None:
    """Return a ``tokenizer.json`` equivalent to a file; ``None`` for other files.

    The file may be a GGUF file, a vocab.json with merges.txt, or a vocab.txt with settings.
    """
    found = gguf.read_tokenizer(file)
    if found is not None:
        return _gguf(found)
    settings = file.parent / TOKENIZER_CONFIG
    if file.suffix == ".json" and (file.parent / json_file.MERGES).is_file():
        entries = json_file.read(file)
        if isinstance(entries, dict) and set(map(type, entries.values())) == {int}:
            return _bpe_folder(entries, file.parent)
    if file.suffix == ".txt" and file.name != json_file.MERGES and settings.is_file():
        lines = word_list.words(read_file(file, MAX_LINES), file.name, Place(file.name, ""))
        return _bert_of(lines, _settings(settings)) if lines.marker == "##" else None
    return None


def _texts(vocabulary: Vocabulary) -> dict[str, int]:
    """Return a mapping from each entry's text to its id. Of equal entries, the last one counts."""
    try:
        texts = [entry.decode() for entry in vocabulary.stored]
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{vocabulary.name}: an entry is not UTF-8: {error}") from error
    return dict(zip(texts, vocabulary.id_array().tolist(), strict=True))


# GGUF.

USER_DEFINED: Final = 4
NORMAL: Final = (1, USER_DEFINED, 5)  # pieces that a unigram model matches
LONGEST: Final = 101  # characters of a word of BERT, with its marker


def _gguf(found: gguf.GGUFTokenizer) -> Json:
    tokens = [token or b"[EMPTY_%d]" % at for at, token in enumerate(found.tokens)]
    try:
        ids = {token.decode(): number for number, token in enumerate(tokens)}
    except UnicodeDecodeError as error:
        raise InvalidFile(f"a token is not UTF-8: {error}") from error
    if len(ids) < len(tokens):
        raise InvalidFile(f"{len(tokens) - len(ids):,} tokens occur twice")
    build = MODELS.get(found.model)
    if build is None:
        raise UnsupportedFormat(f"the tokenizer {found.model!r} is not supported; {OTHERWISE}")
    whole = [token for token, kind in zip(ids, found.types, strict=False) if kind == USER_DEFINED]
    return build(found, ids, added_tokens(ids, {*whole, *KEPT_WHOLE} - PLAIN_ENDS))


def _unknown(found: gguf.GGUFTokenizer, ids: Mapping[str, int], otherwise: int) -> str:
    number = otherwise if found.unknown is None else found.unknown
    token = next((token for token, each in ids.items() if each == number), None)
    if token is None:
        raise InvalidFile(f"the unknown token has id {number:,}, but there are {len(ids):,} tokens")
    return token


def _gguf_scored(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe SentencePiece's BPE. It first merges the pair that makes the best-scored piece."""
    if not len(found.scores):
        raise InvalidFile("no scores of tokens (tokenizer.ggml.scores), which this tokenizer needs")
    ranks = dict(zip(ids, (-found.scores).tolist(), strict=True))
    unknown = _unknown(found, ids, 0)
    model = bpe(ids, pairs(ranks), unk_token=unknown, fuse_unk=False, byte_fallback=True)
    prefix = {"type": "Prepend", "prepend": "▁"}
    begin = [prefix] if found.flags.get("add_space_prefix", True) else []
    return document(model, [*begin, replace(" ", "▁")], [], added)


def _gguf_bpe(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe a byte-level BPE with llama.cpp's patterns, or a BPE of characters (Gemma 4)."""
    merges = listed_pairs(found.merges, ids)
    name = "gemma4" if found.model == "gemma4" else found.pre or "default"
    if name in RAW:
        if name != "sarvam-moe":
            added = added_tokens(ids, [*(each["content"] for each in added), *_newlines(ids)])
        model = bpe(ids, merges, byte_fallback=True, fuse_unk=False)
        return document(model, [replace(" ", "▁")], [split(r"[^\n]+|\n+")], added)
    patterns = GGUF.get(name)
    if patterns is None:
        raise UnsupportedFormat(f"the pre-tokenizer {name!r} is unknown to vocabtool; {OTHERWISE}")
    if not merges:
        raise InvalidFile("no merges (tokenizer.ggml.merges), which this tokenizer needs")
    model = bpe(ids, merges, ignore_merges=name in WHOLE_FIRST)
    return document(model, [], byte_level(patterns), added)


def _newlines(ids: Mapping[str, int]) -> Iterator[str]:
    """Yield the tokens that consist of newlines. Gemma 4 has no merges that make them."""
    return (token for token in ids if not token.strip("\n"))


def _gguf_bert(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe a WordPiece model that marks the first piece of a word, not the later pieces."""
    lower = found.flags.get("normalizer.lowercase", True)
    accents = found.flags.get("normalizer.strip_accents", lower)
    model = wordpiece(ids, _unknown(found, ids, 100), prefix="", longest=LONGEST)
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}
    steps = [bert_normalizer(lower, accents, chinese=True)]
    return document(model, steps, [{"type": "BertPreTokenizer"}, mark], added)


def _gguf_unigram(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe SentencePiece's unigram model. Control tokens get names that no text contains."""
    if not len(found.scores) or not found.types:
        raise InvalidFile("no scores or no types of tokens, which this tokenizer needs")
    if found.flags.get("treat_whitespace_as_suffix"):
        raise UnsupportedFormat(f"treat_whitespace_as_suffix is not supported; {OTHERWISE}")
    lowest = float(found.scores.min())
    pieces = []
    for token, kind, score in zip(ids, found.types, found.scores.tolist(), strict=True):
        own = token if kind in NORMAL else f"\0{token}"
        pieces.append([own, 0.0 if kind == USER_DEFINED else score if kind in NORMAL else lowest])
    number = ids[_unknown(found, ids, 2)]
    steps: list[Json] = []
    if found.charsmap:
        charsmap = base64.b64encode(found.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    merged = found.flags.get("remove_extra_whitespaces", False)
    if merged:
        steps += [replace(r"\A +| +\z", "", regex=True), replace(" {2,}", " ", regex=True)]
    if merged or found.flags.get("add_space_prefix", False):
        steps.append({"type": "Prepend", "prepend": "▁"})
    model = {"type": "Unigram", "unk_id": number, "vocab": pieces, "byte_fallback": False}
    return document(model, [*steps, replace(" ", "▁")], [], added)


Builder = Callable[[gguf.GGUFTokenizer, Mapping[str, int], list[Json]], Json]
MODELS: Final[dict[str, Builder]] = {
    "llama": _gguf_scored,
    "gpt2": _gguf_bpe,
    "gemma4": _gguf_bpe,
    "bert": _gguf_bert,
    "t5": _gguf_unigram,
}


# tiktoken.


def _pattern_of(file: Path) -> str | None:
    """Return the pattern for a file of tiktoken ranks; ``None`` if it is unknown.

    A pattern with ``}+`` is not used, because other regex libraries read it differently.
    """
    if file.stat().st_size > json_file.MAX_FILE:
        return None
    data = file.read_bytes()
    if not json_file.BEGINS.match(data):
        encoding = PUBLISHED.get(hashlib.sha256(data).hexdigest())
        return None if encoding is None else TIKTOKEN[encoding]
    found = json_file.parse(data)
    config = found.get("config") if isinstance(found, dict) else None
    pattern = config.get("pattern") if isinstance(config, dict) else None
    return pattern if isinstance(pattern, str) and "}+" not in pattern else None


def _tiktoken(vocabulary: Vocabulary, pattern: str) -> Json:
    """Describe a tokenizer of tiktoken without its special tokens.

    A token is special if its id is below the ids of all byte tokens, as in ``tekken.json``.
    """
    numbers = vocabulary.id_array().tolist()
    ids = {
        "".join(map(ALPHABET.__getitem__, token)): number
        for token, number in zip(vocabulary.stored, numbers, strict=True)
        if token
    }
    if missing := sum(character not in ids for character in ALPHABET):
        raise VocabtoolError(
            f"{vocabulary.name}: not ranks of tiktoken, because {missing:,} of the 256 "
            "byte values are not entries"
        )
    first = min(map(ids.__getitem__, ALPHABET))
    ids = {token: number for token, number in ids.items() if number >= first}
    model = bpe(ids, pairs(ids), ignore_merges=True)
    return document(model, [], byte_level((pattern,)), [])


# BERT.

MAX_SETTINGS: Final = 1 << 24  # bytes
MAX_LINES: Final = 1 << 26  # bytes of a vocab.txt
BERT_SPECIAL: Final = ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
BERT_LIKE: Final = (
    *("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "Funnel", "LayoutLM", "Lxmert"),
    *("SqueezeBert", "Splinter", "RetriBert", "Realm", "DPRQuestionEncoder", "DPRContextEncoder"),
    "DPRReader",
)


def _bert(
    ids: Mapping[str, int],
    *,
    lowercase: bool,
    accents: bool | None = None,
    chinese: bool = True,
    unknown: str = "[UNK]",
    special: Iterable[str] = (),
) -> Json:
    """Describe BERT's tokenizer.

    ``accents``: Whether accents are removed. By default, they are removed if ``lowercase`` is true.
    """
    model = wordpiece(ids, unknown, longest=LONGEST - 1)
    steps = [bert_normalizer(lowercase, accents, chinese=chinese)]
    added = added_tokens(ids, {*BERT_SPECIAL, *special}, special=True)
    found = document(model, steps, [{"type": "BertPreTokenizer"}], added)
    return with_ends(found, ids, "[CLS]", "[SEP]")


def _bert_of(lines: Vocabulary, settings: Json) -> Json | None:
    """Describe BERT's tokenizer with these settings.

    ``None`` if the settings do not say whether the tokenizer lower-cases.
    """
    name = _class(settings)
    if name is not None and name not in BERT_LIKE:
        raise UnsupportedFormat(
            f"the tokenizer {name}Tokenizer ({TOKENIZER_CONFIG}) is not supported; {OTHERWISE}"
        )
    lower = settings.get("do_lower_case", None if name is None else True)
    if not isinstance(lower, bool):
        return None
    accents, chinese = settings.get("strip_accents"), settings.get("tokenize_chinese_chars", True)
    unknown = _content(settings.get("unk_token")) or "[UNK]"
    return _bert(
        _texts(lines),
        lowercase=lower,
        accents=accents if isinstance(accents, bool) else None,
        chinese=chinese is not False,
        unknown=unknown,
        special=_special(settings),
    )


# Folders of transformers.

SPECIAL_MAP: Final = "special_tokens_map.json"
MASK: Final = "<mask>"  # tokenizers that have it remove the blanks before it
USUAL: Final = ("<s>", "</s>", "<unk>", "<pad>", MASK)  # of RoBERTa, if settings name none
END: Final = "<|endoftext|>"  # of GPT-2
GPT2_LIKE: Final = (
    *("GPT2", "Roberta", "Bart", "Longformer", "LED", "Deberta", "CodeGen", "Whisper", "MVP"),
)

ENDS: Final = {  # tokens before and behind a text
    **dict.fromkeys(("Roberta", "Bart", "Longformer", "LED", "MVP"), USUAL[:2]),
    "Deberta": ("[CLS]", "[SEP]"),
}
CLIP: Final = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
MAX_DIGITS: Final = 10


def _settings(file: Path) -> Json:
    if not file.is_file():
        return {}
    found = json_file.parse(read_file(file, MAX_SETTINGS))
    return dict(json_file.expect(found, dict, file.name))


def _class(settings: Json) -> str | None:
    name = settings.get("tokenizer_class")
    return name.removesuffix("Fast").removesuffix("Tokenizer") if isinstance(name, str) else None


def _content(token: object) -> str | None:
    """Return the text of a token, which is a string or an object with a ``content``."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _special(settings: Json) -> Iterator[str]:
    for key, value in settings.items():
        listed = value if isinstance(value, list) else [value]
        if key.endswith("_token") or key == "additional_special_tokens":
            yield from filter(None, map(_content, listed))


def _bpe_folder(entries: dict[str, int], folder: Path) -> Json:
    settings = _settings(folder / TOKENIZER_CONFIG)
    name = _class(settings)
    if name is None and all(character in entries for character in ALPHABET):
        name = "GPT2"  # older folders do not name it
    ids = dict(entries)
    for content, number in _settings(folder / json_file.ADDED).items():
        if json_file.is_id(number):
            ids.setdefault(content, number)
    decoder = settings.get("added_tokens_decoder")
    stated = decoder.items() if isinstance(decoder, dict) else ()
    flags: dict[str, Json] = {MASK: {"lstrip": True}}
    usual = USUAL if USUAL[0] in entries else (END,)
    for number, token in stated:
        content = _content(token) or ""
        if content and number.isdecimal() and len(number) < MAX_DIGITS:
            ids.setdefault(content, int(number))
            flags[content] = {k: token.get(k) is True for k in ("single_word", "lstrip", "rstrip")}
    whole = {*usual, *flags, *_special(settings), *_special(_settings(folder / SPECIAL_MAP))}
    whole.update(ids.keys() - entries.keys())
    added = [{**each, **flags.get(each["content"], {})} for each in added_tokens(ids, whole)]
    merges = listed_pairs(_merge_lines(folder), ids)
    unknown = _content(settings.get("unk_token"))
    if name in GPT2_LIKE:
        prefix = settings.get("add_prefix_space") is True
        found = document(bpe(ids, merges), [], byte_level((GPT2,), prefix=prefix), added)
        return with_ends(found, ids, *ENDS[name]) if name in ENDS else found
    if name == "Qwen2":
        pattern = QWEN2.replace(ENGLISH, "'(?i:[sdmt]|ll|ve|re)")
        return document(bpe(ids, merges), [{"type": "NFC"}], byte_level((pattern,)), added)
    if name == "CLIP":
        steps = [{"type": "NFC"}, replace(r"\s+", " ", regex=True), {"type": "Lowercase"}]
        words = {**split(CLIP), "behavior": "Removed", "invert": True}
        model = bpe(ids, merges, unk_token=unknown or END, end_of_word_suffix="</w>")
        found = document(model, steps, [words, *byte_level(())], added)
        return with_ends(found, ids, "<|startoftext|>", "<|endoftext|>")
    what = f"{name}Tokenizer" if name else f"no tokenizer_class in {TOKENIZER_CONFIG}"
    raise UnsupportedFormat(
        f"vocabtool has no tokenizer for the entries and {json_file.MERGES} of this model "
        f"({what}); {OTHERWISE}"
    )


def _merge_lines(folder: Path) -> ByteStrings:
    return word_list.read_lines(read_file(folder / json_file.MERGES, json_file.MAX_FILE))
