"""Choices of evaluating, as the command line shows them; it imports nothing heavy."""

from __future__ import annotations

from typing import Final

CALIBRATION_SAMPLE: Final = 250  # documents that queries are made of
SELF_CHECK_SAMPLE: Final = 200
