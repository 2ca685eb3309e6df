"""Tokenizers of other formats, described as a ``tokenizer.json`` for the ``tokenizers`` library.

``hf_tokenizer.py`` then splits texts by that description, which stays in memory. A rule that the
library cannot express, or that nobody has documented, is refused by its name.

GGUF: ``src/llama-vocab.cpp`` in ggml-org/llama.cpp. As there by default, control tokens in a text
are plain text (``parse_special=false``) and user-defined tokens are kept whole. SentencePiece
pieces are merged by their scores. One difference: a word of more than 100 characters is unknown to
BERT, as in BERT itself.

tiktoken: ``tiktoken_ext/openai_public.py`` in openai/tiktoken. A file contains ranks but no
pattern, so the encoding is named, unless the file is one that OpenAI publishes. Of two neighbours
that make a token, those that make the lowest rank are merged first.

``vocab.json`` with ``merges.txt``, and ``vocab.txt``: the tokenizers in huggingface/transformers
that ``tokenizer_config.json`` names, with its settings.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from vocabtool.choices import TiktokenName
from vocabtool.errors import InvalidFile, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats import gguf, json_file, word_list
from vocabtool.formats.files import read_file
from vocabtool.system.byte_strings import ByteStrings
from vocabtool.tokenization.hf_description import Json
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer
from vocabtool.tokenization.pre_tokenizers import ENGLISH, GGUF, GPT2, QWEN2, TIKTOKEN, WHOLE_FIRST
from vocabtool.vocabulary import ALPHABET, Place, Vocabulary

OTHERWISE: Final = "name a tokenizer.json of the same model: --rule tokenizer:FILE"
MAX_PUBLISHED: Final = 1 << 23  # bytes; no ranks that OpenAI publishes are larger
# The SHA-256 of these files. Larger encodings with the same ranks only add special tokens.
PUBLISHED: Final[dict[str, TiktokenName]] = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "r50k_base",
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": "p50k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k_base",
}


def tokenizer_for(file: Path, vocabulary: Vocabulary) -> HFWordTokenizer | None:
    """Return the tokenizer of a file, with the settings beside it; ``None`` for other files.

    Raises :class:`InvalidFile` for a damaged file, and :class:`UnsupportedFormat`, which names the
    rule, if the rule is unknown.
    """
    with reading(str(file)):
        document = document_of(file)
        if document is not None:
            return described(document, vocabulary)
        if vocabulary.kind != "bpe" or file.stat().st_size > MAX_PUBLISHED:
            return None
        encoding = PUBLISHED.get(hashlib.sha256(file.read_bytes()).hexdigest())
    return None if encoding is None else named(f"tiktoken:{encoding}", vocabulary)


def named(rule: str, vocabulary: Vocabulary) -> HFWordTokenizer:
    """Return the tokenizer that ``bert-cased``, ``bert-uncased`` or ``tiktoken:NAME`` makes.

    Raises :class:`VocabtoolError` if the entries do not fit.
    """
    _, _, encoding = rule.partition(":")
    for name, pattern in TIKTOKEN.items():
        if name == encoding:
            return described(_tiktoken(vocabulary, pattern), vocabulary, raw=True)
    if vocabulary.marker != "##":
        raise VocabtoolError(
            f"{vocabulary.name}: the rule {rule!r} needs pieces that begin with ##, as in the "
            "vocab.txt of BERT"
        )
    lower = rule == "bert-uncased"
    return described(_bert(_texts(vocabulary), lowercase=lower), vocabulary)


def described(document: Json, vocabulary: Vocabulary, *, raw: bool = False) -> HFWordTokenizer:
    """Return the tokenizer that a document describes; ``raw``: the entries are plain bytes."""
    return HFWordTokenizer(json.dumps(document).encode(), document, vocabulary, raw=raw)


def document_of(file: Path) -> Json | None:
    """Return a ``tokenizer.json`` that says what a GGUF file, a vocab.json or a vocab.txt says.

    Returns ``None`` for other files, and for entries without merges or settings beside them. Raises
    the errors of :func:`tokenizer_for`.
    """
    found = gguf.read_tokenizer(file)
    if found is not None:
        return _gguf(found)
    settings = file.parent / SETTINGS
    if file.suffix == ".json" and (file.parent / json_file.MERGES).is_file():
        entries = json_file.read(file)
        if isinstance(entries, dict) and set(map(type, entries.values())) == {int}:
            return _bpe_folder(entries, file.parent)
    if file.suffix == ".txt" and file.name != json_file.MERGES and settings.is_file():
        lines = word_list.words(read_file(file, MAX_LINES), file.name, Place(file.name, ""))
        return _bert_of(lines, _settings(settings)) if lines.marker == "##" else None
    return None


def _document(
    model: Json, normalizers: Iterable[Json], splits: Iterable[Json], added: Iterable[Json]
) -> Json:
    steps = [list(normalizers), list(splits)]
    return {
        "version": "1.0",
        "added_tokens": list(added),
        "normalizer": {"type": "Sequence", "normalizers": steps[0]} if steps[0] else None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps[1]} if steps[1] else None,
        "model": model,
    }


def _split(pattern: str) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def _byte_level(patterns: tuple[str, ...], *, prefix: bool = False) -> Iterator[Json]:
    """Yield the steps that split by patterns and write every byte as a character.

    GPT-2's pattern is the library's own, for which repeated words are split once.
    """
    alone = patterns == (GPT2,)
    if not alone:
        yield from map(_split, patterns)
    yield {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": alone}


def _replace(old: str, new: str, *, regex: bool = False) -> Json:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": old}, "content": new}


def _added(ids: Mapping[str, int], contents: Iterable[str], **flags: bool) -> list[Json]:
    """Return the tokens among ``contents`` that have ids; they are kept whole in every text."""
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    found = sorted((ids[token], token) for token in set(contents) if token and token in ids)
    return [{"id": number, "content": token, **plain, **flags} for number, token in found]


def _pairs(rank_of: Mapping[str, float]) -> list[str]:
    """Return all pairs of tokens that make a token; those that make the lowest rank come first."""
    found = [
        (rank, at, f"{token[:at]} {token[at:]}")
        for token, rank in rank_of.items()
        if " " not in token
        for at in range(1, len(token))
        if token[:at] in rank_of and token[at:] in rank_of
    ]
    return [pair for _, _, pair in sorted(found)]


def _listed_pairs(lines: Iterable[bytes], ids: Mapping[str, int]) -> list[str]:
    """Return the merges of a file, each once, without those of pieces that are not tokens."""
    found: dict[str, None] = {}
    for line in lines:
        text = line.decode("utf-8", "replace")
        left, right = text[:1] + text[1:].partition(" ")[0], text[1:].partition(" ")[2]
        if left in ids and right in ids and left + right in ids and " " not in right:
            found[f"{left} {right}"] = None
    return list(found)


def _bpe(ids: Mapping[str, int], merges: list[str], **settings: Any) -> Json:
    return {"type": "BPE", "vocab": dict(ids), "merges": merges, **settings}


def _texts(vocabulary: Vocabulary) -> dict[str, int]:
    """Return the entries as text, with their ids; of equal entries, the last one counts."""
    try:
        texts = [entry.decode() for entry in vocabulary.stored]
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{vocabulary.name}: an entry is not UTF-8: {error}") from error
    return dict(zip(texts, vocabulary.id_array().tolist(), strict=True))


# GGUF.

USER_DEFINED: Final = 4
NORMAL: Final = (1, USER_DEFINED, 5)  # pieces that a unigram model matches
# Tokens that llama.cpp takes for control tokens, and those that it keeps whole, whatever their type.
ENDS: Final = frozenset(
    ("<|eot_id|> <|im_end|> <|end|> <|return|> <|call|> <|flush|> <|calls|> <end_of_turn> "
     "<|endoftext|> </s> <|eom_id|> <EOT> _<EOT> [EOT] [EOS] <|end_of_text|> <end_of_utterance> "
     "<eos> <turn|> <|tool_response> [e~[").split()
)  # fmt: skip
KEPT: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")
RAW: Final = ("gemma4", "granite-embed-multi-311m", "sarvam-moe")  # BPE of characters, not bytes
PENALTY: Final = 10  # of an unknown piece; the library subtracts it, too
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
    return build(found, ids, _added(ids, {*whole, *KEPT} - ENDS))


def _unknown(found: gguf.GGUFTokenizer, ids: Mapping[str, int], otherwise: int) -> str:
    """Return the unknown token."""
    number = otherwise if found.unknown is None else found.unknown
    token = next((token for token, each in ids.items() if each == number), None)
    if token is None:
        raise InvalidFile(f"the unknown token has id {number:,}, but there are {len(ids):,} tokens")
    return token


def _gguf_scored(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe SentencePiece's BPE: the pair that makes the piece of the highest score goes first."""
    if not len(found.scores):
        raise InvalidFile("no scores of tokens (tokenizer.ggml.scores), which this tokenizer needs")
    ranks = dict(zip(ids, (-found.scores).tolist(), strict=True))
    unknown = _unknown(found, ids, 0)
    model = _bpe(ids, _pairs(ranks), unk_token=unknown, fuse_unk=False, byte_fallback=True)
    prefix = {"type": "Prepend", "prepend": "▁"}
    begin = [prefix] if found.flags.get("add_space_prefix", True) else []
    return _document(model, [*begin, _replace(" ", "▁")], [], added)


