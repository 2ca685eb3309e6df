"""What a caller chooses from: names of rules and of ways to mask. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, get_args

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
