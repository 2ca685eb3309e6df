"""How vectors are compared and stored; it imports nothing, so that the command line can."""

from __future__ import annotations

from typing import Literal

Metric = Literal["cosine", "inner-product", "l2"]
StoredType = Literal["float16", "float32"]
