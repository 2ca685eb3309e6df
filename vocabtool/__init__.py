"""Which words does an embedding model not know?

>>> import vocabtool
>>> vocabulary = vocabtool.extract("data/sentence_encoder")
>>> "Xapian" in vocabulary
False
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from vocabtool.errors import (
    DuplicateId,
    FolderInUse,
    FolderNotEmpty,
    InvalidCondition,
    InvalidFile,
    NoSpace,
    NotFound,
    NoVocabulary,
    OperatorFailed,
    OtherModel,
    UnknownFormat,
    UnsupportedFormat,
    VocabtoolError,
)
from vocabtool.system.results import VIEWS

if TYPE_CHECKING:
    from vocabtool.comparison.compare import Diff, diff
    from vocabtool.documents.reading import Document
    from vocabtool.embedding.embed import EmbedReport, embed
    from vocabtool.embedding.shards import Shards
    from vocabtool.encoders.encoder import Encoder
    from vocabtool.encoders.open_encoder import open_encoder
    from vocabtool.encoders.train import train
    from vocabtool.evaluation.calibrate import calibrate
    from vocabtool.evaluation.evaluate import eval as eval  # noqa: A004 - as the command
    from vocabtool.formats.reader import Model
    from vocabtool.formats.registry import extract, inspect, vocabularies
    from vocabtool.formats.vocabulary_files import read, save
    from vocabtool.formats.word_vectors import WordVectors
    from vocabtool.index.functions import (
        compact,
        copy,
        delete,
        export,
        get,
        index,
        search,
        similar,
        stats,
        update,
        verify,
    )
    from vocabtool.index.functions import list as list  # noqa: A004 - as the command
    from vocabtool.index.index import Index
    from vocabtool.index.index import open as open  # noqa: A004 - as `vocabtool.open(path)` reads
    from vocabtool.index.load import LoadReport
    from vocabtool.index.writer import Writer
    from vocabtool.oov.corpus import oov
    from vocabtool.oov.counter import OovCounter
    from vocabtool.oov.report import OovReport
    from vocabtool.oov.suggest import suggest
    from vocabtool.search.hits import Hit, Hits
    from vocabtool.search.settings import Settings
    from vocabtool.streams.stream import Stream, interleave, mix, stream
    from vocabtool.system.byte_strings import ByteStrings
    from vocabtool.tokenization.token_limit import TokenLimit
    from vocabtool.tokenization.words import Words, words
    from vocabtool.vocabulary import Place, Unknown, Vocabulary

__version__ = "0.2.0"

# `eval`, `list` and `open` are left out, so that `import *` does not replace built-in functions.
__all__ = [
    "ByteStrings",
    "Diff",
    "Document",
    "DuplicateId",
    "EmbedReport",
    "Encoder",
    "FolderInUse",
    "FolderNotEmpty",
    "Hit",
    "Hits",
    "Index",
    "InvalidCondition",
    "InvalidFile",
    "LoadReport",
    "Model",
    "NoSpace",
    "NoVocabulary",
    "NotFound",
    "OovCounter",
    "OovReport",
    "OperatorFailed",
    "OtherModel",
    "Place",
    "Settings",
    "Shards",
    "Stream",
    "TokenLimit",
    "Unknown",
    "UnknownFormat",
    "UnsupportedFormat",
    "VocabtoolError",
    "Vocabulary",
    "WordVectors",
    "Words",
    "Writer",
    "calibrate",
    "compact",
    "copy",
    "delete",
    "diff",
    "embed",
    "export",
    "extract",
    "get",
    "index",
    "inspect",
    "interleave",
    "mix",
    "oov",
    "open_encoder",
    "read",
    "save",
    "search",
    "similar",
    "stats",
    "stream",
    "suggest",
    "train",
    "update",
    "verify",
    "vocabularies",
    "words",
]

_HOMES = {
    **dict.fromkeys(("extract", "inspect", "vocabularies"), "vocabtool.formats.registry"),
    **dict.fromkeys(("read", "save"), "vocabtool.formats.vocabulary_files"),
    "Model": "vocabtool.formats.reader",
    **dict.fromkeys(("Diff", "diff"), "vocabtool.comparison.compare"),
    "WordVectors": "vocabtool.formats.word_vectors",
    "Encoder": "vocabtool.encoders.encoder",
    "open_encoder": "vocabtool.encoders.open_encoder",
    "train": "vocabtool.encoders.train",
    "embed": "vocabtool.embedding.embed",
    "EmbedReport": "vocabtool.embedding.embed",
    "Shards": "vocabtool.embedding.shards",
    **dict.fromkeys(("Stream", "interleave", "mix", "stream"), "vocabtool.streams.stream"),
    "Document": "vocabtool.documents.reading",
    **dict.fromkeys(("Index", "open"), "vocabtool.index.index"),
    **dict.fromkeys(("compact", "copy", "delete", "export", "get"), "vocabtool.index.functions"),
    **dict.fromkeys(("index", "list", "search", "similar"), "vocabtool.index.functions"),
    **dict.fromkeys(("stats", "update", "verify"), "vocabtool.index.functions"),
    "LoadReport": "vocabtool.index.load",
    "Writer": "vocabtool.index.writer",
    **dict.fromkeys(("Hit", "Hits"), "vocabtool.search.hits"),
    "Settings": "vocabtool.search.settings",
    "calibrate": "vocabtool.evaluation.calibrate",
    "eval": "vocabtool.evaluation.evaluate",
    "ByteStrings": "vocabtool.system.byte_strings",
    "OovCounter": "vocabtool.oov.counter",
    "OovReport": "vocabtool.oov.report",
    "oov": "vocabtool.oov.corpus",
    "suggest": "vocabtool.oov.suggest",
    "TokenLimit": "vocabtool.tokenization.token_limit",
    **dict.fromkeys(("Words", "words"), "vocabtool.tokenization.words"),
    **dict.fromkeys(("Place", "Unknown", "Vocabulary"), "vocabtool.vocabulary"),
}

# Functions have the names of these packages. Each is imported here, so that no later import puts it
# in the place of the function.
for _package in ("index", "oov", "search"):
    importlib.import_module(f"vocabtool.{_package}")
    del globals()[_package]

VIEWS.update(
    {
        "Vocabulary": ("vocabtool.reports.inspection", "vocabulary_html"),
        "OovReport": ("vocabtool.reports.oov", "oov_html"),
        "Diff": ("vocabtool.reports.comparison", "diff_html"),
        "Hits": ("vocabtool.reports.hits", "hits_html"),
    }
)


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that ``vocabtool --help`` starts fast."""
    if name not in _HOMES:
        raise AttributeError(f"module 'vocabtool' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> Iterable[str]:
    return [*__all__, "__version__", "eval", "list", "open"]
