"""Commands that judge an index: ``eval`` and ``calibrate``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from vocabtool.cli.command_streams import print_report, usage_errors
from vocabtool.cli.index_options import DIR, MODEL
from vocabtool.cli.source_options import together
from vocabtool.evaluation.options import CALIBRATION_SAMPLE, SELF_CHECK_SAMPLE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from vocabtool.index.index import Index

QUERIES = together(
    click.option(
        "--queries",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Queries: JSONL of _id and text (as BEIR has it), id TAB text, or TREC topics.",
    ),
    click.option(
        "--qrels",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Judgements: query, document, relevance, as BEIR or TREC has them.",
    ),
    click.option(
        "--vectors",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help="Vectors of the queries, .npy or .npz, where the index has no model.",
    ),
    click.option("--seed", type=int, default=0, show_default=True),
)
FORMAT = click.option(
    "--format", "output", type=click.Choice(("text", "json")), default="text", show_default=True
)


@click.command("eval")
@DIR
@QUERIES
@MODEL
@click.option(
    "--self-check",
    is_flag=True,
    help="Without judgements: search for documents by words that were taken from them.",
)
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=SELF_CHECK_SAMPLE,
    show_default=True,
    help="Documents that --self-check looks for.",
)
@FORMAT
def eval_command(
    folder: str,
    queries: str | None,
    qrels: str | None,
    vectors: str | None,
    seed: int,
    model: str | None,
    trust: bool,
    self_check: bool,
    sample: int,
    output: Literal["text", "json"],
) -> None:
    """Judge how the index in DIR ranks: every fusion side by side.

    With --queries and --qrels: nDCG@10, recall@100 and MRR@10, over all queries and split by
    whether they hold a word that the model does not know. With --self-check: known documents.
    """
    from vocabtool.evaluation.compare import evaluate
    from vocabtool.evaluation.self_check import self_check as check_self
    from vocabtool.reports import evaluation_report as report

    if self_check == (queries is not None or qrels is not None):
        raise click.UsageError("wanted --queries and --qrels, or --self-check")
    with usage_errors():
        index = _opened(folder, model, trust)
        if self_check:
            found = check_self(index, sample, seed)
            told = found.to_dict() if output == "json" else None
            print_report(told, report.of_self_check(found))
            return
        asked, judged = _judged(queries, qrels)
        scored = evaluate(index, asked, judged, vectors=_vectors(vectors), seed=seed)
        told = scored.to_dict() if output == "json" else None
        print_report(told, report.of_evaluation(scored))


@click.command("calibrate")
@DIR
@QUERIES
@MODEL
@click.option(
    "--sample",
    type=click.IntRange(1),
    default=CALIBRATION_SAMPLE,
    show_default=True,
    help="Documents that queries are made of.",
)
@click.option("--dry-run", is_flag=True, help="Tell, and leave the index as it is.")
@FORMAT
def calibrate_command(
    folder: str,
    queries: str | None,
    qrels: str | None,
    vectors: str | None,
    seed: int,
    model: str | None,
    trust: bool,
    sample: int,
    dry_run: bool,
    output: Literal["text", "json"],
) -> int:
    """Find how much the keyword leg of the index in DIR weighs, and keep it there.

    Without judgements: from the documents themselves, with queries made of them. With --queries and
    --qrels it is tuned on judged queries by cross-validation.
    """
    from vocabtool.evaluation.calibrate import MIN_SAMPLE, calibrate
    from vocabtool.evaluation.tune import tune
    from vocabtool.reports import evaluation_report as report
    from vocabtool.system.telling import tell

    with usage_errors():
        index = _opened(folder, model, trust)
        if qrels is not None:
            asked, judged = _judged(queries, qrels)
            tuned = tune(index, asked, judged, vectors=_vectors(vectors), seed=seed)
            calibration, told = tuned.calibration, tuned.to_dict()
            lines = report.of_tuning(tuned)
        else:
            if vectors is not None:
                raise click.UsageError("--vectors is for judged queries: give --qrels")
            if queries is not None:
                raise click.UsageError(
                    "--queries is for judged queries: give --qrels. Unjudged queries no longer "
                    "shift the weight: leave them out"
                )
            found = calibrate(index, sample=sample, seed=seed)
            if found is None:
                tell(
                    f"fewer than {MIN_SAMPLE} documents of three sentences and 15 words were "
                    "found: nothing can be said"
                )
                return 1
            calibration, told = found.calibration, found.to_dict()
            lines = report.of_calibration(found)
        if not dry_run:
            index.store_calibration(calibration)
        print_report(told if output == "json" else None, lines)
    return 0


def _opened(folder: str, model: str | None, trust: bool) -> Index:
    from vocabtool.index.index import Index

    return Index.open(folder, model, **({"trust": True} if trust else {}))


def _judged(queries: str | None, qrels: str | None) -> tuple[Any, Any]:
    from vocabtool.evaluation.judgements import read_qrels, read_queries

    if queries is None or qrels is None:
        raise click.UsageError("--queries and --qrels go together")
    return read_queries(queries), read_qrels(qrels)


def _vectors(file: str | None) -> NDArray[Any] | None:
    from vocabtool.evaluation.judgements import read_query_vectors

    return read_query_vectors(file) if file is not None else None
