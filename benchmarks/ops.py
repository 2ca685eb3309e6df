"""Count the ops between text and lookup in real models: the table of docs/reference/ops.md.

    python benchmarks/ops.py FOLDER...       folders with SavedModels, such as ../shared/models

The models of FOLDER are those of strangers. The others are written here, by the layers that people
use: Keras (2 and 3) TextVectorization and StringLookup, the tokenizers of TensorFlow Text, and
graphs of TensorFlow 1 like the text modules of TensorFlow Hub. TensorFlow, TensorFlow Text and
tf_keras must be installed. An op is counted once a model, whether vocabtool understands it or not.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vocabtool.errors import VocabtoolError
from vocabtool.tokenization import infer_rule
from vocabtool.tokenization.infer_rule import SAME

ROOT: Final = Path(__file__).parent.parent
STRANGERS, KERAS, TEXT, HUB = "strangers", "Keras", "TensorFlow Text", "TensorFlow 1, Hub"
GROUPS: Final = {  # cases of tests/builders/text_models.py, by how their names begin
    "k2_": KERAS,
    "k3_": KERAS,
    **dict.fromkeys(("text_", "bert_", "fast_", "wordpiece", "sentencepiece"), TEXT),
    "tf1": HUB,
}


def ops_of(model: Path) -> set[str] | None:
    """Return the ops that were met on the ways from the lookups of a model back to its text.

    ``None`` if the model cannot be read.
    """
    met: set[str] = set()
    steps_of = infer_rule.steps_of

    def record(op: infer_rule.TracePoint) -> infer_rule.StepsOfOp:
        if op.node is not None:
            met.add(op.node.op.decode().removeprefix("TFText>"))
        return steps_of(op)

    # Where the rule is read, the same function but for the record.
    setattr(infer_rule, "steps_of", record)  # noqa: B010 - mypy forbids the plain assignment
    try:
        infer_rule.read_lookup_paths(model)
    except VocabtoolError as error:
        print(f"{model.name}: {error}", file=sys.stderr)
        return None
    finally:
        setattr(infer_rule, "steps_of", steps_of)  # noqa: B010 - as above
    return met - {op.decode() for op in SAME}


def models(folders: list[Path], work: Path) -> Iterator[tuple[str, Path]]:
    """Yield the group and the folder of each model."""
    for folder in (ROOT / "data", *folders):
        for file in sorted(folder.rglob("saved_model.pb")):
            yield STRANGERS, file.parent
    sys.path.insert(0, str(ROOT))
    from tests.builders.text_models import TEXT_CASES, build_text_model

    for case in TEXT_CASES:
        group = next((name for start, name in GROUPS.items() if case.startswith(start)), None)
        if group is not None:
            yield group, build_text_model(work, case)[0]


def main() -> None:
    """Print the table in Markdown."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    sizes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work:
        for group, model in models([Path(folder) for folder in sys.argv[1:]], Path(work)):
            ops = ops_of(model)
            sizes[group] += ops is not None
            for op in ops or ():
                counts[op][group] += 1
    groups = (STRANGERS, KERAS, TEXT, HUB)
    print("| op |", " | ".join(f"{name} ({sizes[name]})" for name in groups), "|")
    print("|---|" + "---:|" * len(groups))
    for op in sorted(counts, key=lambda op: (-counts[op].total(), op)):
        print(f"| `{op}` |", " | ".join(str(counts[op][name] or "") for name in groups), "|")


if __name__ == "__main__":
    main()
