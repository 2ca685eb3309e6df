"""The words beside a TensorFlow model's vectors: of its graph, or told by the running model."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, cast

from vocabtool.errors import NoVocabulary, VocabtoolError
from vocabtool.tokenization.exact_words import ExactTokenizer
from vocabtool.tokenization.instrumented_model import InstrumentedModel
from vocabtool.tokenization.words import Words, exact_words

EXACT: Final = "With --exact-words (exact_words=True) the model itself tells them"


class Told(NamedTuple):
    """Words, or why there are none."""

    words: Words | None
    note: str | None = None


def recovered(model: Path, name: str | None, rule: str | None) -> Told:
    """The words of a model that is not run for them; ``None`` where its way is not understood.

    Raises :class:`VocabtoolError` where the caller names a rule that does not fit.
    """
    try:
        return Told(Words.of(model, name=name, rule=rule))
    except VocabtoolError as error:
        if rule is not None:
            raise
        why = str(error).splitlines()[0]
        # A model that looks nothing up cannot tell either.
        advice = "" if isinstance(error, NoVocabulary) else f". {EXACT}"
        return Told(None, f"its words are not recovered: {why}{advice}")


def exact(tap: InstrumentedModel, model: Path, name: str | None) -> tuple[Words, ExactTokenizer]:
    """The words that a tapped model looks up, and what judges them from its reports.

    Raises :class:`NoVocabulary` where it looks none up.
    """
    words = exact_words(tap, model, name)
    return words, cast(ExactTokenizer, words.tokenizer)


def cost(tap: InstrumentedModel) -> str:
    """How many texts are run for the words of n."""
    if tap.runs_together:
        return "exact words: read from the run that makes the vectors, n texts are run for n"
    return "exact words: n texts are run one by one, for this model allows nothing else"
