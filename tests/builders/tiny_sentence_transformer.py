"""A sentence-transformers model and a cross-encoder of a few hundred numbers, built offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "love", "to", "use", "xap", "##ian"]
DIM = 8
PLACES = 32  # tokens of a query and a text for the cross-encoder, special ones included
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
POOLING = {"word_embedding_dimension": DIM, "pooling_mode_mean_tokens": True}


def build(folder: Path) -> Path:
    """Save it in the layout of the library's version 2, which all later ones read."""
    (folder / "1_Pooling").mkdir(parents=True)
    _save_bert(folder, "BertModel", seed=1)
    (folder / "modules.json").write_text(json.dumps(MODULES))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(POOLING))
    return folder


def build_cross_encoder(
    folder: Path, labels: int = 1, kind: str = "BertForSequenceClassification"
) -> Path:
    """Save a cross-encoder as transformers does. Its numbers are large, so that scores differ."""
    folder.mkdir(parents=True)
    options = {"max_position_embeddings": PLACES, "num_labels": labels, "initializer_range": 0.5}
    _save_bert(folder, kind, seed=3, **options)
    return folder


def _save_bert(folder: Path, kind: str, *, seed: int, **options: float) -> None:
    import torch
    import transformers

    library: Any = transformers  # its types say less than it takes
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(ENTRIES) + "\n")
    torch.manual_seed(seed)
    config = library.BertConfig(
        vocab_size=len(ENTRIES),
        hidden_size=DIM,
        intermediate_size=DIM,
        num_hidden_layers=1,
        num_attention_heads=2,
        **options,
    )
    getattr(library, kind)(config).save_pretrained(folder)
    library.BertTokenizerFast(str(vocabulary)).save_pretrained(folder)
