"""A sentence-transformers model of a few hundred numbers, built offline in a second."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ENTRIES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "love", "to", "use", "xap", "##ian"]
DIM = 8
MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
POOLING = {"word_embedding_dimension": DIM, "pooling_mode_mean_tokens": True}


def build(folder: Path) -> Path:
    """Save it in the layout of the library's version 2, which all later ones read."""
    import torch
    import transformers

    library: Any = transformers  # its types say less than it takes

    (folder / "1_Pooling").mkdir(parents=True)
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(ENTRIES) + "\n")
    torch.manual_seed(1)
    config = library.BertConfig(
        vocab_size=len(ENTRIES),
        hidden_size=DIM,
        intermediate_size=DIM,
        num_hidden_layers=1,
        num_attention_heads=2,
    )
    library.BertModel(config).save_pretrained(folder)
    library.BertTokenizerFast(str(vocabulary)).save_pretrained(folder)
    (folder / "modules.json").write_text(json.dumps(MODULES))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(POOLING))
    return folder
