"""The commands that compute vectors: ``embed`` for documents, ``train`` for words."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, get_args

import click
import pyarrow as pa

from vocabtool.choices import SHARD_ROWS, Dtype, options_of
from vocabtool.cli import options, output
from vocabtool.documents.options import ReadOptions
from vocabtool.documents.reading import ReadLog, left_out
from vocabtool.embedding.embed import embed
from vocabtool.encoders.encoder import EncoderOptions, Training
from vocabtool.encoders.open_encoder import open_encoder
from vocabtool.reports.index import embed_report
from vocabtool.system.messages import plural, tell

MODEL_HELP = """MODEL is the folder of a SavedModel or a TensorFlow Hub handle, a file of word
vectors (GloVe, word2vec, fastText .vec, .npz), a static embedding (a folder of model2vec or
StaticEmbedding, or model2vec:NAME), a folder with an ONNX graph and a
tokenizer.json (or onnx:NAME, or onnx:FOLDER/onnx/model_int8.onnx), a folder of
sentence-transformers (or sentence-transformers:NAME), openai:NAME@URL, a server with OpenAI's
/embeddings (Ollama, vLLM, …), or python:MODULE:NAME, your own callable. If the command is
interrupted, run it again: it resumes, and DIR ends with the same bytes."""

ENCODER = options.gather(
    "encoder",
    *options.options_for(EncoderOptions, "signature", "output", "name"),
    options.rule_option(options_of(EncoderOptions)["rule"].full_help),
    *options.options_for(EncoderOptions, "vocabulary", "trust", "prompt_query", "prompt_document"),
    *options.options_for(EncoderOptions, "dim", "weights", *options.OF_RUN),
)
RUN = options.gather(
    "run",
    options.default_option(
        "--shard-rows",
        type=click.IntRange(1),
        default=SHARD_ROWS,
        help="Rows in each shard. An interruption loses some seconds, on Ray one shard an actor.",
    ),
    options.default_option(
        "--dtype",
        type=click.Choice(get_args(Dtype)),
        default="float32",
        help="Type of the numbers in the vectors.",
    ),
    click.option(
        "--batch-size",
        type=click.IntRange(1),
        help="Number of texts in a batch. [default: depends on the model]",
    ),
    click.option("--force", is_flag=True, help="Start over, even if DIR contains another run."),
    click.option(
        "--ray",
        type=click.IntRange(1, 1024),
        metavar="N",
        help="Make the shards in N actors of Ray; each loads the model. Ray is started on this "
        "machine, unless RAY_ADDRESS names a cluster.",
    ),
)


@click.command("embed", epilog=MODEL_HELP)
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--model", required=True, metavar="MODEL", help="The model that makes the vectors.")
@ENCODER
@options.output_folder("Folder of the shards.")
@RUN
@options.EMBEDDED
@options.QUIET
@options.format_option("Format of the final report.")
def embed_command(
    files: tuple[str, ...],
    model: str,
    encoder: dict[str, Any],
    folder: str,
    run: dict[str, Any],
    read: ReadOptions,
    quiet: bool,
    report_format: Literal["text", "json"],
) -> None:
    """Write a vector for each document of FILE... into Parquet shards in DIR.

    A FILE has one document per line, or per row (.jsonl, .json, .csv, .tsv, .parquet, .arrow,
    .tfrecord). FILEs of other formats are cut into pieces: .md, .rst, .html, .py and other code,
    .ipynb, .pdf, .docx, and .txt in a folder. All except .parquet and .docx can be compressed
    (.gz, .zst). FILE can be a folder or a quoted glob; - is standard input.
    """
    pa.set_memory_pool(pa.system_memory_pool())  # Arrow's allocator needs a third more memory here
    if not quiet:
        output.tell_how_read(files, read, Path(folder))
    opened = open_encoder(model, **encoder)
    if not quiet:
        for note in opened.notes:
            tell(note)
    with output.usage_errors(), output.progress_bar(quiet) as progress:
        try:
            report = embed(list(files), opened, folder, read, progress=progress, **run)
        except KeyboardInterrupt:
            tell("interrupted; run the same command again to resume")
            raise
    if quiet:
        return
    output.show_report(embed_report(report), report_format)
    output.tell_left_out(report.first_skipped)
    for note in report.notes:
        if note not in opened.notes:
            tell(note)


@click.command("train")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@options.TEXTS
@options.file_option(
    "-o",
    "--output",
    "file",
    required=True,
    metavar="WORDS.npz",
    help="File to write. Other commands accept it as MODEL.",
)
@options.gather(
    "settings",
    *options.options_for(Training, "dim", "min_count"),
    options.rule_option(
        options_of(Training)["rule"].full_help, default=Training().rule, show_default=True
    ),
)
@options.QUIET
def train_command(
    files: tuple[str, ...], read: ReadOptions, file: str, settings: dict[str, Any], quiet: bool
) -> None:
    """Train word vectors on the documents of FILE..., for texts that no existing model fits.

    Words that occur near the same words get similar vectors. A FILE has one document per line, or
    per row (.jsonl, .csv, .tsv, .parquet, .arrow, .tfrecord). All except .parquet can be compressed
    (.gz, .zst). FILE can be a folder or a quoted glob; - is standard input. The same texts and
    options give the same bytes.
    """
    from vocabtool.encoders.train import train

    output.check_files(file, None, None)
    if Path(file).suffix != ".npz":
        raise click.UsageError(f"-o {file}: expected a file that ends in .npz")
    log = ReadLog()
    with output.usage_errors(), output.progress_bar(quiet) as progress:
        trained = train(list(files), read, log=log, progress=progress, **settings)
        trained.save(file)
    if quiet:
        return
    size, dim = trained.vectors.shape
    tell(
        f"{file}: {plural(size, 'word', 'words')}, {dim:,} dimensions, trained on "
        f"{trained.tokens:,} words of {plural(trained.documents, 'document', 'documents')}"
    )
    output.tell_notes((*log.notes, *left_out([*files], read)))
    output.tell_skipped(log.skipped)
