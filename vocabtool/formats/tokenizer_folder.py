"""How the tokenizer of a model's folder is made, as huggingface/transformers makes it.

:func:`read` decides for a folder which file has the entries, which settings beside it change how a
text is split, and which file gives the ids. The result is one ``tokenizer.json``:

- ``tokenizer.json`` counts where it is there. The settings of ``tokenizer_config.json`` change its
  steps (``do_lower_case``, ``strip_accents``, ``tokenize_chinese_chars``, ``add_prefix_space``),
  and tokens that only ``added_tokens_decoder``, ``added_tokens.json`` or the special tokens name
  are added. A setting that contradicts the file in another way is refused by name.
- A SentencePiece model of a class that numbers pieces in its own way (fairseq) or changes texts
  first (ALBERT): the pieces with the ids of that class.
- Marian: ``source.spm`` splits texts, ``vocab.json`` (or Marian's own ``vocab.yml``) gives the ids.
- ``vocab.json`` with ``merges.txt`` (or OpenAI's ``encoder.json`` with ``vocab.bpe``), and
  ``vocab.txt``: the tokenizer of the class, with its settings.

The class is ``tokenizer_class`` in ``tokenizer_config.json``, or belongs to the ``model_type`` in
``config.json`` (src/transformers/models/auto/tokenization_auto.py; the classes are in
src/transformers/models/*/tokenization_*.py, the orders of ids in convert_slow_tokenizer.py). With
``do_lower_case`` in ``sentence_bert_config.json``, sentence-transformers lower-cases texts before
their tokenizer sees them. Static embeddings take ``tokenizer.json`` as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import replace as replace_fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from vocabtool.errors import InvalidFile, UnsupportedFormat, reading
from vocabtool.formats import hf_tokenizer, json_file, sentencepiece, word_list
from vocabtool.formats.encoder_files import CONFIG, MODULES, SENTENCES, TOKENIZER, TOKENIZER_CONFIG
from vocabtool.formats.files import MAX_FILE, leads_away, read_file
from vocabtool.vocabulary import ALPHABET, USED, Place, Unknown, Vocabulary

Json = dict[str, Any]

OTHERWISE: Final = "name a tokenizer.json of the same model: --rule tokenizer:FILE"
LOWER: Final = "lower_first"  # our own key of a tokenizer.json: texts are lower-cased before it
MAX_SETTINGS: Final = 1 << 24  # bytes
MAX_LINES: Final = 1 << 26  # bytes of a vocab.txt
SPECIAL_MAP: Final = "special_tokens_map.json"
VOCAB: Final = "vocab.json"
SOURCE: Final = "source.spm"  # of Marian; target.spm is a vocabulary of its own
UNKNOWN: Final = "<unk>"
ENTRIES_AND_MERGES: Final = ((VOCAB, json_file.MERGES), ("encoder.json", "vocab.bpe"))
VOCAB_TEXT: Final = "vocab.txt"
SEVERAL_FILES: Final = (*(name for name, _ in ENTRIES_AND_MERGES), VOCAB_TEXT)
SENTENCEPIECE: Final = (
    *("sentencepiece.bpe.model", "spiece.model", "sentencepiece.model", "spm.model"),
)
READ_HERE: Final = (
    *(TOKENIZER, TOKENIZER_CONFIG, SPECIAL_MAP, json_file.ADDED, SENTENCES, SOURCE, "target.spm"),
    *(name for pair in ENTRIES_AND_MERGES for name in pair),
    *(VOCAB_TEXT, *SENTENCEPIECE, "tokenizer.model"),
)
YAML: Final = "*vocab.yml"  # the ids of Marian, before transformers converts it
# Classes by the model_type of config.json, where tokenizer_config.json names none.
CLASSES: Final = {
    **dict.fromkeys(
        ("bert", "distilbert", "electra", "convbert", "layoutlm", "nomic_bert"), "Bert"
    ),
    **{"roberta": "Roberta", "bart": "Bart", "gpt2": "GPT2", "clip": "CLIP", "albert": "Albert"},
    **{"xlm-roberta": "XLMRoberta", "camembert": "Camembert", "marian": "Marian"},
    **{"qwen2": "Qwen2", "deberta": "Deberta", "longformer": "Longformer"},
}


class UnknownIds(UnsupportedFormat):
    """The class of a tokenizer numbers the pieces of its file in a way that is not known here."""


@dataclass(frozen=True, slots=True)
class FolderTokenizer:
    """The tokenizer of a folder.

    ``file``: the name of the file whose entries have the ids. ``document``: a ``tokenizer.json`` in
    which all settings are applied. Marian has none, but ``pieces``, the path of the SentencePiece
    model whose pieces are looked up in ``file``, and ``added``, the tokens that are kept whole.
    ``settings``: the names of other files that were obeyed. ``left_alone``: of those not read.
    """

    file: str
    document: Json | None
    pieces: Path = Path()
    added: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    left_alone: tuple[str, ...] = ()

    def correct(self, vocabulary: Vocabulary) -> Vocabulary:
        """Return a vocabulary with this tokenizer's entries and ids; a note names the files."""
        if self.document is None:
            note = f"{self.pieces.name} splits texts into these entries"
            known = UNKNOWN.encode() in vocabulary.positions
            unknown = Unknown(vocabulary.id_of(UNKNOWN)) if known else None
            vocabulary = replace_fields(
                vocabulary, unknown=unknown, notes=(*vocabulary.notes, note)
            )
        else:
            described = hf_tokenizer.vocabulary(self.document, self.file)
            same_ids = np.array_equal(described.id_array(), vocabulary.id_array())
            if described.stored != vocabulary.stored or not same_ids:
                vocabulary = described
        used = ", ".join(self.settings)
        note = f"{USED} {self.file} with {used}" if used else f"{USED} {self.file}"
        if self.left_alone:
            note += f"; left alone: {', '.join(self.left_alone)}"
        return replace_fields(vocabulary, notes=(*vocabulary.notes, note))


