"""The patterns that tokenizers split by, in two implementations of regular expressions."""

from __future__ import annotations

from itertools import chain, pairwise
from typing import Any

import pytest
import regex
from tokenizers import Regex, pre_tokenizers

from tests.tokenization.test_tokenizer_files import HARD
from vocabtool.tokenization.tokenizer_files import BY_NAMES, TIKTOKEN


@pytest.mark.parametrize("patterns", [*BY_NAMES.values(), *((each,) for each in TIKTOKEN.values())])
def test_patterns(patterns: tuple[str, ...]) -> None:
    """The library splits by each pattern as another implementation of regular expressions."""
    steps: Any = [pre_tokenizers.Split(Regex(each), "isolated") for each in patterns]
    split = pre_tokenizers.Sequence(steps)
    for text in HARD:
        parts = [text]
        for pattern in patterns:
            find = regex.compile(pattern.replace(r"\z", r"\Z"), regex.V1).finditer
            bounds = [[0, *chain(*(m.span() for m in find(p))), len(p)] for p in parts]
            pairs = zip(parts, map(pairwise, bounds), strict=True)
            parts = [part[a:b] for part, spans in pairs for a, b in spans if b > a]
        assert [part for part, _ in split.pre_tokenize_str(text)] == parts
