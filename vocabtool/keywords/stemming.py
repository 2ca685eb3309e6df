"""The stems of words: Snowball's, of the languages that PyStemmer has, or none at all."""

from __future__ import annotations

from threading import Lock
from typing import Any, Final, Literal, get_args

from vocabtool.errors import UnsupportedFormat

Language = Literal[
    "arabic", "armenian", "basque", "catalan", "czech", "danish", "dutch", "dutch_porter",
    "english", "esperanto", "estonian", "finnish", "french", "german", "greek", "hindi",
    "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian",
    "persian", "polish", "porter", "portuguese", "romanian", "russian", "serbian", "sesotho",
    "spanish", "swedish", "tamil", "turkish", "yiddish", "none",
]  # fmt: skip  # one name a line would be forty lines

LANGUAGES: Final[tuple[str, ...]] = get_args(Language)


class Stems:
    """The stemmer of one language. Several threads may ask at a time.

    ``version`` names the stemmer and its release, since another release may stem otherwise.
    """

    def __init__(self, language: Language) -> None:
        if language not in LANGUAGES:
            raise ValueError(f"no such language: {language!r}; there are {', '.join(LANGUAGES)}")
        self._stemmer = None if language == "none" else _snowball(language)
        self._one_at_a_time = Lock()  # a stemmer of Snowball's keeps its word in itself
        self.version = "none" if language == "none" else f"{_release()} {language}"

    def stem(self, word: str) -> str:
        """The stem of a case-folded word."""
        if self._stemmer is None:
            return word
        with self._one_at_a_time:
            return str(self._stemmer.stemWord(word))


def _snowball(language: Language) -> Any:  # the library has no types
    try:
        import Stemmer
    except ImportError as error:
        what = "stemming needs PyStemmer; pip install PyStemmer, or choose the language 'none'"
        raise UnsupportedFormat(what) from error
    if language not in Stemmer.algorithms():
        raise UnsupportedFormat(f"PyStemmer {Stemmer.version()} has no stemmer for {language}")
    return Stemmer.Stemmer(language)


def _release() -> str:
    import Stemmer

    return f"PyStemmer {Stemmer.version()}"
