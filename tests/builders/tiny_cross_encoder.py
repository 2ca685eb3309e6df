"""A cross-encoder of a few hundred numbers, built offline in a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.builders.tiny_sentence_transformer import DIM, ENTRIES

PLACES = 32  # tokens of a query and a text, special ones included


def build(folder: Path, labels: int = 1, kind: str = "BertForSequenceClassification") -> Path:
    """Save it as transformers does. Its numbers are large, so that scores differ."""
    import torch
    import transformers

    library: Any = transformers  # its types say less than it takes
    folder.mkdir(parents=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(ENTRIES) + "\n")
    torch.manual_seed(3)
    config = library.BertConfig(
        vocab_size=len(ENTRIES),
        hidden_size=DIM,
        intermediate_size=DIM,
        num_hidden_layers=1,
        num_attention_heads=2,
        max_position_embeddings=PLACES,
        num_labels=labels,
        initializer_range=0.5,
    )
    getattr(library, kind)(config).save_pretrained(folder)
    library.BertTokenizerFast(str(vocabulary)).save_pretrained(folder)
    return folder
