"""An encoder that a person can compute: it notes what it is asked, and fails where it is told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import counted_letters

LONG = " x" * 500  # behind texts of which a thousand are to be read together
asked_of: list[str] = []
fails_at: list[str] = []


def noting(texts: Sequence[str]) -> NDArray[np.float32]:
    """Counts letters and notes each text, but for the one that asks how long a vector is."""
    for text in texts:
        if text in fails_at:
            raise RuntimeError(f"failed at {text}")
    asked_of.extend(text for text in texts if text != "How long is a vector?")
    return counted_letters.encode(texts)


noting.fingerprint = "counted letters"  # type: ignore[attr-defined]  # how a callable tells its version


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    """Each test starts with a sound encoder."""
    asked_of.clear()
    fails_at.clear()
