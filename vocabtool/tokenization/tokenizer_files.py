"""Tokenizers of other formats, described as a ``tokenizer.json`` for the ``tokenizers`` library.

If the library cannot express a rule, or vocabtool does not know it, an error names the rule. The
descriptions follow these sources:

- GGUF: ``src/llama-vocab.cpp`` in ggml-org/llama.cpp, with ``parse_special=false``: control tokens
  in a text are plain text, but user-defined tokens are kept whole. One difference: for BERT, words
  of more than 100 characters are unknown, as in BERT's own tokenizer.
- tiktoken: ``tiktoken_ext/openai_public.py`` in openai/tiktoken. A file contains ranks but no
  pattern, so the caller names the encoding. OpenAI's own files are recognised by their hash.
- A folder of huggingface/transformers: see :mod:`vocabtool.formats.tokenizer_folder`.

Patterns have the syntax of Oniguruma, which the ``tokenizers`` library uses.
"""

from __future__ import annotations

import base64
import hashlib
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

from vocabtool.choices import TiktokenName
from vocabtool.errors import InvalidFile, NotFound, UnsupportedFormat, VocabtoolError, reading
from vocabtool.formats import gguf, hf_tokenizer, json_file, keras, registry, sentencepiece
from vocabtool.formats import tokenizer_folder as folders
from vocabtool.formats.files import MAX_FILE, read_file
from vocabtool.formats.reader import HEAD, Source
from vocabtool.formats.tokenizer_folder import (
    BLANKS,
    ENGLISH,
    GPT2,
    LETTERS,
    LLAMA3,
    OTHERWISE,
    QWEN2,
    SIGNS,
)
from vocabtool.tokenization import steps as text_steps
from vocabtool.tokenization.hf_tokenizer import HFWordTokenizer, Json
from vocabtool.tokenization.lookup import (
    PieceTokenizer,
    RuleTokenizer,
    SentencePieceTokenizer,
    Tokenizer,
)
from vocabtool.tokenization.rule import (
    PUNCTUATION,
    TOKENIZER,
    LowerEveryScript,
    Rule,
    names_tokenizer,
)
from vocabtool.tokenization.text_arrays import SplitStep, Step
from vocabtool.vocabulary import ALPHABET, Vocabulary, decode, encode

TOKENIZERS: Final = ("tokenizer.json", "*.model", "*.gguf", "vocab.json", "vocab.txt", "*.tiktoken")
MIN_SHARED_PIECES: Final = 0.9  # control pieces may be missing in the model's vocabulary


def tokenizer_for(model: Path, vocabulary: Vocabulary) -> tuple[Tokenizer, Path | None] | None:
    """Return the tokenizer of a model's vocabulary, and the file that defines it.

    The file is ``None`` for a Keras archive, the result if no file defines how texts are split.
    Raises :class:`InvalidFile` for a damaged file, and :class:`UnsupportedFormat` for an unknown
    rule.
    """
    names = dict.fromkeys(place.file for place in vocabulary.places)
    with reading(str(model)):
        folder = folders.read(model)
        if folder is not None and folder.file in names and folder.document is not None:
            return HFWordTokenizer(folder.document, vocabulary), model
    if folder is not None and folder.file in names:
        data, added = read_file(folder.pieces, MAX_FILE), tuple(map(str.encode, folder.added))
        splits = SentencePieceTokenizer(data, vocabulary, Rule(()), added)
        return PieceTokenizer(splits, vocabulary), folder.pieces
    files = [model]
    if model.is_dir():  # the files of the folder that contain the vocabulary
        files = [model / name for name in names if (model / name).is_file()]
    data = vocabulary.stored.data  # SentencePiece models are read in place
    if vocabulary.kind == "sentencepiece" and sentencepiece.looks_like_model(data[:HEAD]):
        return SentencePieceTokenizer(data, vocabulary, Rule(())), files[0] if files else model
    for file in files:
        with reading(str(file)):
            layer = keras.text_vectorization(file, vocabulary)
            if layer is not None:
                return RuleTokenizer(text_vectorization_rule(layer), vocabulary), None
            tokenizer = _tokenizer_in(file, vocabulary)
            if tokenizer is not None:
                return tokenizer, file
    return None


