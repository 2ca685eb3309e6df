"""Commands that search and evaluate: ``search``, ``similar``, ``eval`` and ``calibrate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal

import click

from vocabtool.choices import CALIBRATION_SAMPLE, ONE_LEG, SELF_CHECK_SAMPLE, options_of
from vocabtool.cli import options, output
from vocabtool.cli.options import DIR, HTML, OF_RUN, OUTPUT, format_option, gather, options_for
from vocabtool.encoders.encoder import EncoderOptions
from vocabtool.index.index import Index
from vocabtool.reports.hits import hits_report
from vocabtool.reports.report import FILE_WIDTH, format_of, write
from vocabtool.search.hits import Hits
from vocabtool.search.settings import Settings
from vocabtool.system.messages import tell
from vocabtool.system.parallel import in_batches

STDIN: Final = "-"
BATCH_QUERIES: Final = 256  # queries of standard input that are encoded at once

ENDINGS: Final = (".json", ".html")  # of a file with hits
OF_PYTHON: Final = ("identifier", "rerank_depth")  # options that the command line lacks
OF_COMMAND: Final = [name for name in options_of(Settings) if name not in OF_PYTHON]
# The other options of the model are stored in the index.
MODEL_AND_TRUST: Final = (
    click.option(
        "--model",
        metavar="MODEL",
        help="Model that makes the vectors. [default: the model of the index]",
    ),
    options.option_of(EncoderOptions, "trust"),
)
INDEX_MODEL = options.gather(
    "model", *MODEL_AND_TRUST, *options.options_for(EncoderOptions, *OF_RUN)
)


def open_index(folder: str | Path, model: dict[str, Any]) -> Index:
    """Open an index; ``model``: the values of the options of :data:`INDEX_MODEL`."""
    index = Index.open(folder, **model)
    for note in index.notes:
        tell(note)
    return index


@click.command("search", context_settings={"allow_extra_args": True})
@DIR
@click.argument("query", metavar="[QUERY]", required=False)
@INDEX_MODEL
@click.option(
    "--vector",
    metavar="FILE[#N]",
    help="The vector of QUERY, if your own model makes the vectors: a .npy or .parquet file with "
    "one row. FILE#N: row N of a file with several rows, counted from 0.",
)
@gather("settings", *options_for(Settings, *OF_COMMAND))
@click.option(
    "--format",
    "form",
    type=click.Choice(("text", "json")),
    help="json: one object for each query. [default: by the ending of -o, else text]",
)
@OUTPUT
def search_command(
    folder: str,
    query: str | None,
    model: dict[str, Any],
    vector: str | None,
    settings: dict[str, Any],
    form: Literal["text", "json"] | None,
    file: str,
) -> None:
    """Find the documents of the index in DIR that answer QUERY best.

    Keyword search gives more weight to words that the model does not know. In QUERY, "two words" is
    a phrase, -word excludes documents with the word, FIELD:word requires the word in this field,
    and a OR b requires one of two words. If QUERY is -, each line of standard input is a query.
    Without QUERY, but with --where, --sort or --facets, list the documents that satisfy --where.
    An HTML page (-o FILE.html) sets --explain.
    """
    further_words = click.get_current_context().args
    if further_words:
        whole = " ".join((query or "", *further_words))
        raise click.UsageError(f"QUERY is one argument; put it in quotes: {whole!r}")
    can_list = any(settings[name] for name in ("where", "sort", "facets"))
    if query is None and not (vector or can_list):
        raise click.UsageError(
            "Missing argument 'QUERY'; or pass --vector, --where, --sort or --facets"
        )
    output.check_files(file, None, form, ENDINGS)
    report_format = form or format_of(file)
    if query == STDIN and (report_format == "html" or vector):
        name = "-o FILE.html" if report_format == "html" else "--vector"
        raise click.UsageError(f"{name} is for one QUERY, not for several on standard input")
    if report_format == "html":
        settings["explain"] = True
    with output.usage_errors():
        index = open_index(folder, model)
        has_no_vector = query is not None and vector is None and not index.can_encode
        if has_no_vector and settings["fusion"] not in ONE_LEG:
            tell(
                f"{index.name}: created without a model; queries are searched by their words only. "
                "To search by vectors too, pass --vector FILE or --model"
            )
        answers: Iterable[Hits]
        if query == STDIN:
            answers = _answers_to_lines(index, settings)
        else:
            answers = [index.search(query, vector=vector, **settings)]
        with output.open_output(file) as out:
            for hits in answers:
                report = hits_report(hits, one_of_many=query == STDIN)
                if report_format == "json":  # one line per query
                    out.write(json.dumps(report.data()).encode() + b"\n")
                else:
                    write(report, out, report_format, FILE_WIDTH)
                out.flush()


@click.command("similar")
@DIR
@click.argument("id_", metavar="ID")
@gather("settings", *options_for(Settings, "k", "where"))
@format_option()
def similar_command(
    folder: str, id_: str, settings: dict[str, Any], report_format: Literal["text", "json"]
) -> None:
    """Find the documents of the index in DIR that are similar to the document ID.

    The query is the stored vector of this document, and up to 25 of its words with the highest BM25
    weights. The model is not run.
    """
    with output.usage_errors():
        hits = open_index(folder, {}).similar(id_, **settings)
        output.show_report(hits_report(hits, one_of_many=True), report_format)


def _answers_to_lines(index: Index, settings: dict[str, Any]) -> Iterator[Hits]:
    # UTF-8 in every locale; an invalid line does not affect the others.
    lines = (line.decode("utf-8-sig", "replace").rstrip("\r\n") for line in sys.stdin.buffer)
    count = 0
    for batch in in_batches(lines, BATCH_QUERIES):
        yield from index.search_many(batch, **settings)
        count += len(batch)
    output.refuse_empty(count, (STDIN,), "query")


# ---- evaluate and tune the ranking

QUERIES = gather(
    "queries",
    options.file_option(
        "--queries",
        help="File of queries: BEIR's JSONL (_id, text), or lines of id TAB text.",
    ),
    options.file_option(
        "--qrels", help="File of relevance judgements, in the format of BEIR or TREC."
    ),
    options.file_option(
        "--vectors", help="Vectors of the queries (.npy), if the index has no model."
    ),
)


@click.command("eval")
@DIR
@QUERIES
@INDEX_MODEL
@click.option(
    "--self-check",
    is_flag=True,
    help="Evaluate without judgements: search for documents by words that they contain.",
)
@options.default_option(
    "--sample",
    type=click.IntRange(1),
    default=SELF_CHECK_SAMPLE,
    help="Number of documents that --self-check searches for.",
)
@gather("settings", *options_for(Settings, "rerank"))
@HTML
@format_option()
def eval_command(
    folder: str,
    queries: dict[str, Any],
    model: dict[str, Any],
    self_check: bool,
    sample: int,
    settings: dict[str, Any],
    html: str | None,
    report_format: Literal["text", "json"],
) -> None:
    """Evaluate the ranking of the index in DIR for each fusion (see search --fusion).

    With --queries and --qrels: nDCG@10, recall@100 and MRR@10, for all queries, for queries with
    unknown words, and for queries without. With --self-check: how often documents of the index are
    found by their own words.
    """
    from vocabtool.evaluation import evaluate
    from vocabtool.reports.index import evaluation_report, self_check_report

    if self_check == (queries["queries"] is not None or queries["qrels"] is not None):
        raise click.UsageError("pass --queries and --qrels, or --self-check")
    if self_check and settings["rerank"] is not None:
        raise click.UsageError("--rerank needs judged queries: pass --queries and --qrels")
    output.check_files("-", html, None)
    with output.usage_errors():
        index = open_index(folder, model)
        with output.progress_bar(False) as progress:
            if self_check:
                report = self_check_report(evaluate.self_check(index, sample, progress=progress))
            else:
                judgements = _read_judgements(queries)
                results = evaluate.evaluate(index, **judgements, **settings, progress=progress)
                report = evaluation_report(results)
        output.show_report(report, report_format, html)


@click.command("calibrate")
@DIR
@QUERIES
@INDEX_MODEL
@options.default_option(
    "--sample",
    type=click.IntRange(1),
    default=CALIBRATION_SAMPLE,
    help="Number of documents that queries are made from.",
)
@click.option("--dry-run", is_flag=True, help="Print the result, but do not change the index.")
@format_option()
def calibrate_command(
    folder: str,
    queries: dict[str, Any],
    model: dict[str, Any],
    sample: int,
    dry_run: bool,
    report_format: Literal["text", "json"],
) -> int:
    """Find the best weight of keyword search for the index in DIR, and store it.

    Without judgements, the weight is estimated with queries made from the documents. With
    --queries and --qrels, it is tuned on judged queries by cross-validation.
    """
    from vocabtool.evaluation.calibrate import MIN_SAMPLE, calibrate, tune
    from vocabtool.reports.index import calibration_report, tuning_report

    with output.usage_errors():
        index = open_index(folder, model)
        if queries["qrels"] is not None:
            with output.progress_bar(False) as progress:
                tuned = tune(index, **_read_judgements(queries), progress=progress)
            calibration, report = tuned.calibration, tuning_report(tuned)
        else:
            for name, file in queries.items():
                if file is not None:
                    raise click.UsageError(f"--{name} needs relevance judgements: pass --qrels")
            with output.progress_bar(False) as progress:
                estimate = calibrate(index, sample=sample, progress=progress)
            if estimate is None:
                tell(
                    f"too few documents to calibrate: fewer than {MIN_SAMPLE} have at least three "
                    "sentences and 15 words"
                )
                return 1
            calibration, report = estimate.calibration, calibration_report(estimate)
        if not dry_run:
            index.store_calibration(calibration)
        output.show_report(report, report_format)
    return 0


def _read_judgements(queries: dict[str, Any]) -> dict[str, Any]:
    from vocabtool.evaluation.evaluate import read_qrels, read_queries, read_query_vectors

    if queries["queries"] is None or queries["qrels"] is None:
        raise click.UsageError("pass --queries and --qrels together")
    file = queries["vectors"]
    return {
        "queries": read_queries(queries["queries"]),
        "qrels": read_qrels(queries["qrels"]),
        "vectors": None if file is None else read_query_vectors(file),
    }
