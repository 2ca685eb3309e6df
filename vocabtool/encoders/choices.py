"""The kinds of encoders and the weightings of words: choices that the command line shows, too."""

from __future__ import annotations

from typing import Final, Literal, get_args

EncoderKind = Literal["tensorflow", "static", "sentence-transformers", "python"]
Weighting = Literal["none", "idf", "sif"]

KINDS: Final[tuple[EncoderKind, ...]] = get_args(EncoderKind)
WEIGHTINGS: Final[tuple[Weighting, ...]] = get_args(Weighting)
