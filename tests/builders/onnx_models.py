"""ONNX models that turn token ids into vectors: one of a few numbers, and exports of MiniLM."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

DIM = 6
MODULES = ["Transformer", "Pooling", "Normalize"]
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
HIDDEN = "last_hidden_state"


def modules(folder: Path, names: Sequence[str] = MODULES, **pooling: Any) -> Path:
    """Write modules.json and the settings of pooling, as sentence-transformers does."""
    (folder / "1_Pooling").mkdir(parents=True, exist_ok=True)
    listed = [
        {"type": f"sentence_transformers.models.{name}", "path": f"{number}_{name}" * bool(number)}
        for number, name in enumerate(names)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def graph(
    entries: int,
    seed: int = 0,
    *,
    inputs: Sequence[str] = INPUTS,
    shape: Sequence[str | int] = ("texts", "tokens"),
    numbers: str = "INT64",
    output: str = HIDDEN,
    pooled: bool = False,
) -> Any:
    """Each token's row, plus the mean of all rows that the mask keeps, times a matrix.

    A vector of padding is not zero: who pools it gets something else. ``pooled``: the output is
    the vector of the first token.
    """
    import onnx
    from onnx import helper, numpy_helper

    random = np.random.default_rng(seed)
    tensors: dict[str, Any] = {
        "rows": random.standard_normal((entries, DIM)).astype(np.float32),
        "types": random.standard_normal((2, DIM)).astype(np.float32),
        "matrix": random.standard_normal((DIM, DIM)).astype(np.float32),
        "second": np.array([1], np.int64),
        "last": np.array([-1], np.int64),
        "first": np.array(0, np.int64),
    }
    made, has_mask = helper.make_node, "attention_mask" in inputs
    nodes = [made("Gather", ["rows", "input_ids"], ["plain"])]
    if "token_type_ids" in inputs:
        nodes.append(made("Gather", ["types", "token_type_ids"], ["kinds"]))
        nodes.append(made("Add", ["plain", "kinds"], ["tokens"]))
    else:
        nodes.append(made("Identity", ["plain"], ["tokens"]))
    if has_mask:
        nodes += [
            made("Cast", ["attention_mask"], ["float"], to=onnx.TensorProto.FLOAT),
            made("Unsqueeze", ["float", "last"], ["mask"]),
            made("Mul", ["tokens", "mask"], ["kept"]),
            made("ReduceSum", ["kept", "second"], ["sum"]),
            made("ReduceSum", ["mask", "second"], ["count"]),
            made("Div", ["sum", "count"], ["mean"]),
        ]
    else:
        nodes.append(made("ReduceMean", ["tokens"], ["mean"], axes=[1]))
    hidden = "hidden" if pooled else output
    nodes += [
        made("Add", ["tokens", "mean"], ["mixed"]),
        made("MatMul", ["mixed", "matrix"], ["product"]),
        made("Tanh", ["product"], [hidden]),
    ]
    if pooled:
        nodes.append(made("Gather", [hidden, "first"], [output], axis=1))
    number = getattr(onnx.TensorProto, numbers)
    given = [helper.make_tensor_value_info(name, number, shape) for name in inputs]
    answer = helper.make_tensor_value_info(output, onnx.TensorProto.FLOAT, None)
    stored = [numpy_helper.from_array(array, name) for name, array in tensors.items()]
    whole = helper.make_graph(nodes, "tiny", given, [answer], initializer=stored)
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(whole, opset_imports=opset, ir_version=8)


def save(folder: Path, model: Any, tokenizer: Any, name: str = "model.onnx") -> Path:
    """Write a graph and its tokenizer into a folder."""
    import onnx

    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / name)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def export(source: Path, folder: Path, kind: str = "AutoModel", output: str = HIDDEN) -> Path:
    """Export a folder of sentence-transformers to ``onnx/model.onnx``, by PyTorch's own means.

    ``kind``: the class of transformers that opens it; ``output``: the attribute of its result.
    """
    import torch
    import transformers

    library: Any = transformers  # its types say less than it takes
    (folder / "onnx").mkdir(parents=True)
    for file in source.iterdir():
        if file.suffix in (".json", ".txt"):
            shutil.copy(file, folder)
    if (source / "1_Pooling").is_dir():
        shutil.copytree(source / "1_Pooling", folder / "1_Pooling")

    class Hidden(torch.nn.Module):
        """Takes its inputs one by one and returns a tensor, as the exporter wants."""

        def __init__(self) -> None:
            super().__init__()
            opened = getattr(library, kind).from_pretrained(source, attn_implementation="eager")
            self.model = opened

        def forward(self, ids: Any, mask: Any, types: Any) -> Any:
            found = self.model(input_ids=ids, attention_mask=mask, token_type_ids=types)
            return getattr(found, output)

    example = torch.ones((2, 8), dtype=torch.int64)
    axes = {name: {0: "texts", 1: "tokens"} for name in (*INPUTS, output)}
    if output != HIDDEN:
        axes[output] = {0: "texts"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter tells what it traced as a constant
        torch.onnx.export(
            Hidden().eval(),
            (example, example, example * 0),
            str(folder / "onnx" / "model.onnx"),
            input_names=[*INPUTS],
            output_names=[output],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    return folder


def half(folder: Path) -> Path:
    """Convert ``onnx/model.onnx`` to float16."""
    import onnx
    from onnxruntime.transformers import float16

    converter: Any = float16
    file = folder / "onnx" / "model_fp16.onnx"
    onnx.save(converter.convert_float_to_float16(onnx.load(folder / "onnx" / "model.onnx")), file)
    return file


def quantized(folder: Path) -> Path:
    """Convert the weights of ``onnx/model.onnx`` to int8, each column of a matrix on its own."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    file = folder / "onnx" / "model_int8.onnx"
    options: Any = {"per_channel": True, "reduce_range": True}  # for processors of any kind
    quantize_dynamic(folder / "onnx" / "model.onnx", file, weight_type=QuantType.QInt8, **options)
    return file
