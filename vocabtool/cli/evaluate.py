"""Commands that evaluate and tune the ranking: ``eval`` and ``calibrate``."""

from __future__ import annotations

from typing import Any, Literal

import click

from vocabtool.choices import CALIBRATION_SAMPLE, SELF_CHECK_SAMPLE
from vocabtool.cli.index import open_index
from vocabtool.cli.options import DIR, HTML, INDEX_MODEL, format_option, gather
from vocabtool.cli.output import check_files, show_report, step_progress, usage_errors
from vocabtool.cli.search import RERANK
from vocabtool.system.messages import tell

QUERIES = gather(
    "queries",
    click.option(
        "--queries",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="File of queries: BEIR's JSONL (_id, text), lines of id TAB text, or TREC topics.",
    ),
    click.option(
        "--qrels",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="File of relevance judgements, in the format of BEIR or TREC.",
    ),
    click.option(
        "--vectors",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Vectors of the queries (.npy, .npz), if the index has no model.",
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
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=SELF_CHECK_SAMPLE,
    show_default=True,
    help="Number of documents that --self-check searches for.",
)
@RERANK
@HTML
@format_option()
def eval_command(
    folder: str,
    queries: dict[str, Any],
    model: dict[str, Any],
    self_check: bool,
    sample: int,
    rerank: str | None,
    html: str | None,
    report_format: Literal["text", "json"],
) -> None:
    """Evaluate the ranking of the index in DIR for each fusion (see search --fusion).

    With --queries and --qrels: nDCG@10, recall@100 and MRR@10, for all queries, for queries with
    unknown words, and for queries without. With --self-check: how often documents of the index are
    found by their own words.
    """
    from vocabtool.evaluation import compare
    from vocabtool.reports.evaluation import evaluation_report, self_check_report

    if self_check == (queries["queries"] is not None or queries["qrels"] is not None):
        raise click.UsageError("pass --queries and --qrels, or --self-check")
    if self_check and rerank is not None:
        raise click.UsageError("--rerank needs judged queries: pass --queries and --qrels")
    check_files("-", html, None)
    with usage_errors():
        index = open_index(folder, model)
        with step_progress(False) as progress:
            if self_check:
                report = self_check_report(compare.self_check(index, sample, progress=progress))
            else:
                judgements = _read_judgements(queries)
                found = compare.evaluate(index, **judgements, rerank=rerank, progress=progress)
                report = evaluation_report(found)
        show_report(report, report_format, html)


@click.command("calibrate")
@DIR
@QUERIES
@INDEX_MODEL
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=CALIBRATION_SAMPLE,
    show_default=True,
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
    from vocabtool.evaluation.calibrate import MIN_SAMPLE, calibrate
    from vocabtool.evaluation.tune import tune
    from vocabtool.reports.evaluation import calibration_report, tuning_report

    with usage_errors():
        index = open_index(folder, model)
        if queries["qrels"] is not None:
            with step_progress(False) as progress:
                tuned = tune(index, **_read_judgements(queries), progress=progress)
            calibration, report = tuned.calibration, tuning_report(tuned)
        else:
            if queries["vectors"] is not None:
                raise click.UsageError("--vectors needs judged queries: pass --qrels")
            if queries["queries"] is not None:
                raise click.UsageError(
                    "--queries needs relevance judgements: pass --qrels, or omit --queries"
                )
            with step_progress(False) as progress:
                found = calibrate(index, sample=sample, progress=progress)
            if found is None:
                tell(
                    f"too few documents to calibrate: fewer than {MIN_SAMPLE} have at least three "
                    "sentences and 15 words"
                )
                return 1
            calibration, report = found.calibration, calibration_report(found)
        if not dry_run:
            index.store_calibration(calibration)
        show_report(report, report_format)
    return 0


def _read_judgements(queries: dict[str, Any]) -> dict[str, Any]:
    from vocabtool.evaluation.judgements import read_qrels, read_queries, read_query_vectors

    if queries["queries"] is None or queries["qrels"] is None:
        raise click.UsageError("pass --queries and --qrels together")
    file = queries["vectors"]
    return {
        "queries": read_queries(queries["queries"]),
        "qrels": read_qrels(queries["qrels"]),
        "vectors": None if file is None else read_query_vectors(file),
    }
