"""The languages that words can be stemmed in; it imports nothing, so that the command line can."""

from __future__ import annotations

from typing import Final, Literal, get_args

Language = Literal[
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "dutch_porter",
    "english", "esperanto", "estonian", "finnish", "french", "german", "greek", "hindi",
    "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian",
    "persian", "polish", "porter", "portuguese", "romanian", "russian", "serbian", "sesotho",
    "spanish", "swedish", "tamil", "turkish", "yiddish", "none",
]  # fmt: skip  # one name a line would be forty lines

LANGUAGES: Final[tuple[str, ...]] = get_args(Language)