def read(model: Path) -> FolderTokenizer | None:
    """Return the tokenizer of a folder; ``None`` if the folder has none of the layouts above.

    ``model``: the folder, or the file in it that must have the entries; only one of
    ``SEVERAL_FILES`` can. Raises :class:`UnsupportedFormat` for an unknown tokenizer.
    """
    folder, entries = (model, None) if model.is_dir() else (model.parent, model.name)
    if entries not in (None, *SEVERAL_FILES):
        return None
    files = _Files(folder)
    if files.has(SOURCE) and not files.has(TOKENIZER):  # Marian
        names = (VOCAB, *sorted(path.name for path in folder.glob(YAML)))
        file = next(filter(files.has, names), None)
        if file is not None:
            tokens = ("</s>", UNKNOWN, "<pad>", *(t["content"] for t in _added_in_settings(files)))
            used = (SOURCE, *files.used)
            left = files.left_alone(file, *used)
            added = tuple(dict.fromkeys(tokens))
            return FolderTokenizer(file, None, folder / SOURCE, added, used, left)
    for describe in (_from_tokenizer_json, _from_sentencepiece, _from_merges, _from_lines):
        described = describe(files)
        if described is not None and entries in (None, described[1]):
            document, file = described
            if files.settings(SENTENCES).get("do_lower_case") is True and not files.is_static():
                document = {**document, LOWER: True}
            used = tuple(name for name in files.used if name != file)
            left = files.left_alone(file, *used)
            return FolderTokenizer(file, document, settings=used, left_alone=left)
    return None


