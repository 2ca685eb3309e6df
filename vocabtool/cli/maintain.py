"""Commands that keep an index in order: ``delete``, ``compact``, ``upgrade``, ``verify``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Final, Literal

import click

from vocabtool.cli.options import DIR, QUIET, format_option
from vocabtool.cli.output import print_report, step_progress
from vocabtool.system.messages import plural, tell

SHOWN: Final = 3  # ids


@click.command("delete")
@DIR
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
def delete_command(folder: str, ids: tuple[str, ...]) -> int:
    """Delete the documents of these IDs from the index in DIR; exit with 1 where one is missing.

    One comes back where a FILE that holds it is indexed after that FILE changed.
    """
    from vocabtool.index.index import Index
    from vocabtool.vocabulary import encode, printable

    index = Index.open(folder)
    missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in index]
    with index.writer() as writer:
        deleted = writer.delete(ids)
    asked = plural(len(set(ids)), "document", "documents")
    tell(f"{deleted:,} of {asked} deleted, {plural(len(index), 'is', 'are')} left")
    for id_ in missing[:SHOWN]:
        tell(f"not in the index: {printable(encode(id_))}")
    return 1 if missing else 0


@click.command("compact")
@DIR
@QUIET
def compact_command(folder: str, quiet: bool) -> None:
    """Write the index in DIR anew: without deleted documents, and with codes of what is left."""
    from vocabtool.index.maintenance import compact

    with step_progress(quiet) as progress:
        removed, left = compact(Path(folder), progress)
    if not quiet:
        deleted = plural(removed, "deleted document", "deleted documents")
        tell(f"{deleted} removed, {plural(left, 'is', 'are')} left")


@click.command("upgrade")
@DIR
@QUIET
def upgrade_command(folder: str, quiet: bool) -> None:
    """Make the index of version 0.1.0 in DIR one that this version reads; no model is needed."""
    from vocabtool.index.maintenance import upgrade

    with step_progress(quiet) as progress:
        removed, left = upgrade(Path(folder), progress)
    if not quiet:
        deleted = plural(removed, "deleted document", "deleted documents")
        tell(f"{plural(left, 'document', 'documents')} taken over, {deleted} left out")


@click.command("verify")
@DIR
@QUIET
@format_option()
def verify_command(folder: str, quiet: bool, report_format: Literal["text", "json"]) -> None:
    """Read every byte of the index in DIR: checksums, both legs, and the recall measured again."""
    from vocabtool.index.index import Index
    from vocabtool.vocabulary import encode, printable

    index = Index.open(folder)
    with step_progress(quiet) as progress:
        found = index.verify(progress)
    if quiet:
        return
    near = f"recall@10 {found.recall:.3f}" if found.approximate else "all compared"
    documents = plural(found.documents, "document", "documents")
    lines = [f"{folder}: whole: {documents} in both legs, vectors: {near}"]
    if found.loading:
        lines.append("a load is not at its end: where it was stopped, the same command goes on")
    for name in found.others:
        lines.append(f"not of the index, and not read: {printable(encode(name))}")
    print_report(asdict(found) if report_format == "json" else None, lines)