def _tokenizer_in(file: Path, vocabulary: Vocabulary) -> Tokenizer | None:
    """Return the tokenizer that one file defines; ``None`` if it defines none."""
    document: Any = document_of(file)
    if document is None and json_file.recognise(Source.open(file)) is None:
        document = json_file.read(file)
    if hf_tokenizer.recognise(document) is None:
        return HFWordTokenizer(document, vocabulary)
    if keras.why_no_tokenizer(document) is None:
        rule = _keras_rule(document)
        return None if rule is None else RuleTokenizer(rule, vocabulary)
    if json_file.why_no_whitespace_tokenizer(document) is None:
        stop_words = dict.fromkeys(sorted(document["stop_words"]))
        step = WhitespaceWords(vocabulary, stop_words, document["do_lower_case"])
        return RuleTokenizer(Rule((step,)), vocabulary)
    if vocabulary.kind != "bpe" or vocabulary.marker != " ":
        return None
    if document is None:  # ranks of tiktoken
        with file.open("rb") as opened:
            encoding = PUBLISHED.get(hashlib.file_digest(opened, "sha256").hexdigest())
        pattern = None if encoding is None else TIKTOKEN[encoding]
    else:
        is_tekken = json_file.TEKKEN.recognise(document) is None
        pattern = document["config"].get("pattern") if is_tekken else None
    # Other libraries read ``}+`` in a pattern of a file in another way.
    if not isinstance(pattern, str) or (document is not None and "}+" in pattern):
        return None
    return HFWordTokenizer(_tiktoken(vocabulary, pattern), vocabulary, raw=True)


def tokenizer_file(rule: str) -> Path:
    """Return the file of a rule ``tokenizer:FILE``.

    If FILE is a folder, it is the folder itself if its files define a tokenizer together, otherwise
    the first file in it that matches :data:`TOKENIZERS`.
    """
    path = Path(rule.removeprefix("tokenizer:"))
    if path.is_dir() and folders.read(path) is not None:
        return path
    inside = chain.from_iterable(sorted(path.glob(pattern)) for pattern in TOKENIZERS)
    return next(filter(Path.is_file, inside), path)