class _Files:
    """The files of a folder. ``used``: the names of those that were read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.used: dict[str, None] = {}

    def has(self, name: str) -> bool:
        """Return whether there is such a file, and it is no link that leads away."""
        path = self.folder / name
        return path.is_file() and not leads_away(path)

    def read(self, name: str, limit: int = MAX_FILE) -> bytes:
        self.used[name] = None
        with reading(name):
            return read_file(self.folder / name, limit)

    def left_alone(self, *used: str) -> tuple[str, ...]:
        """Return the names of the other files of a tokenizer that the folder has."""
        return tuple(name for name in READ_HERE if name not in used and self.has(name))

    def settings(self, name: str) -> Json:
        """Return the object in a JSON file; an empty one if there is no such file."""
        if not self.has(name):
            return {}
        data = self.read(name, MAX_SETTINGS)
        with reading(name):
            return dict(json_file.expect(json_file.parse(data), dict, name))

    def is_static(self) -> bool:
        """Whether it is a static embedding, whose library reads ``tokenizer.json`` alone."""
        if self.has(MODULES):
            return b"StaticEmbedding" in self.read(MODULES, MAX_SETTINGS)
        return self.settings(CONFIG).get("model_type") == "model2vec"

    def tokenizer_class(self) -> str | None:
        """Return the name of the class, such as ``Bert``; ``None`` if no file names it."""
        name = self.settings(TOKENIZER_CONFIG).get("tokenizer_class")
        if isinstance(name, str):
            return name.removesuffix("Fast").removesuffix("Tokenizer")
        kind = self.settings(CONFIG).get("model_type")
        return CLASSES.get(kind) if isinstance(kind, str) else None


# Settings, and tokens that they add.

FLAGS: Final = ("single_word", "lstrip", "rstrip", "normalized", "special")
PLAIN: Final = dict.fromkeys(FLAGS, False)
MAX_DIGITS: Final = 10


def _content(token: object) -> str | None:
    """Return the text of a token, which is a string or an object with a ``content``."""
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) and content else None


def _describe(tokens: Iterable[object], **flags: bool) -> Iterator[Json]:
    """Describe added tokens that have a text, without ids. ``flags`` replace their settings."""
    for token in tokens:
        content = _content(token)
        if content is not None:
            stated = token if isinstance(token, dict) else {}
            own = {flag: stated.get(flag) is True for flag in FLAGS}
            yield {"content": content, **own, **flags}


def _special(settings: Json) -> Iterator[Json]:
    """Describe the special tokens that a file of settings names, such as ``unk_token``."""
    for key, value in settings.items():
        if key.endswith("_token") or key in ("additional_special_tokens", "extra_special_tokens"):
            yield from _describe(value if isinstance(value, list) else [value], special=True)


def _added_in_settings(files: _Files) -> Iterator[Json]:
    """Yield the added tokens that the files beside the entries name, without their ids."""
    settings = files.settings(TOKENIZER_CONFIG)
    special = [*_special(settings)]
    decoder = settings.get("added_tokens_decoder")
    if isinstance(decoder, dict):
        numbers = (number for number in decoder if number.isdecimal() and len(number) < MAX_DIGITS)
        yield from _describe(decoder[number] for number in sorted(numbers, key=int))
    else:
        special += _special(files.settings(SPECIAL_MAP))
        names = {token["content"] for token in special}
        added = files.settings(json_file.ADDED)
        numbered = sorted((id_, name) for name, id_ in added.items() if json_file.is_id(id_))
        for _, content in numbered:
            is_special = content in names
            yield from _describe([content], normalized=not is_special, special=is_special)
    yield from special


def _with_added(document: Json, tokens: Iterable[Json], usual: Iterable[str] = ()) -> Json:
    """Add tokens, numbered as by the library. ``usual``: tokens of the class, added if entries."""
    vocab = document["model"]["vocab"]
    entries = {piece for piece, _ in vocab} if isinstance(vocab, list) else vocab
    listed = list(document.get("added_tokens") or [])
    known = {_content(token) for token in listed}
    number = len(entries) + sum(content not in entries for content in known)
    named = (
        {"content": content, **PLAIN, "special": True} for content in usual if content in entries
    )
    for token in (*tokens, *named):
        if token["content"] not in known:
            known.add(token["content"])
            listed.append({"id": number, **token})  # the id of an entry is that of the model
            number += token["content"] not in entries
    return {**document, "added_tokens": listed}


# tokenizer.json.

# Settings of BertTokenizer, what they are called in a BertNormalizer, and their defaults.
BERT_SETTINGS: Final = (
    ("do_lower_case", "lowercase", True),
    ("strip_accents", "strip_accents", None),
    ("tokenize_chinese_chars", "handle_chinese_chars", True),
)


# Each of these functions returns a tokenizer.json, and the name of the file whose entries have the
# ids; ``None`` if the folder has another layout.


def _from_tokenizer_json(files: _Files) -> tuple[Json, str] | None:
    """Apply the settings beside a ``tokenizer.json`` to its steps."""
    if not files.has(TOKENIZER):
        return None
    data = files.read(TOKENIZER)
    with reading(TOKENIZER):
        document = json_file.parse(data)
        if hf_tokenizer.recognise(document) is not None:
            return None
    if files.is_static():
        return document, TOKENIZER
    settings, name = files.settings(TOKENIZER_CONFIG), files.tokenizer_class()
    prefix = settings.get("add_prefix_space")
    normalizers = [*hf_tokenizer.parts(document.get("normalizer"))]
    for step in (*normalizers, *hf_tokenizer.parts(document.get("pre_tokenizer"))):
        kind = step.get("type")
        if kind == "BertNormalizer":
            for key, own, default in BERT_SETTINGS:
                if key in settings or name in BERT_LIKE:
                    step[own] = settings.get(key, default)
        elif kind == "ByteLevel" and isinstance(prefix, bool):
            step["add_prefix_space"] = prefix
        elif kind == "Metaspace" and isinstance(prefix, bool):
            first = "first" if settings.get("legacy") is False else "always"
            step["prepend_scheme"] = first if prefix else "never"
    if name == "Albert":
        tables = [step for step in normalizers if step.get("type") == "Precompiled"]
        document["normalizer"] = sequence("normalizers", _albert(settings, tables))
    usual = BERT_SPECIAL if name in BERT_LIKE else ()
    return _with_added(document, _added_in_settings(files), usual), TOKENIZER


# SentencePiece.

BEGIN: Final = ("<s>", "<pad>", "</s>", "<unk>")
MASK: Final = "<mask>"  # tokenizers that have it remove the blanks before it
# The first entries, and the first piece after them, of classes that number pieces like fairseq.
FAIRSEQ: Final = {
    "XLMRoberta": (BEGIN, 3),
    "Camembert": (("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"), 1),
}
NOT_READ: Final = (  # these number pieces in other ways
    *("Barthez", "Bartpho", "M2M100", "MBart", "MBart50", "Nllb", "PLBart", "Speech2Text", "XGLM"),
)
LOWEST: Final = -100.0  # the score of a piece that is not to be used


def _from_sentencepiece(files: _Files) -> tuple[Json, str] | None:
    """Describe the tokenizer of ALBERT, XLM-R or CamemBERT, whose pieces are in SentencePiece."""
    name = files.tokenizer_class()
    file = next(filter(files.has, SENTENCEPIECE), None)
    if file is None or name not in (*FAIRSEQ, *NOT_READ, "Albert"):
        return None
    if name in NOT_READ:
        raise UnknownIds(
            f"the ids of {name}Tokenizer ({TOKENIZER_CONFIG}) differ from those of {file} in a way "
            f"that vocabtool does not know; {OTHERWISE}"
        )
    settings = files.settings(TOKENIZER_CONFIG)
    data = files.read(file)
    with reading(file):
        pieces, charsmap = sentencepiece.scored_pieces(data)
    table = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap).decode()}
    tables: list[Json] = [table] if charsmap else []
    if name == "Albert":
        steps, unknown, usual = _albert(settings, tables), 1, BERT_SPECIAL
    else:
        first, start = FAIRSEQ[name]
        scores = {token: LOWEST if token.startswith("<unk>N") else 0.0 for token in first}
        pieces = [*scores.items(), *pieces[start:], (MASK, 0.0)]
        steps, unknown, usual = tables, len(BEGIN) - 1, (*BEGIN, MASK)
    scheme = "never" if settings.get("add_prefix_space") is False else "always"
    splits: list[Json] = [
        {"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True},
    ]
    model = {"type": "Unigram", "unk_id": unknown, "vocab": list(map(list, pieces))}
    tokenizer = document({**model, "byte_fallback": False}, steps, splits, [])
    return _with_added(tokenizer, _added_in_settings(files), usual), file


def _albert(settings: Json, tables: list[Json]) -> list[Json]:
    """Return the normalizers of ALBERT. ``tables``: SentencePiece's table, if there is one."""
    steps = [replace("``", '"'), replace("''", '"')]
    if settings.get("keep_accents") is not True:
        steps += [{"type": "NFKD"}, {"type": "StripAccents"}]
    if settings.get("do_lower_case") is not False:
        steps.append({"type": "Lowercase"})
    return [*steps, *tables]


