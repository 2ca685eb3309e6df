"""Commands that list, get, count, export, copy or delete what an index contains."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Final, Literal

import click
import orjson

from vocabtool.cli import options, output
from vocabtool.cli.options import DIR, format_option, gather, option_of
from vocabtool.cli.search import MODEL_AND_TRUST, open_index
from vocabtool.documents.batch import list_names
from vocabtool.documents.options import weights_of
from vocabtool.errors import NotFound
from vocabtool.index.folder_store import FolderStore
from vocabtool.index.index import store_class
from vocabtool.index.snapshot import as_row, texts_are_joined
from vocabtool.reports.index import stats_report
from vocabtool.search.settings import Settings
from vocabtool.system.messages import plural, tell
from vocabtool.vocabulary import safe

CONDITION = option_of(Settings, "where")
INDENT: Final = "    "
ROWS = format_option(
    "text, or jsonl: one JSON object per line for each document.", ("text", "jsonl")
)


@click.command("list")
@DIR
@CONDITION
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="FIELD",
    help="Also print this field of each document, such as text. May be repeated.",
)
@click.option(
    "-k", type=click.IntRange(1), help="Print at most this many documents. [default: all]"
)
@ROWS
def list_command(
    folder: str,
    where: str | None,
    fields: tuple[str, ...],
    k: int | None,
    report_format: Literal["text", "jsonl"],
) -> None:
    """List the ids of the documents in DIR, in the order in which they were added or updated.

    With --field, each line also has the values of these fields, separated by tabs.
    """
    index = open_index(folder, {})
    known = ["id", "text", *index.manifest.fields]
    for name in fields:
        if name not in known:
            raise NotFound(f"{index.name}: no field {name!r}; the fields are {list_names(known)}")
    documents: Iterable[dict[str, object]]
    if fields:
        documents = map(as_row, index.documents(where))
    else:  # no document is read
        documents = ({"id": id_} for id_ in index.ids(where))
    with output.standard_output() as out:
        for document in islice(documents, k):
            row = {name: document.get(name) for name in ("id", *fields)}
            if report_format == "jsonl":
                line = orjson.dumps(row)
            else:
                line = "\t".join(safe(_plain(value)) for value in row.values()).encode()
            out.write(line + b"\n")


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


@click.command("get")
@DIR
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@ROWS
def get_command(folder: str, ids: tuple[str, ...], report_format: Literal["text", "jsonl"]) -> int:
    """Print the documents with these IDs, with all fields. Exit with 1 if an ID is not in DIR."""
    index = open_index(folder, {})
    documents = {id_: index.get(id_) for id_ in ids}
    with output.standard_output() as out:
        for document in documents.values():
            if document is None:
                continue
            if report_format == "jsonl":
                out.write(orjson.dumps(as_row(document)) + b"\n")
                continue
            lines = [safe(document.id)]
            lines += [f"  {safe(name)}: {safe(_plain(v))}" for name, v in document.fields.items()]
            lines += [f"{INDENT}{safe(line)}".rstrip() for line in document.text.splitlines()]
            out.write("".join(f"{line}\n" for line in lines).encode())
    return _tell_missing([id_ for id_, document in documents.items() if document is None])


def _tell_missing(missing: Sequence[str]) -> int:
    """Print that the index has no documents with these ids. Return the exit code."""
    for id_ in missing[: output.SHOWN]:
        tell(f"not in the index: {safe(id_)}")
    if len(missing) > output.SHOWN:
        tell(f"... and {len(missing) - output.SHOWN:,} more")
    return 1 if missing else 0


@click.command("stats")
@DIR
@click.option("--unknown", is_flag=True, help="Also count the unknown words in all documents.")
@gather("model", *MODEL_AND_TRUST)
@format_option()
def stats_command(
    folder: str, unknown: bool, model: dict[str, object], report_format: Literal["text", "json"]
) -> None:
    """Print the contents of the index in DIR: documents, fields, model, sizes of files."""
    with output.usage_errors():
        index = open_index(folder, model)
        with output.progress_bar(False) as progress:
            stats = index.stats(unknown=unknown, progress=progress)
        if unknown and stats.tokens is None:
            tell(f"{index.name}: has no vocabulary, so unknown words cannot be counted")
        output.show_report(stats_report(index, stats), report_format)


@click.command("export")
@DIR
@options.file_option(
    "-o",
    "--output",
    "file",
    required=True,
    help="File to write, atomically: .jsonl, .parquet or .arrow.",
)
@CONDITION
@click.option(
    "--vectors",
    is_flag=True,
    help="Also write the vectors, as the column `vector`. If FILE is NAME.jsonl, they are written "
    "to NAME.vectors.npy instead.",
)
def export_command(folder: str, file: str, where: str | None, vectors: bool) -> None:
    """Write the documents in DIR to FILE, with ids and all fields, in the order of `list`.

    `vocabtool index FILE` builds an index from FILE.
    """
    with output.usage_errors():
        index = open_index(folder, {})
        with output.progress_bar(False) as progress:
            count = index.export(file, where=where, vectors=vectors, progress=progress)
    searched = index.manifest.searched_fields
    if not texts_are_joined(index.snapshot(), where):
        searched = ()  # the texts are not joined from fields
    fields = "".join(f" --field {quote(name)}" for name in searched or ("text",))
    others = (name for name in index.manifest.fields if name not in weights_of(searched))
    keep = "".join(f" --keep {quote(name)}" for name in others)
    tell(f"{plural(count, 'document', 'documents')} written to {file}")
    vector_option = ""
    if vectors and file.lower().endswith(".jsonl"):
        vector_option = f" --vectors {quote(str(Path(file).with_suffix('.vectors.npy')))}"
    elif vectors:
        vector_option = " --vector-field vector"
    options = f"--id-field id{fields}{keep}{vector_option}"
    tell(f"to read them again: vocabtool index {quote(file)} {options}")


@click.command("copy")
@DIR
@click.argument("new", type=click.Path(file_okay=False), metavar="NEW")
def copy_command(folder: str, new: str) -> None:
    """Copy the index in DIR to NEW, as it is at its last commit. Nobody can write to DIR meanwhile.

    DIR and NEW are folders; NEW appears when it is complete. After an interruption, the same
    command begins again. The model is not copied.
    """
    with output.usage_errors():
        index = open_index(folder, {})
        with output.progress_bar(False) as progress:
            copied = index.copy(new, progress)
    documents = plural(len(copied), "document", "documents")
    tell(f"{documents} copied to {copied.name} (commit {copied.manifest.commit:,})")


@click.command("delete")
@DIR
@click.argument("ids", nargs=-1, metavar="[ID]...")
@CONDITION
@click.option("--dry-run", is_flag=True, help="Only print how many documents would be deleted.")
@click.option(
    "--force", is_flag=True, help="Let --where delete more than a third of the documents."
)
@click.option(
    "--whole-index",
    is_flag=True,
    help="Remove the whole index at an address from its database, even if it is damaged.",
)
def delete_command(
    folder: str,
    ids: tuple[str, ...],
    where: str | None,
    dry_run: bool,
    force: bool,
    whole_index: bool,
) -> int:
    """Delete documents from the index in DIR, by ID or by a condition. Exit with 1 if an ID is not
    in DIR.

    All are deleted in one commit, without asking for confirmation. The files that the documents
    came from are not changed. If such a file changes later, `update` adds its deleted documents
    again.
    """
    if whole_index:
        if ids or where is not None or force:
            raise click.UsageError("--whole-index takes no IDs, --where or --force")
        store = store_class(folder)
        if issubclass(store, FolderStore):
            raise click.UsageError(
                f"--whole-index needs the address of an index, got the folder {folder}; remove the "
                "folder instead"
            )
        # The index is not opened, because it may be damaged.
        for what, size in store.remove_at(folder, dry_run=dry_run):
            more = "" if size is None else f", with {plural(size, 'document', 'documents')}"
            tell(f"{what} {'would be ' * dry_run}removed{more}")
        return 0
    if bool(ids) == (where is not None):
        raise click.UsageError("pass IDs, --where CONDITION, or --whole-index")
    if force and where is None:
        raise click.UsageError("--force needs --where")
    index = open_index(folder, {})
    missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in index]
    count = index.delete(ids or None, where=where, dry_run=dry_run, force=force)
    documents = plural(len({*ids}) if ids else count, "document", "documents")
    share = f"{count:,} of {documents}" if ids else documents
    left = len(index) - count if dry_run else len(index)
    tell(f"{share} {'would be ' * dry_run}deleted, {left:,} left")
    return _tell_missing(missing)