def tokenizer_by_rule(rule: str, vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer for ``tokenizer:FILE``, ``bert-(un)cased`` or ``tiktoken:NAME``.

    Raises :class:`VocabtoolError` if the entries do not fit the rule, or FILE has no tokenizer.
    """
    if names_tokenizer(rule):
        file = tokenizer_file(rule)
        if not file.is_file() and (not file.is_dir() or folders.read(file) is None):
            wanted = f"expected {TOKENIZER}, or a folder with one of them"
            raise NotFound(f"{file}: no such file ({wanted})")
        pieces = registry.extract(file)
        result = tokenizer_for(file, pieces)
        if result is None:
            what = "the file does not define how to split texts"
            raise VocabtoolError(f"{file}: {what} (expected {TOKENIZER})")
        shared = sum(piece in vocabulary.positions for piece in pieces.stored)
        if shared < len(pieces) * MIN_SHARED_PIECES:
            raise VocabtoolError(
                f"{file}: not the tokenizer of this model: of the {len(pieces):,} pieces in the "
                f"file, only {shared:,} are in {vocabulary.name}; choose another file, or another "
                "vocabulary with MODEL#NAME"
            )
        return PieceTokenizer(result[0], vocabulary)
    patterns: dict[str, str] = {f"tiktoken:{name}": pattern for name, pattern in TIKTOKEN.items()}
    if rule in patterns:
        return HFWordTokenizer(_tiktoken(vocabulary, patterns[rule]), vocabulary, raw=True)
    if vocabulary.marker != "##":
        raise VocabtoolError(
            f"{vocabulary.name}: the rule {rule!r} needs pieces that begin with ##, as in the "
            "vocab.txt of BERT"
        )
    document = folders.bert_file(folders.ids_by_text(vocabulary), rule == "bert-uncased")
    return HFWordTokenizer(document, vocabulary)


def document_of(file: Path) -> Json | None:
    """Return a ``tokenizer.json`` equivalent to a file or to a folder; ``None`` for others.

    The file may be a GGUF file, or the entries of a folder, which count then even if the folder has
    a ``tokenizer.json``, too.
    """
    folder = folders.read(file)
    if folder is not None:
        if folder.document is None:
            what = f"{folder.file} and {folder.pieces.name} are no single tokenizer; {OTHERWISE}"
            raise UnsupportedFormat(what)
        return folder.document
    contents = None if file.is_dir() else gguf.read_tokenizer(file)
    return _gguf(contents) if isinstance(contents, gguf.GGUFTokenizer) else contents


# Keras, and the averaged word vectors of sentence-transformers.


FILTERS: Final = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'  # Keras' default


def _keras_rule(document: Any) -> Rule | None:
    """Return the rule of ``texts_to_sequences``; ``None`` if the document has no settings.

    Raises :class:`InvalidFile` for settings that make Keras fail, and for ``split: null``.
    """
    config = keras.config_of(document)
    complete = document.get("class_name") == "Tokenizer"
    if not complete and not config.keys() & {"filters", "lower", "split", "char_level"}:
        return None
    steps: list[Step] = [LowerEveryScript()] if config.get("lower", True) else []
    if config.get("char_level"):  # characters are words
        return Rule((*steps, text_steps.Characters()))
    filters, split = config.get("filters", FILTERS), config.get("split", " ")
    if isinstance(filters, list) and all(isinstance(c, str) and len(c) == 1 for c in filters):
        filters = "".join(filters)
    if not isinstance(filters, str):
        got = json_file.kind(filters)
        raise InvalidFile(f"filters is {got}, wanted a text with the characters to remove")
    if not isinstance(split, str) or not split:
        got = "empty" if split == "" else json_file.kind(split)
        raise InvalidFile(f"split is {got}, wanted a text to split at")
    if split.encode("utf-8", "ignore").decode() != split:
        raise InvalidFile("the value of 'split' has a lone surrogate, so no text can contain it")
    filtered = filters.encode("utf-8", "ignore").decode()
    if filtered:  # each of these characters becomes a separator
        escaped = re.sub(r"[\\\]\[^\-]", r"\\\g<0>", filtered).replace("\0", r"\x00")
        separator = split.replace("\\", "\\\\")
        steps.append(text_steps.RegexReplace(f"[{escaped}]", separator))
    return Rule((*steps, text_steps.SplitOn(split.encode()), text_steps.DropEmpty()))


MAX_NGRAMS: Final = 64  # words in all n-grams that begin with one word
# What the settings of a TextVectorization do, by their value as text.
TEXT_STEPS: Final[dict[str, dict[str, tuple[Step, ...]]]] = {
    "standardize": {
        "None": (),
        "lower": (text_steps.Lower(),),
        "strip_punctuation": (text_steps.RegexReplace(PUNCTUATION, ""),),
        "lower_and_strip_punctuation": (
            text_steps.Lower(),
            text_steps.RegexReplace(PUNCTUATION, ""),
        ),
    },
    "split": {
        "None": (),
        "whitespace": (text_steps.SplitWhitespace(),),
        "character": (text_steps.Characters(),),
    },
}


def text_vectorization_rule(layer: keras.LookupLayer) -> Rule:
    """Return a TextVectorization's rule; refuse settings that are not Keras's own."""
    widths = setting = layer.text_settings["ngrams"]
    if isinstance(setting, dict):
        widths = setting.get("items")  # of a tuple
    elif json_file.is_id(setting):
        widths = [*range(1, min(setting, MAX_NGRAMS) + 1)]
    ngrams: dict[str, tuple[Step, ...]] = {"None": ()}
    if (
        isinstance(widths, list)
        and all(json_file.is_id(width) and width > 0 for width in widths)
        and sum(widths) <= MAX_NGRAMS
    ):
        ngrams[str(setting)] = (text_steps.NGrams(b" ", tuple(widths)),)
    steps: list[Step] = []
    for key, known in {**TEXT_STEPS, "ngrams": ngrams}.items():
        value = layer.text_settings[key]
        if str(value) not in known:
            name = value.get("config") if isinstance(value, dict) else value
            raise UnsupportedFormat(
                f"layer {layer.name}: its {key} is {json_file.show_value(name)!r}, which "
                "vocabtool does not know (functions of Python are not run); save the model "
                "with model.export(FOLDER), or name a rule with --rule"
            )
        steps += known[str(value)]
    return Rule(tuple(steps))


@dataclass(frozen=True, slots=True)
class WhitespaceWords(SplitStep):
    """Split as the ``WhitespaceTokenizer`` of sentence-transformers does.

    Each part between white space is looked up as it is, then without punctuation at its ends, then
    in lower case. The first of these that is an entry is a word; the first that is a stop word
    removes the part. A part that is neither is a word in its last form.
    """

    entries: Vocabulary = field(repr=False)
    stop_words: dict[str, None] = field(hash=False)
    lower: bool

    def split(self, text: bytes) -> list[bytes]:
        words = []
        decoded = decode(text)
        if self.lower:
            decoded = decoded.lower()
        for chunk in decoded.split():
            bare = chunk.strip(string.punctuation)
            forms = (chunk, bare, bare.lower())
            word = next((f for f in forms if f in self.stop_words or f in self.entries), forms[-1])
            if word and word not in self.stop_words:
                words.append(encode(word))
        return words

    def describe(self) -> str:
        ends = "where a word is no entry, remove punctuation at its ends, then lower-case it"
        stop = f"drop {len(self.stop_words):,} stop words"
        lower = "lower-case, " if self.lower else ""
        return f"{lower}split at white space; {ends}; {stop}"


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
GGUF: Final = {name: patterns for names, patterns in BY_NAMES.items() for name in names.split()}
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

PREFIX: Final[Json] = {"type": "Prepend", "prepend": "▁"}
USER_DEFINED: Final = 4
NORMAL: Final = (1, USER_DEFINED, 5)  # pieces that a unigram model matches


def _gguf(tokenizer: gguf.GGUFTokenizer) -> Json:
    """Describe the tokenizer of a GGUF file as a ``tokenizer.json``."""
    tokens = [token or b"[EMPTY_%d]" % at for at, token in enumerate(tokenizer.tokens)]
    try:
        ids = {token.decode(): number for number, token in enumerate(tokens)}
    except UnicodeDecodeError as error:
        raise InvalidFile(f"a token is not UTF-8: {error}") from error
    if len(ids) < len(tokens):
        raise InvalidFile(f"{len(tokens) - len(ids):,} tokens occur twice")
    whole = set(KEPT_WHOLE)
    whole |= {t for t, kind in zip(ids, tokenizer.types, strict=False) if kind == USER_DEFINED}
    added = folders.added_tokens(ids, whole.difference(PLAIN_ENDS))
    match tokenizer.model:
        case "llama":
            return _gguf_scored(tokenizer, ids, added)
        case "gpt2" | "gemma4":
            return _gguf_bpe(tokenizer, ids, added)
        case "t5":
            return _gguf_unigram(tokenizer, ids, added)
        case "bert":
            flags, unknown = tokenizer.flags, _unknown(tokenizer, ids, 100)
            lower = flags.get("normalizer.lowercase", True)
            accents = flags.get("normalizer.strip_accents", lower)
            return folders.bert(ids, added, lower, accents, unknown=unknown, marks_starts=True)
    raise UnsupportedFormat(f"the tokenizer {tokenizer.model!r} is not supported; {OTHERWISE}")


def _unknown(tokenizer: gguf.GGUFTokenizer, ids: Mapping[str, int], otherwise: int) -> str:
    """Return the unknown token. ``otherwise``: its id if the file does not state it."""
    number = otherwise if tokenizer.unknown is None else tokenizer.unknown
    token = next((token for token, id_ in ids.items() if id_ == number), None)
    if token is None:
        raise InvalidFile(f"the unknown token has id {number:,}, but there are {len(ids):,} tokens")
    return token


def _gguf_scored(tokenizer: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe SentencePiece's BPE. It first merges the pair that makes the best-scored piece."""
    if not len(tokenizer.scores):
        raise InvalidFile("no scores of tokens (tokenizer.ggml.scores), which this tokenizer needs")
    ranks = dict(zip(ids, (-tokenizer.scores).tolist(), strict=True))
    unknown = _unknown(tokenizer, ids, 0)
    settings = {"unk_token": unknown, "fuse_unk": False, "byte_fallback": True}
    model = folders.bpe(ids, folders.pairs(ranks), **settings)
    begin = [PREFIX] if tokenizer.flags.get("add_space_prefix", True) else []
    return folders.document(model, [*begin, folders.replace(" ", "▁")], [], added)


def _gguf_bpe(tokenizer: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe a byte-level BPE with llama.cpp's patterns, or a BPE of characters (Gemma 4)."""
    merges = folders.listed_pairs(tokenizer.merges, ids)
    name = "gemma4" if tokenizer.model == "gemma4" else tokenizer.pre or "default"
    if name in RAW:  # no merges make the tokens that consist of newlines
        newlines = (newline for newline in ids if not newline.strip("\n"))
        added = folders.added_tokens(ids, [*(token["content"] for token in added), *newlines])
        model = folders.bpe(ids, merges, byte_fallback=True, fuse_unk=False)
        splits = [folders.split(r"[^\n]+|\n+")]
        return folders.document(model, [folders.replace(" ", "▁")], splits, added)
    patterns = GGUF.get(name)
    if patterns is None:
        raise UnsupportedFormat(f"the pre-tokenizer {name!r} is unknown to vocabtool; {OTHERWISE}")
    if not merges:
        raise InvalidFile("no merges (tokenizer.ggml.merges), which this tokenizer needs")
    model = folders.bpe(ids, merges, ignore_merges=name in WHOLE_FIRST)
    return folders.document(model, [], folders.byte_level(patterns), added)


def _gguf_unigram(tokenizer: gguf.GGUFTokenizer, ids: Mapping[str, int], added: list[Json]) -> Json:
    """Describe SentencePiece's unigram model. Control tokens get names that no text contains."""
    if not len(tokenizer.scores) or not tokenizer.types:
        raise InvalidFile("no scores or no types of tokens, which this tokenizer needs")
    if tokenizer.flags.get("treat_whitespace_as_suffix"):
        raise UnsupportedFormat(f"treat_whitespace_as_suffix is not supported; {OTHERWISE}")
    lowest = float(tokenizer.scores.min())
    pieces = [
        [token, 0.0 if kind == USER_DEFINED else score]
        if kind in NORMAL
        else [f"\0{token}", lowest]
        for token, kind, score in zip(ids, tokenizer.types, tokenizer.scores.tolist(), strict=True)
    ]
    number = ids[_unknown(tokenizer, ids, 2)]
    steps: list[Json] = []
    if tokenizer.charsmap:
        charsmap = base64.b64encode(tokenizer.charsmap).decode()
        steps.append({"type": "Precompiled", "precompiled_charsmap": charsmap})
    removes_blanks = tokenizer.flags.get("remove_extra_whitespaces", False)
    if removes_blanks:
        removed = ((r"\A +| +\z", ""), (" {2,}", " "))
        steps += (folders.replace(old, new, regex=True) for old, new in removed)
    if removes_blanks or tokenizer.flags.get("add_space_prefix", False):
        steps.append(PREFIX)
    model = {"type": "Unigram", "unk_id": number, "vocab": pieces, "byte_fallback": False}
    return folders.document(model, [*steps, folders.replace(" ", "▁")], [], added)


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
    missing = sum(character not in ids for character in ALPHABET)
    if missing:
        why = f"{missing:,} of the 256 byte values are not entries"
        raise VocabtoolError(f"{vocabulary.name}: not ranks of tiktoken, because {why}")
    first = min(map(ids.__getitem__, ALPHABET))
    ids = {token: number for token, number in ids.items() if number >= first}
    model = folders.bpe(ids, folders.pairs(ids), ignore_merges=True)
    return folders.document(model, [], folders.byte_level((pattern,)), [])