# BERT.

BERT_LIKE: Final = (
    *("Bert", "DistilBert", "Electra", "MobileBert", "ConvBert", "Funnel", "LayoutLM", "Lxmert"),
    *("SqueezeBert", "Splinter", "RetriBert", "Realm", "DPRQuestionEncoder", "DPRContextEncoder"),
    "DPRReader",
)


def _from_lines(files: _Files) -> tuple[Json, str] | None:
    """Describe BERT's tokenizer; ``None`` if no file says whether it lower-cases."""
    name, settings = files.tokenizer_class(), files.settings(TOKENIZER_CONFIG)
    lower = settings.get("do_lower_case", None if name is None else True)
    if not files.has(VOCAB_TEXT) or not (settings or name):
        return None
    data = files.read(VOCAB_TEXT, MAX_LINES)
    lines = word_list.words(data, VOCAB_TEXT, Place(VOCAB_TEXT, ""))
    if lines.marker != "##":
        return None
    if name is not None and name not in BERT_LIKE:
        what = f"the tokenizer {name}Tokenizer ({TOKENIZER_CONFIG}) is not supported; {OTHERWISE}"
        raise UnsupportedFormat(what)
    if not isinstance(lower, bool):
        return None
    accents, chinese = settings.get("strip_accents"), settings.get("tokenize_chinese_chars", True)
    tokenizer = bert_file(
        ids_by_text(lines),
        lower,
        accents=accents if isinstance(accents, bool) else None,
        chinese=chinese is not False,
        unknown=_content(settings.get("unk_token")) or "[UNK]",
    )
    return _with_added(tokenizer, _added_in_settings(files)), VOCAB_TEXT


