"""Options for reading documents, shared by ``oov``, ``embed``, ``index`` and ``stream``."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypedDict

from vocabtool.choices import SPLIT_SIZE, Split, list_options, option
from vocabtool.system.arguments import check_options

Format = Literal[
    "lines", "jsonl", "csv", "tsv", "parquet", "arrow", "tfrecord", "json",
    "text", "markdown", "rst", "html", "python", "code", "notebook", "pdf", "docx",
]  # fmt: skip  # one name a line would be twenty lines
OnError = Literal["raise", "skip"]
OnDuplicate = Literal["error", "first"]

ID: Final = "id"  # of a Python mapping, and a column of Parquet, unless ``id_field`` is given
VECTOR: Final = "vector"  # likewise
TEXT: Final = "text"  # the default text field, and the one that contains the text of a piece
PATH_FIRST: Final = ("path", TEXT)  # the fields of a piece that begins with its path
BETWEEN: Final = "\n\n"  # between the texts of several fields
MAX_WEIGHT: Final = 9
WEIGHTED: Final = re.compile(rf"(?P<name>[^^]+)(?:\^(?P<weight>[1-{MAX_WEIGHT}]))?")
WHOLE_ROWS: Final = frozenset({"file", "line"})  # values of ``split`` that cut no rows


class SplitArguments(TypedDict, total=False):
    """The keyword arguments of :class:`ReadOptions` that choose, read and split files."""

    split: Split | None
    split_size: int | None
    overlap: int
    include: Sequence[str]
    exclude: Sequence[str]
    gitignore: bool
    quotes: bool


class ReadArguments(SplitArguments, total=False):
    """The keyword arguments of :class:`ReadOptions`."""

    field: str | Sequence[str] | None
    format: Format | None
    id_field: str | None
    keep: Sequence[str]
    on_error: OnError
    on_duplicate: OnDuplicate | None
    vector_field: str | None


@list_options
@dataclass(frozen=True, kw_only=True, slots=True)
class ReadOptions:
    """Options for reading documents. Raises ``ValueError`` for an invalid value."""

    field: str | Sequence[str] | None = option(
        None,
        "Field or column that contains the text. The texts of several fields are joined by blank "
        "lines in this order; a row may lack some of the fields, but not all. In an index, a word "
        "in FIELD^W, with W from 1 to 9, counts W times in keyword search; without a field, pieces "
        "of texts with headings begin with the path of headings, which the field `text` omits.",
        if_none="text, or the only column",
        metavar="FIELD",
        repeated=True,
    )
    format: Format | None = option(
        None,
        "Format of the documents.",
        if_none="by the ending of each file, else lines of text",
        flags=("--input-format",),
    )
    quotes: bool = option(
        True,
        "In CSV, a value in quotes may contain commas and line ends. TSV has no quotes.",
    )
    id_field: str | None = option(
        None,
        "Field or column that contains the id, a string or an integer. A row without an id is "
        "invalid.",
        if_none="FILE:LINE",
        metavar="FIELD",
    )
    keep: Sequence[str] = option(
        (),
        "Also store this field: a list or an object as JSON text, any other value as it is.",
        metavar="FIELD",
        repeated=True,
    )
    vector_field: str | None = option(
        None,
        "Field with the vector of each document, a list of numbers (.parquet, .arrow, .jsonl).",
        metavar="FIELD",
    )
    split: Split | None = option(
        None,
        "Where texts are cut into pieces. Each piece is a document.",
        if_none="headings of .md, .rst, .html, and of .txt in folders, else lines of .txt; "
        "definitions of .py, blank lines of other code; rows are not cut",
    )
    split_size: int | None = option(
        None,
        "Maximum length of a piece, in tokens of the model; in words if it counts no tokens. No "
        "piece is longer than the model can read, unless each file is one piece.",
        if_none=f"{SPLIT_SIZE}",
        least=1,
        metavar="N",
    )
    overlap: int = option(
        0, "Number of words or tokens that a piece repeats from the end of the previous piece."
    )
    include: Sequence[str] = option(
        (),
        "In folders, read only files that match this pattern, such as '*.md' or 'docs/'.",
        if_none="files with known endings",
        metavar="GLOB",
        repeated=True,
    )
    exclude: Sequence[str] = option(
        (),
        "In folders, leave out files and folders that match this pattern.",
        metavar="GLOB",
        repeated=True,
    )
    gitignore: bool = option(True, "In folders, leave out what a .gitignore names.")
    on_error: OnError = option(
        "raise",
        "What to do with an invalid row (and, in an index, a value that does not fit its field).",
    )
    on_duplicate: OnDuplicate | None = option(
        "error",
        "If an id occurs again: raise an error, or read only the first document with the id. None: "
        "ids are not compared.",
    )
    path_first: bool = option(
        False,
        "Whether each piece of a text with headings begins with its path of headings, such as "
        "Install > Linux. Has no effect on chosen fields. An index sets this option, except when "
        "vectors are given.",
    )

    def __post_init__(self) -> None:
        for name in ("keep", "include", "exclude"):
            if isinstance(value := getattr(self, name), str):
                what = "names" if name == "keep" else "patterns"
                raise ValueError(f"{name} must be a list of {what}, got a string; use [{value!r}]")
            object.__setattr__(self, name, tuple(value))
        check_options(self)
        if self.field is not None and not isinstance(self.field, str):
            names = (*self.field,)
            if len(names) > 1:  # weights of 1 are removed
                weights = weights_of(names).items()
                names = tuple(name if n == 1 else f"{name}^{n}" for name, n in weights)
            object.__setattr__(self, "field", names if len(names) > 1 else next(iter(names), None))
        if not 0 <= self.overlap < (self.split_size or SPLIT_SIZE):
            most = (self.split_size or SPLIT_SIZE) - 1
            raise ValueError(
                f"overlap must be from 0 to {most} (split_size - 1), got {self.overlap}"
            )
        if self.vector_field is not None and self.splits_rows:
            raise ValueError(
                f"split={self.split!r} cuts rows into pieces, but vector_field has one vector for "
                "each row; use one of them"
            )

    @property
    def searched_fields(self) -> tuple[str, ...]:
        """If there are several text fields, their names with weights; otherwise empty."""
        return () if self.field is None or isinstance(self.field, str) else (*self.field,)

    @property
    def fields(self) -> tuple[str, ...]:
        """If there are several text fields, their names without weights; otherwise empty."""
        return (*weights_of(self.searched_fields),)

    @property
    def single_field(self) -> str | None:
        """The text field, if ``field`` is a single name; otherwise ``None``."""
        return self.field if isinstance(self.field, str) else None

    @property
    def kept_fields(self) -> tuple[str, ...]:
        """The fields to keep: ``keep``, and the text fields if there are several of them."""
        return (*self.keep, *(name for name in self.fields if name not in (TEXT, *self.keep)))

    @property
    def field_of_rows(self) -> str | None:
        """The first field that the options name but plain text lacks, or ``None``."""
        lacking = self.fields[:1] if TEXT not in self.fields else ()
        single = None if self.path_first and self.field == TEXT else self.single_field
        names = (*lacking, single, self.id_field)
        return next((name for name in names if name is not None), None)

    def hidden_fields(self, text: str) -> frozenset[str]:
        """Return the names of the fields that are left out of ``Document.fields``.

        ``text``: the name of the text field. Ignored if the options name several text fields.
        """
        return frozenset({TEXT}.intersection(self.fields) if self.fields else {text})

    def refuse_weights(self) -> None:
        """Raise ``ValueError`` if a field has a weight. Only an index uses weights."""
        for name, weight in weights_of(self.searched_fields).items():
            if weight > 1:
                raise ValueError(
                    f"field: a weight counts only in the keyword search of an index; use {name!r} "
                    f"instead of '{name}^{weight}'"
                )

    @property
    def splits_rows(self) -> bool:
        """Whether rows of tables and JSON are cut into pieces."""
        return self.split is not None and self.split not in WHOLE_ROWS


@lru_cache
def weights_of(searched: tuple[str, ...]) -> Mapping[str, int]:
    """Return the weight of each ``NAME`` or ``NAME^W``. Raises ``ValueError`` if invalid."""
    weights: dict[str, int] = {}
    for field in searched:
        if (match := WEIGHTED.fullmatch(field)) is None:
            form = f"NAME or NAME^W, W a whole number from 1 to {MAX_WEIGHT}"
            raise ValueError(f"field: wanted {form}, got {field!r}")
        name = match["name"]
        if name in weights:
            raise ValueError(f"field: a field may be named only once, got {name!r} again")
        weights[name] = int(match["weight"] or 1)
    return weights
