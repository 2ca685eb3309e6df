"""Parts of a ``tokenizer.json``, from which tokenizers of other formats are described.

Layout: huggingface/tokenizers, tokenizers/src/{normalizers,pre_tokenizers,models}. Patterns have
the syntax of Oniguruma, which the ``tokenizers`` library uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from vocabtool.errors import InvalidFile
from vocabtool.vocabulary import Vocabulary

Json = dict[str, Any]

OTHERWISE: Final = "name a tokenizer.json of the same model: --rule tokenizer:FILE"

# Patterns. Each is matched on the parts that the one before it left; matches and the text between
# them are parts.

ENGLISH: Final = r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])"
BLANKS: Final = r"\s*[\r\n]+|\s+(?!\S)|\s+"
SIGNS: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
LETTERS: Final = r"[^\r\n\p{L}\p{N}]?\p{L}+"
GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3: Final = rf"{ENGLISH}|{LETTERS}|\p{{N}}{{1,3}}|{SIGNS}|{BLANKS}"
QWEN2: Final = rf"{ENGLISH}|{LETTERS}|\p{{N}}|{SIGNS}|{BLANKS}"


MAX_PIECE: Final = 512  # characters; the longest known token that is made of pairs has 128


def document(
    model: Json, normalizers: Iterable[Json], splits: Iterable[Json], added: Iterable[Json]
) -> Json:
    return {
        "version": "1.0",
        "added_tokens": list(added),
        "normalizer": sequence("normalizers", normalizers),
        "pre_tokenizer": sequence("pretokenizers", splits),
        "model": model,
    }


def sequence(key: str, parts: Iterable[Json]) -> Json | None:
    listed = list(parts)
    return {"type": "Sequence", key: listed} if listed else None


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


def texts(vocabulary: Vocabulary) -> dict[str, int]:
    """Return a mapping from each entry's text to its id. Of equal entries, the last one counts."""
    try:
        entries = [entry.decode() for entry in vocabulary.stored]
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{vocabulary.name}: an entry is not UTF-8: {error}") from error
    return dict(zip(entries, vocabulary.id_array().tolist(), strict=True))


# BERT.

LONGEST: Final = 100  # characters of a word
BERT_SPECIAL: Final = ("[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]")


def bert(
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


def bert_file(ids: Mapping[str, int], lowercase: bool, **settings: Any) -> Json:
    """Describe BERT's tokenizer with the special tokens of a ``vocab.txt``."""
    added = added_tokens(ids, BERT_SPECIAL, special=True)
    return with_ends(bert(ids, added, lowercase, **settings), ids, "[CLS]", "[SEP]")