# Entries and merges.

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
WORD_END: Final = "</w>"


def _from_merges(files: _Files) -> tuple[Json, str] | None:
    """Describe the BPE of a known class, whose entries and merges are in two files."""
    pair = next((pair for pair in ENTRIES_AND_MERGES if all(map(files.has, pair))), None)
    if pair is None:
        return None
    entries_file, merges_file = pair
    entries = files.settings(entries_file)
    if not entries or any(type(id_) is not int for id_ in entries.values()):
        return None
    settings, name = files.settings(TOKENIZER_CONFIG), files.tokenizer_class()
    if name is None and all(character in entries for character in ALPHABET):  # an older folder
        name = "CLIP" if ALPHABET[ord("a")] + WORD_END in entries else "GPT2"
    merges = listed_pairs(word_list.read_lines(files.read(merges_file)), entries)
    if name in GPT2_LIKE:
        prefix = settings.get("add_prefix_space") is True
        tokenizer = document(bpe(entries, merges), [], byte_level((GPT2,), prefix=prefix), [])
        if name in ENDS:
            tokenizer = with_ends(tokenizer, entries, *ENDS[name])
    elif name == "Qwen2":
        pattern = QWEN2.replace(ENGLISH, "'(?i:[sdmt]|ll|ve|re)")
        tokenizer = document(bpe(entries, merges), [{"type": "NFC"}], byte_level((pattern,)), [])
    elif name == "CLIP":
        steps = ({"type": "NFC"}, replace(r"\s+", " ", regex=True), {"type": "Lowercase"})
        words = {**split(CLIP), "behavior": "Removed", "invert": True}
        unknown = _content(settings.get("unk_token")) or END
        model = bpe(entries, merges, unk_token=unknown, end_of_word_suffix=WORD_END)
        tokenizer = document(model, steps, [words, *byte_level(())], [])
        tokenizer = with_ends(tokenizer, entries, "<|startoftext|>", END)
    else:
        what = f"{name}Tokenizer" if name else f"no tokenizer_class in {TOKENIZER_CONFIG}"
        raise UnsupportedFormat(
            f"vocabtool has no tokenizer for the entries and {merges_file} of this model ({what}); "
            f"{OTHERWISE}"
        )
    usual = USUAL if USUAL[0] in entries else ("<|startoftext|>", END)
    return _with_added(tokenizer, _added_in_settings(files), usual), entries_file


# Parts of a tokenizer.json (huggingface/tokenizers, tokenizers/src/{normalizers,pre_tokenizers,
# models}). Patterns have the syntax of Oniguruma, as in that library. Each is matched on the parts
# that the one before it left; matches and the text between them are parts.

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


