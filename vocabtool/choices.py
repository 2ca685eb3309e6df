"""Choices and defaults shared by the library and the command line. Imports nothing heavy.

An option is a field of a dataclass that :func:`option` makes. The command line, the server, and the
checks and docstring of the dataclass are derived from the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from inspect import cleandoc
from types import UnionType
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True, slots=True)
class Option:
    """What an option is, besides its name, its type and its default.

    - ``help``: a text for people. ``if_none``: what the default ``None`` means.
    - ``least``, ``most``: the range of a number, both ends included.
    - ``flags``: its names on the command line; empty for ``--NAME``. ``metavar``: how the help of
      the command line calls the value.
    - ``repeated``: whether the command line takes it several times, for a list of values.
    """

    help: str
    if_none: str = ""
    least: float | None = None
    most: float | None = None
    flags: tuple[str, ...] = ()
    metavar: str | None = None
    repeated: bool = False

    @property
    def full_help(self) -> str:
        """The help, with the meaning of ``None``."""
        return f"{self.help} [default: {self.if_none}]" if self.if_none else self.help


def option(default: Any, text: str, **more: Any) -> Any:
    """Return a field of a dataclass. ``text``, ``more``: ``help`` and others of :class:`Option`."""
    return field(default=default, metadata={"option": Option(text, **more)})


def options_of(kind: type) -> dict[str, Option]:
    """Return the options among the fields of a dataclass."""
    described = (item for item in fields(kind) if "option" in item.metadata)
    return {item.name: item.metadata["option"] for item in described}


def choices_in(hint: Any) -> tuple[str, ...]:
    """Return the choices of a ``Literal``, or of a ``Literal | None``; empty for other types."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return next((get_args(member) for member in members if get_origin(member) is Literal), ())


def list_options(kind: Kind) -> Kind:
    """Add the helps of a dataclass's options to its docstring."""
    lines = [f"- ``{name}``: {option.full_help}" for name, option in options_of(kind).items()]
    listed = "\n".join(lines).replace("*", "\\*")  # in patterns; Sphinx reads a lone * as emphasis
    kind.__doc__ = f"{cleandoc(kind.__doc__ or '')}\n\n{listed}"
    return kind


# Word splitting and masking.
RuleName = Literal["whitespace", "lower", "keras", "ptb", "words"]
NAMED: Final[tuple[RuleName, ...]] = get_args(RuleName)
BertRule = Literal["bert-uncased", "bert-cased"]
TiktokenName = Literal[
    "gpt2", "r50k_base", "p50k_base", "p50k_edit", "cl100k_base", "o200k_base", "o200k_harmony"
]  # fmt: skip
RULE_NAMES: Final = (
    *(*NAMED, "regex:PATTERN", *get_args(BertRule), "tiktoken:ENCODING", "tokenizer:FILE"),
)
MaskMode = Literal["known", "unknown"]

# Splitting documents into pieces.
Split = Literal["file", "line", "paragraph", "heading", "tokens"]
SPLIT_SIZE: Final = 256  # words or tokens of a piece

# Counting unknown and split words.
LimitedFigure = Literal["unknown", "split3", "fertility", "cut"]

# Comparing vocabularies.
Fold = Literal["case", "nfkc"]
FOLDS: Final[tuple[Fold, ...]] = get_args(Fold)
Only = Literal["a", "b", "both"]  # which vocabularies contain the listed entries

# Encoders.
EncoderKind = Literal[
    "tensorflow", "static", "model2vec", "onnx", "sentence-transformers", "openai", "python"
]
KINDS: Final[tuple[EncoderKind, ...]] = get_args(EncoderKind)
MODEL_FORMS: Final = (
    "use a prefix: tensorflow:FOLDER-OR-HANDLE, static:FILE, model2vec:FOLDER-OR-NAME, "
    "onnx:FOLDER-FILE-OR-NAME, sentence-transformers:FOLDER-OR-NAME, openai:MODEL@URL, "
    "python:package.module:attribute"
)
Weighting = Literal["none", "idf"]
WEIGHTINGS: Final[tuple[Weighting, ...]] = get_args(Weighting)
Pooling = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]

MAX_DIM: Final = 1 << 16  # numbers in a vector

# Embedding documents.
Dtype = Literal["float32", "float16"]
SHARD_ROWS: Final = 65_536

# Indexes.
Metric = Literal["cosine", "inner-product", "l2"]
StoredType = Literal["float16", "float32"]
Language = Literal[
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "dutch_porter",
    "english", "esperanto", "estonian", "finnish", "french", "german", "greek", "hindi",
    "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian",
    "persian", "polish", "porter", "portuguese", "romanian", "russian", "serbian", "sesotho",
    "spanish", "swedish", "tamil", "turkish", "yiddish", "none",
]  # fmt: skip  # one name a line would be forty lines
LANGUAGES: Final[tuple[str, ...]] = get_args(Language)
OnExisting = Literal["error", "skip", "update"]
EXACT_BELOW: Final = 20_000  # rows up to which an exhaustive search is fast
RECALL: Final = 0.95
COMMIT_ROWS: Final = 100_000  # documents between commits; an interruption loses at most these
MAX_REMOVED: Final = 1 / 3  # share of the documents that a change deletes; more need ``force``
COMMIT_SECONDS: Final = 30.0  # between commits; a batch of a slow encoder takes some more
CALIBRATION_SAMPLE: Final = 250  # documents used as queries
SELF_CHECK_SAMPLE: Final = 200

# Searching.
RERANK_DEPTH: Final = 50  # hits that are put into another order
Fusion = Literal["coverage", "convex", "rrf", "dense", "keyword", "unknown-only"]
Phrases = Literal["required", "preferred"]
FUSIONS: Final[tuple[Fusion, ...]] = get_args(Fusion)
ONE_LEG: Final[tuple[Fusion, ...]] = ("dense", "keyword")  # rank by vectors or keywords alone
Measure = Literal["ndcg@10", "recall@100", "mrr@10"]
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)

# Serving.
Access = Literal["read", "write"]
