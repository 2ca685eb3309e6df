"""Parts of a ``tokenizer.json``: the patterns of known tokenizers, steps and models.

Patterns have the syntax of Oniguruma, which the ``tokenizers`` library uses.

- The name of a pattern for GGUF is the value of ``tokenizer.ggml.pre``, as in
  ``src/llama-vocab.cpp`` (ggml-org/llama.cpp). Each pattern is taken from the model's own
  ``tokenizer.json``, but English contractions (``'s``) and capital letters match as in llama.cpp.
- For ``kimi-k2`` and ``afmoe``, llama.cpp has code instead of a pattern (``src/unicode.cpp``). The
  patterns here do what that code does.
- The patterns of tiktoken are those of ``tiktoken_ext/openai_public.py`` in openai/tiktoken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from vocabtool.choices import TiktokenName
from vocabtool.errors import InvalidFile
from vocabtool.tokenization.hf_description import Json

# Patterns. Each is matched on the parts that the one before it left; matches and the text between
# them are parts.

ENGLISH: Final = r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SIGNS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
LETTERS: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3: Final = rf"{ENGLISH}|{LETTERS}|\p{{N}}{{1,3}}|{SIGNS}|{BLANKS}"
QWEN2: Final = rf"{ENGLISH}|{LETTERS}|\p{{N}}|{SIGNS}|{BLANKS}"
CJK: Final = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
ASCII_SIGNS: Final = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
DEEPSEEK3: Final = (
    rf"{ASCII_SIGNS}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{BLANKS}"
)
DEEPSEEK_CJK: Final = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# Letters with case, without those that DeepSeek's list of ranges leaves out.
DEEPSEEK_LETTERS: Final = (
    "[[\\p{Lu}\\p{Ll}\\p{Lt}]&&[^\u0560-\u0588\u10c7-\u10ff\u1c80-\u1c8f\u2d00-\u2d2d"
    "\ua790-\ua7fa\uab30-\uab68\U00010570-\U000105bc\U00016e40-\U00016e7f"
    "\U0001d400-\U0001d7cb\U0001df00-\U0001df1e]]"
)
HAN: Final = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
    "\U00020000-\U0002a6df\U0002a700-\U0002ebef\U0002f800-\U0002fa1f"
)
# Groups of three digits, counted from the end of a number; the first one may be shorter.
THOUSANDS: Final = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
# Scripts without blanks between words, in the ranges of llama.cpp.
UNSPACED: Final = (
    "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
    "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
    "\u1100-\u11ff]+"
)
BLOOM: Final = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"


def _cased_words(end: str, more: str) -> str:
    """Return a pattern like that of the encoding o200k.

    ``end``: the pattern of a word's end. ``more``: the pattern of numbers.
    """
    upper, lower = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
    first = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{first}{upper}*{lower}+{end}|{first}{upper}+{lower}*{end}"
    return rf"{words}|{more}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{BLANKS}"


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
    "falcon": (r"[\p{P}$+<=>^~|`]+", GPT2, "[0-9][0-9][0-9]"),
    "default": (r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"),
    "deepseek-v3 hunyuan-dense joyai-llm hy_v4": (r"\p{N}{1,3}", CJK, DEEPSEEK3),
    "deepseek-coder": ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_CJK, r"\p{N}"),
    "bloom gpt3-finnish poro-chat": (BLOOM,),
    "viking": (BLOOM, r"\p{N}"),
    "tekken": (_cased_words("", r"\p{N}"),),
    "gpt-4o llama4 kanana2 talkie minimax-m2": (_cased_words(f"(?:{ENGLISH})?", r"\p{N}{1,3}"),),
    "bailingmoe bailingmoe2 llada-moe": (
        rf"{ENGLISH}|{LETTERS}|\p{{N}}|{SIGNS}|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    "seed-coder": (rf"{ENGLISH}|{LETTERS}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{BLANKS}",),
    "deepseek-llm": (
        "[\r\n]",
        rf"\s?{DEEPSEEK_LETTERS}+",
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+\z",
        DEEPSEEK_CJK,
        r"\p{N}+",
    ),
    "spark2_5": (
        *(r"\p{N}{1,3}", CJK, DEEPSEEK3.replace(r"+[\r\n]*|\s*[\r\n]+", r"+|[\r\n]")),
        r"\p{N}",
    ),
    "jais-2": (
        rf"{ENGLISH}|{LETTERS}|\p{{N}}{{1,3}}|{SIGNS}|\s*[\r\n]+|\s{{512}}(?!\S)|\s{{256}}(?!\S)"
        r"|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)"
        r"|\s{1,2}(?!\S)|\s",
    ),
    "ufakzeka": (rf"{LETTERS}|\p{{N}}|{SIGNS}|{BLANKS}",),
    "laguna": (r"[^\n]+|\n+", QWEN2),
    "exaone-moe": (
        rf"{ENGLISH}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
    ),
    "chameleon": (
        *("<sentinel:[0-9]+>", "IMGIMG[A-I]{1,4}Z", "[\t\n]|    |  ", r"\p{N}"),
        *(r"[\p{P}!-/:-@\[-`{-~]", GPT2),
    ),
    "kimi-k2": (
        rf"[{HAN}]+|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}&&[^{HAN}]]+(?:{ENGLISH})?|\p{{N}}{{1,3}}|{SIGNS}"
        rf"|{BLANKS}",
    ),
    "afmoe": (THOUSANDS, UNSPACED, DEEPSEEK3),
    # A word may contain blanks. Numbers are split before each group of three digits.
    "superbpe": (r"\p{N}+", r"\p{N}(?:(?!(?:[0-9]{3})+(?![0-9]))\p{N})*"),
    "minicpm5": (r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")),
}
GGUF: Final = {name: each for names, each in BY_NAMES.items() for name in names.split()}
# A part that is a token is not split further.
WHOLE_FIRST: Final = (
    *("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"),
    *("jina-v5-nano", "tekken", "minicpm5"),
)
RAW: Final = ("gemma4", "granite-embed-multi-311m", "sarvam-moe")  # BPE of characters, not bytes
# Whatever their type is: control tokens of llama.cpp, and tokens that it keeps whole.
PLAIN_ENDS: Final = frozenset(
    (
        *(
            "<|eot_id|>",
            "<|im_end|>",
            "<|end|>",
            "<|return|>",
            "<|call|>",
            "<|flush|>",
            "<|calls|>",
        ),
        *(
            "<end_of_turn>",
            "<|endoftext|>",
            "</s>",
            "<|eom_id|>",
            "<EOT>",
            "_<EOT>",
            "[EOT]",
            "[EOS]",
        ),
        *("<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>", "[e~["),
    )
)
KEPT_WHOLE: Final = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")

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


# Steps and models.

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
    # In llama.cpp, the first digits of a number stay with the text before them.
    behavior = "MergedWithPrevious" if pattern == THOUSANDS else "Isolated"
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": False}


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


def bert_normalizer(lowercase: bool, accents: bool | None, *, chinese: bool) -> Json:
    return {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": chinese,
        "strip_accents": accents,
        "lowercase": lowercase,
    }


def wordpiece(ids: Mapping[str, int], unknown: str, *, prefix: str = "##", longest: int) -> Json:
    return {
        "type": "WordPiece",
        "vocab": dict(ids),
        "unk_token": unknown,
        "continuing_subword_prefix": prefix,
        "max_input_chars_per_word": longest,
    }
