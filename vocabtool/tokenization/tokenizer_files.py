"""Tokenizers of other formats, described as a ``tokenizer.json`` for the ``tokenizers`` library.

If the library cannot express a rule, or vocabtool does not know it, an error names the rule. The
descriptions follow these sources:

- GGUF: ``src/llama-vocab.cpp`` in ggml-org/llama.cpp, with ``parse_special=false``: control tokens
  in a text are plain text, but user-defined tokens are kept whole. One difference: for BERT, words
  of more than 100 characters are unknown, as in BERT's own tokenizer.
- tiktoken: ``tiktoken_ext/openai_public.py`` in openai/tiktoken. A file contains ranks but no
  pattern, so the caller names the encoding. OpenAI's own files are recognised by their hash.
- ``vocab.json`` with ``merges.txt``, and ``vocab.txt``: the tokenizer in huggingface/transformers
  that ``tokenizer_config.json`` names, with its settings.

Patterns have the syntax of Oniguruma, which the ``tokenizers`` library uses.
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
from vocabtool.formats.encoder_files import TOKENIZER_CONFIG
from vocabtool.formats.files import MAX_FILE, read_file
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer, Json
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
    if pattern is None:
        return None
    return tokenizer_from(_tiktoken(vocabulary, pattern), vocabulary, raw=True)


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
    return tokenizer_from(_bert_file(_texts(vocabulary), rule == "bert-uncased"), vocabulary)


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


# Patterns. Each is matched on the parts that the one before it left; matches and the text between
# them are parts.

ENGLISH: Final = r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SIGNS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
LETTERS: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3: Final = rf"{ENGLISH}|{LETTERS}|\p{{N}}{{1,3}}|{SIGNS}|{BLANKS}"
QWEN2: Final = rf"{ENGLISH}|{LETTERS}|\p{{N}}|{SIGNS}|{BLANKS}"

# GGUF.

# The patterns of llama.cpp, by the value of ``tokenizer.ggml.pre``. English contractions (``'s``)
# and capital letters match as there. The pre-tokenizers of rare models are refused by name.
CJK: Final = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
ASCII_SIGNS: Final = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
DEEPSEEK3: Final = (
    rf"{ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{BLANKS}"
)
# A word may have capital letters at its start only, as in the encoding o200k.
CASED: Final = (
    r"[^\r\n\p{L}\p{N}]?(?:(?=\p{L})[^a-z])*(?:(?=\p{L})[^A-Z])+END"
    r"|[^\r\n\p{L}\p{N}]?(?:(?=\p{L})[^a-z])+(?:(?=\p{L})[^A-Z])*END"
    rf"|NUMBER| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{BLANKS}"
)
BY_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe mpt "
    "olmo jais trillion granite-docling gigachat a.x-4.0 mellum modern-bert exaone4": (GPT2,),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx "
    "smaug-bpe glm4 chatglm-bpe": (LLAMA3,),
    "qwen2 stablelm2 deepseek-r1-qwen kormo f2llmv2 megrez hunyuan solar-open grok-2": (QWEN2,),
    "qwen35": (
        rf"{ENGLISH}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
        rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{BLANKS}",
    ),
    "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2": (r"\p{N}", GPT2),
    "default": (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": (r"\p{N}{1,3}", CJK, DEEPSEEK3),
    "tekken": (CASED.replace("END", "").replace("NUMBER", r"\p{N}"),),
    "gpt-4o llama4 kanana2 talkie minimax-m2": (
        CASED.replace("END", f"(?:{ENGLISH})?").replace("NUMBER", r"\p{N}{1,3}"),
    ),
}
GGUF: Final = {name: each for names, each in BY_NAMES.items() for name in names.split()}
# A part that is a token is not split further.
WHOLE_FIRST: Final = (
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    *("jina-v5-nano", "tekken"),
)
RAW: Final = ("gemma4", "granite-embed-multi-311m")  # BPE of characters, not bytes
# Whatever their type is: control tokens of llama.cpp, and tokens that it keeps whole.
PLAIN_ENDS: Final = (
    *("<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>"),
    *("<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]"),
    *("<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~["),
)
KEPT_WHOLE: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")

USER_DEFINED: Final = 4
NORMAL: Final = (1, USER_DEFINED, 5)  # pieces that a unigram model matches
LONGEST: Final = 100  # characters of a word of BERT


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
    return build(found, ids, added_tokens(ids, {*whole, *KEPT_WHOLE}.difference(PLAIN_ENDS)))


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
    if name in RAW:  # no merges make the tokens that consist of newlines
        newlines = (token for token in ids if not token.strip("\n"))
        added = added_tokens(ids, [*(each["content"] for each in added), *newlines])
        model = bpe(ids, merges, byte_fallback=True, fuse_unk=False)
        return document(model, [replace(" ", "▁")], [split(r"[^\n]+|\n+")], added)
    patterns = GGUF.get(name)
    if patterns is None:
        raise UnsupportedFormat(f"the pre-tokenizer {name!r} is unknown to vocabtool; {OTHERWISE}")
    if not merges:
        raise InvalidFile("no merges (tokenizer.ggml.merges), which this tokenizer needs")
    model = bpe(ids, merges, ignore_merges=name in WHOLE_FIRST)
    return document(model, [], byte_level(patterns), added)


def _gguf_bert(found: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    lower = found.flags.get("normalizer.lowercase", True)
    accents = found.flags.get("normalizer.strip_accents", lower)
    return _bert(ids, added, lower, accents, unknown=_unknown(found, ids, 100), marks_starts=True)


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

TIKTOKEN: Final[dict[TiktokenName, str]] = {
    **dict.fromkeys(("gpt2", "r50k_base", "p50k_base", "p50k_edit"), GPT2),
    "cl100k_base": rf"'(?i:[sdmt]|ll|ve|re)|{LETTERS}|\p{{N}}{{1,3}}|{SIGNS}"
    r"|\s+\z|\s*[\r\n]|\s+(?!\S)|\s",
    **dict.fromkeys(
        ("o200k_base", "o200k_harmony"),
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re"
        r"|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}"
        r"\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + BLANKS,
    ),
}
# The SHA-256 of OpenAI's files. Larger encodings with the same ranks only add special tokens.
PUBLISHED: Final[dict[str, TiktokenName]] = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": "r50k_base",
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": "p50k_base",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": "cl100k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": "o200k_base",
}


def _pattern_of(file: Path) -> str | None:
    """Return the pattern for a file of tiktoken ranks; ``None`` if it is unknown.

    A pattern with ``}+`` is not used, because other regex libraries read it differently.
    """
    if file.stat().st_size > MAX_FILE:
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
    added: list[Json],
    lowercase: bool,
    accents: bool | None = None,
    *,
    chinese: bool = True,
    unknown: str = "[UNK]",
    marks_starts: bool = False,
) -> Json:
    """Describe BERT's tokenizer.

    - ``accents``: Whether accents are removed. By default, they are removed if ``lowercase`` is
      true.
    - ``marks_starts``: Whether the first piece of a word is marked by ``▁``, not the later ones by
      ``##``.
    """
    normalizer = {
        **{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": chinese},
        **{"strip_accents": accents, "lowercase": lowercase},
    }
    splits: list[Json] = [{"type": "BertPreTokenizer"}]
    if marks_starts:
        always = {"prepend_scheme": "always", "split": False}
        splits.append({"type": "Metaspace", "replacement": "▁", **always})
    model = {
        **{"type": "WordPiece", "vocab": dict(ids), "unk_token": unknown},
        "continuing_subword_prefix": "" if marks_starts else "##",
        "max_input_chars_per_word": LONGEST + marks_starts,
    }
    return document(model, [normalizer], splits, added)


def _bert_file(ids: Mapping[str, int], lowercase: bool, *special: str, **settings: Any) -> Json:
    """Describe BERT's tokenizer with the special tokens of a ``vocab.txt``."""
    added = added_tokens(ids, {*BERT_SPECIAL, *special}, special=True)
    return with_ends(_bert(ids, added, lowercase, **settings), ids, "[CLS]", "[SEP]")


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
    return _bert_file(
        _texts(lines),
        lower,
        *_special(settings),
        accents=accents if isinstance(accents, bool) else None,
        chinese=chinese is not False,
        unknown=_content(settings.get("unk_token")) or "[UNK]",
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
    lines = word_list.read_lines(read_file(folder / json_file.MERGES, MAX_FILE))
    merges = listed_pairs(lines, ids)
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
        unknown = _content(settings.get("unk_token")) or END
        model = bpe(ids, merges, unk_token=unknown, end_of_word_suffix="</w>")
        found = document(model, steps, [words, *byte_level(())], added)
        return with_ends(found, ids, "<|startoftext|>", END)
    what = f"{name}Tokenizer" if name else f"no tokenizer_class in {TOKENIZER_CONFIG}"
    raise UnsupportedFormat(
        f"vocabtool has no tokenizer for the entries and {json_file.MERGES} of this model "
        f"({what}); {OTHERWISE}"
    )


# Parts of a tokenizer.json.

MAX_PIECE: Final = 512  # characters; the longest known token that is made of pairs has 128


def document(
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


def with_ends(found: Json, ids: Mapping[str, int], start: str, end: str) -> Json:
    if start not in ids or end not in ids:
        return found
    tokens = {"cls": [start, ids[start]], "sep": [end, ids[end]]}
    return {**found, "post_processor": {"type": "BertProcessing", **tokens}}


def split(pattern: str) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def byte_level(patterns: tuple[str, ...], *, prefix: bool = False) -> Iterator[Json]:
    """Yield the steps that split by patterns and write every byte as a character."""
    alone = patterns == (GPT2,)
    if not alone:
        yield from map(split, patterns)
    yield {
        "type": "ByteLevel",
        "add_prefix_space": prefix,
        "trim_offsets": True,
        "use_regex": alone,
    }


def replace(old: str, new: str, *, regex: bool = False) -> Json:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": old}, "content": new}


def added_tokens(ids: Mapping[str, int], contents: Iterable[str], **flags: bool) -> list[Json]:
    """Describe each token in ``contents`` that has an id. ``flags``: settings of these tokens."""
    plain = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    found = sorted((ids[token], token) for token in set(contents) if token and token in ids)
    return [{"id": number, "content": token, **plain, **flags} for number, token in found]


def pairs(rank_of: Mapping[str, float]) -> list[str]:
    """Return all merges: the pairs of tokens that form another token when joined.

    The pairs are sorted by the rank of the joined token.
    """
    longest = max(map(len, rank_of), default=0)
    if longest > MAX_PIECE:
        raise InvalidFile(f"a token has {longest:,} characters; wanted at most {MAX_PIECE:,}")
    found = [
        (rank, at, f"{token[:at]} {token[at:]}")
        for token, rank in rank_of.items()
        if " " not in token
        for at in range(1, len(token))
        if token[:at] in rank_of and token[at:] in rank_of
    ]
    return [pair for _, _, pair in sorted(found)]


def listed_pairs(lines: Iterable[bytes], ids: Mapping[str, int]) -> list[str]:
    found: dict[str, None] = {}
    for line in lines:
        text = line.decode("utf-8", "replace")
        left, right = text[:1] + text[1:].partition(" ")[0], text[1:].partition(" ")[2]
        if left in ids and right in ids and left + right in ids and " " not in right:
            found[f"{left} {right}"] = None
    return list(found)


def bpe(ids: Mapping[str, int], merges: list[str], **settings: Any) -> Json:
    return {"type": "BPE", "vocab": dict(ids), "merges": merges, **settings}
