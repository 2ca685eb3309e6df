"""Words of real models, if the collection exists."""

from __future__ import annotations

from pathlib import Path

import pytest

from vocabtool import Words, open_encoder
from vocabtool.errors import NoVocabulary, VocabtoolError

TEXTS = (
    *(
        "新华社北京十二月三十一日电",
        "naïve Café",
        "didn't",
        "GOOD-bye",
        "the quick",
        "",
        " ",
        "a\0b",
    ),
    *("👩\u200d🚀 x", "lone\rCR", "no\u00a0break", "İstanbul", "x" * 10_000, "\uff11\uff12 \uff21"),
)

# Expected steps, read from the graphs manually, or the unsupported op.
RULES: dict[str, tuple[str, ...] | str] = {
    "babyweight_estimate": ("drop empty strings",),
    "tfdf_adult_rf": (),
    "tftext_segmenter": ("split into characters", "replace every match of '\\s' by '[SPACE]'"),
    "tfx_taxi_tft": ("drop empty strings",),
    "serving_tftext": "its words are constants",
    "tfx_taxi_serving_tf1": "ParseExampleV2",
    "tfx_keras_serving": "no supported op of the model looks words up",
    "use_lite_2": "no supported op of the model looks words up",
}


@pytest.mark.parametrize("name", RULES)
def test_rules_of_real_models(name: str, shared: Path) -> None:
    """The steps of the graph, or an error that names the op."""
    wanted = RULES[name]
    if isinstance(wanted, str):
        with pytest.raises(VocabtoolError, match=wanted):
            Words.of(shared / "models" / name)
    else:
        shown = Words.of(shared / "models" / name).describe()
        assert shown == (wanted or ("the whole text is one word",))


def test_the_words_of_use_lite_are_those_of_its_tokenizer(shared: Path) -> None:
    """A model that takes ids: with its tokenizer as the rule, pieces and unknown words."""
    model = shared / "models" / "use_lite_2"
    with pytest.raises(NoVocabulary, match="--rule"):
        Words.of(model)
    words = Words.of(model, rule=f"sentencepiece:{model}/assets/universal_encoder_8k_spm.model")
    assert words.unknown("I love to use 日本 ☃") == ["日本", "☃"]
    assert words.pieces("Xapian") == ["▁X", "ap", "ian"]


def test_real_words_are_no_pieces(shared: Path) -> None:
    """20,000 English words."""
    words = open_encoder(shared / "vectors" / "words20k.npz", weights="none").words
    assert words is not None
    assert words.how == "named"
