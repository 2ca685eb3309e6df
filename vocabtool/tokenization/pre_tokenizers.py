r"""The patterns by which byte-level tokenizers split texts, by name: GGUF's and tiktoken's.

GGUF: ``src/llama-vocab.cpp`` in ggml-org/llama.cpp names the tokenizers (``tokenizer.ggml.pre``).
The patterns are those of each model's own ``tokenizer.json``, with English endings and capitals as
llama.cpp takes them. Names that need more than patterns are left out: ``kimi-k2``, ``afmoe``,
``superbpe``. tiktoken: ``tiktoken_ext/openai_public.py`` in openai/tiktoken. The syntax is that of
Oniguruma, which the ``tokenizers`` library uses.
"""

from __future__ import annotations

from typing import Final

from vocabtool.choices import TiktokenName

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
BLOOM: Final = " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"


def _cased(end: str, more: str) -> str:
    """Return the pattern of words that begin with capitals, as in o200k; ``end``: what follows."""
    upper, lower = r"(?:(?=\p{L})[^a-z])", r"(?:(?=\p{L})[^A-Z])"
    first = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{first}{upper}*{lower}+{end}|{first}{upper}+{lower}*{end}"
    return rf"{words}|{more}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{BLANKS}"


BY_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe mpt olmo "
    "jais trillion granite-docling gigachat a.x-4.0 mellum modern-bert exaone4": (GPT2,),
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx smaug-bpe "
    "glm4 chatglm-bpe": (LLAMA3,),
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
    "tekken": (_cased("", r"\p{N}"),),
    "gpt-4o llama4 kanana2 talkie minimax-m2": (_cased(f"(?:{ENGLISH})?", r"\p{N}{1,3}"),),
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
    "minicpm5": (r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")),
}
GGUF: Final = {name: each for names, each in BY_NAMES.items() for name in names.split()}
# A part that is a token is not split further.
WHOLE_FIRST: Final = frozenset(
    ("llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken minicpm5")
    .split()
)  # fmt: skip

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