def sequence(key: str, steps: Iterable[Json]) -> Json | None:
    """Return a ``Sequence`` that lists the steps under ``key``, or ``None`` without steps."""
    listed = list(steps)
    return {"type": "Sequence", key: listed} if listed else None


def with_ends(tokenizer: Json, ids: Mapping[str, int], start: str, end: str) -> Json:
    """Let a tokenizer add the tokens ``start`` and ``end`` to a text, if both are entries."""
    if start not in ids or end not in ids:
        return tokenizer
    tokens = {"cls": [start, ids[start]], "sep": [end, ids[end]]}
    return {**tokenizer, "post_processor": {"type": "BertProcessing", **tokens}}


def split(pattern: str) -> Json:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def byte_level(patterns: tuple[str, ...], *, prefix: bool = False) -> Iterator[Json]:
    """Yield the steps that split by patterns and write every byte as a character."""
    alone = patterns == (GPT2,)
    if not alone:
        yield from map(split, patterns)
    settings = {"add_prefix_space": prefix, "trim_offsets": True, "use_regex": alone}
    yield {"type": "ByteLevel", **settings}


def replace(old: str, new: str, *, regex: bool = False) -> Json:
    return {"type": "Replace", "pattern": {"Regex" if regex else "String": old}, "content": new}


def added_tokens(ids: Mapping[str, int], contents: Iterable[str], **flags: bool) -> list[Json]:
    """Describe each token in ``contents`` that has an id. ``flags``: settings of these tokens."""
    numbered = sorted((ids[token], token) for token in set(contents) if token and token in ids)
    return [{"id": number, "content": token, **PLAIN, **flags} for number, token in numbered]


def pairs(rank_of: Mapping[str, float]) -> list[str]:
    """Return all pairs that form another token when joined, sorted by the rank of that token."""
    longest = max(map(len, rank_of), default=0)
    if longest > MAX_PIECE:
        raise InvalidFile(f"a token has {longest:,} characters; wanted at most {MAX_PIECE:,}")
    merges = [
        (rank, at, f"{token[:at]} {token[at:]}")
        for token, rank in rank_of.items()
        if " " not in token
        for at in range(1, len(token))
        if token[:at] in rank_of and token[at:] in rank_of
    ]
    return [pair for _, _, pair in sorted(merges)]


def listed_pairs(lines: Iterable[bytes], ids: Mapping[str, int]) -> list[str]:
    """Return the merges in the lines of a file, without comments and pairs that form no entry."""
    merges: dict[str, None] = {}
    for line in lines:
        text = line.decode("utf-8", "replace")
        at = text.find(" ", 1)  # the left piece may be a space
        left, right = text[:at], text[at + 1 :]
        if at > 0 and left in ids and right in ids and left + right in ids and " " not in right:
            merges[text] = None
    return list(merges)


def bpe(ids: Mapping[str, int], merges: list[str], **settings: Any) -> Json:
    return {"type": "BPE", "vocab": dict(ids), "merges": merges, **settings}


def ids_by_text(vocabulary: Vocabulary) -> dict[str, int]:
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

    ``accents``: whether they are removed; by default, if ``lowercase`` is true. ``marks_starts``:
    whether ``▁`` marks the first piece of a word, instead of ``##`` the later ones.
    """
    normalizer = {
        **{"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": chinese},
        **{"strip_accents": accents, "lowercase": lowercase},
    }
    splits: list[Json] = [{"type": "BertPreTokenizer"}]
    if marks_starts:
        metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"}
        splits.append({**metaspace, "split": False})
    model = {
        "type": "WordPiece",
        "vocab": dict(ids),
        "unk_token": unknown,
        "continuing_subword_prefix": "" if marks_starts else "##",
        "max_input_chars_per_word": LONGEST + 1 if marks_starts else LONGEST,  # ▁ counts
    }
    return document(model, [normalizer], splits, added)


def bert_file(ids: Mapping[str, int], lowercase: bool, **settings: Any) -> Json:
    """Describe BERT's tokenizer with the special tokens of a ``vocab.txt``."""
    added = added_tokens(ids, BERT_SPECIAL, special=True)
    return with_ends(bert(ids, added, lowercase, **settings), ids, "[CLS]", "[SEP]")
