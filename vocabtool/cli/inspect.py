"""The commands that look into a model: ``inspect`` and ``extract``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

import vocabtool
from vocabtool.cli.options import OUTPUT, split_model
from vocabtool.cli.output import check_ending, check_files, width
from vocabtool.system.messages import tell

if TYPE_CHECKING:
    from vocabtool.formats.vocabulary_files import FileFormat

EXTRACT_FORMATS = ("text", "json", "csv", "parquet")

MODEL_HELP = """MODEL is the folder of a SavedModel, a frozen graph's .pb, a TensorFlow Hub handle
(https://...) that is in the local cache, or whatever else holds a vocabulary: a .keras archive, a
tokenizer.json, vocab.json or vocab.txt, a SentencePiece model, tiktoken ranks, GGUF, ONNX, TFLite,
TensorFlow.js, word vectors (GloVe, word2vec, fastText, .npz), a list of words, what extract wrote,
a spaCy pipeline, or a folder of such files. What a file is, its content tells. MODEL#NAME is one of
several vocabularies in it. Nothing of it is run, and TensorFlow is not needed."""


@click.command("inspect", epilog=MODEL_HELP)
@click.argument("model")
@click.option(
    "--all",
    "show_all",
    is_flag=True,
    help="Also constants of fewer than ten strings, and what was passed over, and why.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(("table", "json")),
    default="table",
    show_default=True,
    help="A table (tab-separated where no terminal is), or JSON.",
)
def inspect_command(model: str, show_all: bool, output: Literal["table", "json"]) -> None:
    """List every vocabulary in MODEL: name, kind, size, ids, where it hides.

    `"complete": true` in JSON says that every place was read in which vocabtool knows this format
    to keep words. It does not say that there are no others: what is passed over (--all tells),
    folders inside a folder, and what code or a custom op holds do not count.
    """
    from vocabtool.formats.extraction import choose
    from vocabtool.reports import inspection

    path, name = split_model(model, None)
    found = vocabtool.inspect(path, small=show_all or name is not None)
    if name is not None:
        found = found._replace(vocabularies=(choose(found, name),))
    if output == "json":
        text = inspection.to_json(found, passed_over=show_all)
        sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
    else:
        sys.stdout.write(inspection.to_text(found, passed_over=show_all, width=width()))
    sys.stdout.flush()  # before anything is said of it
    if output != "json" and not found.vocabularies:
        tell(inspection.nothing_found(found))
    for warning in found.warnings:
        tell(f"incomplete: {warning}")


@click.command("extract", epilog=MODEL_HELP)
@click.argument("model")
@click.option(
    "--name",
    help="The vocabulary to take, as inspect prints its name. "
    "[default: the largest that words are looked up in, else the largest list]",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(EXTRACT_FORMATS),
    help="One entry a line (text), or with ids: json and parquet lose nothing. "
    "[default: by the ending of FILE; text for .txt or none]",
)
@OUTPUT
def extract_command(model: str, name: str | None, output: FileFormat | None, file: str) -> None:
    """Write the words of one vocabulary in MODEL, in the order of their ids."""
    from vocabtool.formats import vocabulary_files
    from vocabtool.formats.extraction import choose

    if output is None and file:
        check_ending(file, vocabulary_files.ENDINGS)
    check_files(file, None, output)
    path, name = split_model(model, name)
    found = vocabtool.inspect(path, small=name is not None)
    vocabulary = choose(found, name)
    for warning in found.warnings:
        tell(f"incomplete: {warning}")
    if file == "-":
        escaped = vocabulary_files.write(vocabulary, sys.stdout.buffer, output or "text")
        sys.stdout.flush()  # what cannot be written is an error before anything is said
    else:
        escaped = vocabulary_files.save(vocabulary, file, output)
        output = output or vocabulary_files.ENDINGS.get(Path(file).suffix.lower())
    if name is None:
        among = len(found.vocabularies)
        others = f", the first of {among}: --name takes another" if among > 1 else ""
        tell(f"{vocabulary.name}: {len(vocabulary):,} entries ({vocabulary.kind}){others}")
    if escaped:
        tell(f"{escaped:,} entries do not fit on a line and are backslash-escaped")
    if output in (None, "text") and (vocabulary.first_id or vocabulary.ids is not None):
        tell(f"ids are {vocabulary.id_range}: text does not hold them, json does")
