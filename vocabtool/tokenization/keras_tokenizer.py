"""Words as ``Tokenizer`` of Keras makes them, by the settings that ``to_json()`` writes.

``texts_to_sequences`` lower-cases a text first, in every script, then puts ``split`` in the place
of each character of ``filters``, cuts there, and drops what is empty. With ``char_level`` every
character is a word, blanks too.
"""

from __future__ import annotations

import re
from pathlib import Path

from vocabtool.errors import reading
from vocabtool.formats import json_file, keras_tokenizer
from vocabtool.formats.keras_tokenizer import Settings
from vocabtool.formats.reader import Source
from vocabtool.tokenization.lookup import RuleTokenizer, TableLexicon
from vocabtool.tokenization.named_rules import LowerEveryScript
from vocabtool.tokenization.rule import Rule
from vocabtool.tokenization.steps import Step
from vocabtool.tokenization.string_steps import Characters, DropEmpty, RegexReplace, SplitOn
from vocabtool.vocabulary import Vocabulary


def tokenizer_for(file: Path, vocabulary: Vocabulary) -> RuleTokenizer | None:
    """The judge of a tokenizer, whose words are ``vocabulary``; ``None`` for another file.

    Raises :class:`InvalidFile` for settings that cut no text, or not as is read here.
    """
    with reading(str(file)):
        if json_file.recognise(Source.open(file)) is not None:
            return None
        document = json_file.read(file)
        if keras_tokenizer.recognise(document) is not None:
            return None
        settings = keras_tokenizer.settings_of(document)
    if settings is None:
        return None
    return RuleTokenizer(Rule(steps_of(settings)), TableLexicon(vocabulary))


def steps_of(settings: Settings) -> tuple[Step, ...]:
    """The rule of a tokenizer."""
    steps: list[Step] = [LowerEveryScript()] if settings.lower else []
    if settings.char_level:
        return (*steps, Characters())
    split = settings.split.encode("utf-8", "ignore")
    if filtered := settings.filters.encode("utf-8", "ignore").decode():
        one_of = re.sub(r"[\\\]\[^\-]", r"\\\g<0>", filtered).replace("\0", r"\x00")
        steps.append(RegexReplace(f"[{one_of}]", split.decode().replace("\\", "\\\\")))
    return (*steps, SplitOn(split), DropEmpty())
