"""What callers choose from, for the library and the command line. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, get_args

Fold = Literal["case", "nfkc", "markers"]
FOLDS: Final[tuple[Fold, ...]] = get_args(Fold)
Only = Literal["a", "b", "both"]  # a list of one part alone: who holds its entries


Runner = Literal["local", "ray"]
Check = Literal["stat", "content"]
Dtype = Literal["float32", "float16"]

RUNNERS: Final[tuple[Runner, ...]] = get_args(Runner)
CHECKS: Final[tuple[Check, ...]] = get_args(Check)
DTYPES: Final[tuple[Dtype, ...]] = get_args(Dtype)
SHARD_ROWS: Final = 65_536


EncoderKind = Literal["tensorflow", "static", "sentence-transformers", "python"]
Weighting = Literal["none", "idf", "sif"]

KINDS: Final[tuple[EncoderKind, ...]] = get_args(EncoderKind)
WEIGHTINGS: Final[tuple[Weighting, ...]] = get_args(Weighting)


CALIBRATION_SAMPLE: Final = 250  # documents that queries are made of
SELF_CHECK_SAMPLE: Final = 200


Metric = Literal["cosine", "inner-product", "l2"]
StoredType = Literal["float16", "float32"]
OnExisting = Literal["error", "skip", "update"]

METRICS: Final[tuple[Metric, ...]] = get_args(Metric)
STORED_TYPES: Final[tuple[StoredType, ...]] = get_args(StoredType)
ON_EXISTING: Final[tuple[OnExisting, ...]] = get_args(OnExisting)

EXACT_BELOW: Final = 20_000  # rows up to which a search of all vectors is quick
RECALL: Final = 0.95
COMMIT_ROWS: Final = 100_000  # documents between commits: what a stop can cost


Language = Literal[
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "dutch_porter",
    "english", "esperanto", "estonian", "finnish", "french", "german", "greek", "hindi",
    "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian",
    "persian", "polish", "porter", "portuguese", "romanian", "russian", "serbian", "sesotho",
    "spanish", "swedish", "tamil", "turkish", "yiddish", "none",
]  # fmt: skip  # one name a line would be forty lines

LANGUAGES: Final[tuple[str, ...]] = get_args(Language)


RuleName = Literal["whitespace", "lower", "keras", "ptb"]
NAMED: Final[tuple[RuleName, ...]] = get_args(RuleName)
RULE_NAMES: Final = (*NAMED, "regex:PATTERN", "tokenizer:FILE")

MaskMode = Literal["known", "unknown"]


def tokenizer_file(spec: str) -> Path | None:
    """The file of a rule ``tokenizer:FILE``, which no steps stand for; ``None``: another rule.

    Of a folder it is the tokenizer.json in it, else the ``.model``.
    """
    name, _, file = spec.partition(":")
    if name not in ("tokenizer", "sentencepiece") or not file:
        return None
    path = Path(file)
    inside = (path / "tokenizer.json", *sorted(path.glob("*.model")))
    return next(filter(Path.is_file, inside), path)