def _gguf_bpe(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe byte-level BPE with llama.cpp's patterns, or BPE of characters (Gemma 4)."""
    merges = _listed_pairs(found.merges, ids)
    name = "gemma4" if found.model == "gemma4" else found.pre or "default"
    if name in RAW:
        if name != "sarvam-moe":
            added = _added(ids, [*(each["content"] for each in added), *_newlines(ids)])
        model = _bpe(ids, merges, byte_fallback=True, fuse_unk=False)
        return _document(model, [_replace(" ", "▁")], [_split(r"[^\n]+|\n+")], added)
    patterns = GGUF.get(name)
    if patterns is None:
        raise UnsupportedFormat(f"the pre-tokenizer {name!r} is unknown to vocabtool; {OTHERWISE}")
    if not merges:
        raise InvalidFile("no merges (tokenizer.ggml.merges), which this tokenizer needs")
    model = _bpe(ids, merges, ignore_merges=name in WHOLE_FIRST)
    return _document(model, [], _byte_level(patterns), added)


def _newlines(ids: Mapping[str, int]) -> Iterator[str]:
    """Yield the tokens of newlines alone: Gemma 4 has no merges of newlines."""
    return (token for token in ids if not token.strip("\n"))


def _gguf_bert(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe WordPiece whose pieces mark the start of a word (``▁``), not a continuation."""
    lower = found.flags.get("normalizer.lowercase", True)
    accents = found.flags.get("normalizer.strip_accents", lower)
    model = _wordpiece(ids, _unknown(found, ids, 100), prefix="", longest=LONGEST)
    mark = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}
    steps = [_bert_normalizer(lower, accents, chinese=True)]
    return _document(model, steps, [{"type": "BertPreTokenizer"}, mark], added)


def _gguf_unigram(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe SentencePiece's unigram model; control tokens get a name that no text contains."""
    if not len(found.scores) or not found.types:
        raise InvalidFile("no scores or no types of tokens, which this tokenizer needs")
    if found.flags.get("treat_whitespace_as_suffix"):
        raise UnsupportedFormat(f"blanks behind words are not supported; {OTHERWISE}")
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
        steps += [_replace(r"\A +| +\z", "", regex=True), _replace(" {2,}", " ", regex=True)]
    if merged or found.flags.get("add_space_prefix", False):
        steps.append({"type": "Prepend", "prepend": "▁"})
    model = {"type": "Unigram", "unk_id": number, "vocab": pieces, "byte_fallback": False}
    return _document(model, [*steps, _replace(" ", "▁")], [], added)


Builder = Callable[[gguf.GGUFTokenizer, Mapping[str, int], list[Json]], Json]
MODELS: Final[dict[str, Builder]] = {
    "llama": _gguf_scored,
    "gpt2": _gguf_bpe,
    "gemma4": _gguf_bpe,
    "bert": _gguf_bert,
    "t5": _gguf_unigram,
}


# tiktoken.


def _tiktoken(vocabulary: Vocabulary, pattern: str) -> Json:
    """Describe ranks of bytes. Raises :class:`VocabtoolError` if a byte is missing."""
    numbers = vocabulary.id_array().tolist()
    ids = {
        "".join(map(ALPHABET.__getitem__, token)): number
        for token, number in zip(vocabulary.stored, numbers, strict=True)
        if token
    }
    if missing := sum(character not in ids for character in ALPHABET):
        raise VocabtoolError(
            f"{vocabulary.name}: not the ranks of tiktoken: {missing:,} of the 256 bytes are not "
            "entries"
        )
    model = _bpe(ids, _pairs({**ids}), ignore_merges=True)
    return _document(model, [], _byte_level((pattern,)), [])


# BERT.

SETTINGS: Final = "tokenizer_config.json"
MAX_SETTINGS: Final = 1 << 24  # bytes
MAX_LINES: Final = 1 << 26  # bytes of a vocab.txt
BERT_SPECIAL: Final = ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")
BERT_LIKE: Final = frozenset(
    "Bert DistilBert Electra MobileBert ConvBert Funnel LayoutLM Lxmert SqueezeBert Splinter "
    "RetriBert Realm DPRQuestionEncoder DPRContextEncoder DPRReader".split()
)


def _bert_normalizer(lowercase: bool, accents: bool | None, *, chinese: bool) -> Json:
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": chinese,
        "strip_accents": accents,
        "lowercase": lowercase,
    }


def _wordpiece(ids: Mapping[str, int], unknown: str, *, prefix: str = "##", longest: int) -> Json:
    return {
        "type": "WordPiece",
        "vocab": dict(ids),
        "unk_token": unknown,
        "continuing_subword_prefix": prefix,
        "max_input_chars_per_word": longest,
    }


def _bert(
    ids: Mapping[str, int],
    *,
    lowercase: bool,
    accents: bool | None = None,
    chinese: bool = True,
    unknown: str = "[UNK]",
    special: Iterable[str] = (),
) -> Json:
    """Describe BERT's tokenizer; ``accents``: remove them, ``None``: as ``lowercase``."""
    model = _wordpiece(ids, unknown, longest=LONGEST - 1)
    steps = [_bert_normalizer(lowercase, accents, chinese=chinese)]
    added = _added(ids, {*BERT_SPECIAL, *special}, special=True)
    return _document(model, steps, [{"type": "BertPreTokenizer"}], added)


def _bert_of(lines: Vocabulary, settings: Json) -> Json | None:
    """Describe the tokenizer that settings name; ``None`` if they do not say which case it reads."""
    name = _class(settings)
    if name is not None and name not in BERT_LIKE:
        raise UnsupportedFormat(
            f"the tokenizer {name}Tokenizer ({SETTINGS}) is not supported; {OTHERWISE}"
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
USUAL: Final = ("<s>", "</s>", "<unk>", "<pad>", "<|endoftext|>")
MASK: Final = "<mask>"  # its tokenizers remove the blanks before it
GPT2_LIKE: Final = frozenset(
    "GPT2 Roberta Bart Longformer LED Deberta CodeGen Whisper MVP Camembert GPTNeoX".split()
)


CLIP: Final = r"'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
CLIP_END: Final = "<|endoftext|>"
MAX_DIGITS: Final = 10


def _settings(file: Path) -> Json:
    """Return the object of a JSON file; empty if the file is missing."""
    if not file.is_file():
        return {}
    found = json_file.parse(read_file(file, MAX_SETTINGS))
    return dict(json_file.expect(found, dict, file.name))


def _class(settings: Json) -> str | None:
    name = settings.get("tokenizer_class")
    return name.removesuffix("Fast").removesuffix("Tokenizer") if isinstance(name, str) else None


def _content(token: object) -> str | None:
    """Return the text of a token, which is a text or an object with a ``content``."""
    found = token.get("content") if isinstance(token, dict) else token
    return found if isinstance(found, str) else None


def _special(settings: Json) -> Iterator[str]:
    """Yield the special tokens that settings name."""
    for key, value in settings.items():
        listed = value if isinstance(value, list) else [value]
        if key.endswith("_token") or key == "additional_special_tokens":
            yield from filter(None, map(_content, listed))


def _bpe_folder(entries: dict[str, int], folder: Path) -> Json:
    """Describe byte-level BPE by the files of its folder."""
    settings = _settings(folder / SETTINGS)
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
    for number, token in stated:
        content = _content(token)
        if content and number.isdecimal() and len(number) < MAX_DIGITS:
            ids.setdefault(content, int(number))
            flags[content] = {k: token.get(k) is True for k in ("single_word", "lstrip", "rstrip")}
    whole = {*USUAL, *flags, *_special(settings), *_special(_settings(folder / SPECIAL_MAP))}
    whole.update(ids.keys() - entries.keys())
    added = [{**each, **flags.get(each["content"], {})} for each in _added(ids, whole)]
    merges = _listed_pairs(_merge_lines(folder), ids)
    unknown = _content(settings.get("unk_token"))
    if name in GPT2_LIKE:
        prefix = settings.get("add_prefix_space") is True
        return _document(_bpe(ids, merges), [], _byte_level((GPT2,), prefix=prefix), added)
    if name == "Qwen2":
        pattern = QWEN2.replace(ENGLISH, "'(?i:[sdmt]|ll|ve|re)")
        return _document(_bpe(ids, merges), [{"type": "NFC"}], _byte_level((pattern,)), added)
    if name == "CLIP":
        steps = [{"type": "NFC"}, _replace(r"\s+", " ", regex=True), {"type": "Lowercase"}]
        split = {**_split(CLIP), "behavior": "Removed", "invert": True}
        model = _bpe(ids, merges, unk_token=unknown or CLIP_END, end_of_word_suffix="</w>")
        return _document(model, steps, [split, *_byte_level(())], added)
    what = f"{name}Tokenizer" if name else f"no tokenizer_class in {SETTINGS}"
    raise UnsupportedFormat(
        f"the tokenizer of these entries and {json_file.MERGES} is not supported ({what}); "
        f"{OTHERWISE}"
    )


def _merge_lines(folder: Path) -> ByteStrings:
    return word_list.read_lines(read_file(folder / json_file.MERGES, json_file.MAX_FILE))
