"""Times of nanoseconds in typed columns, with and without pandas. The oracle: datetime."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.conftest import ROOT
from tests.documents.reading import documents
from vocabtool.documents.nanoseconds import python_times

MOMENT = datetime(2020, 1, 1, 0, 0, 0, 1, UTC)
NS = 1_577_836_800_000_001_000  # of that moment
OF_DAY = 3_600_000_001_000


@pytest.mark.parametrize(
    ("kind", "value", "held"),
    [
        (pa.timestamp("ns", "UTC"), NS, MOMENT),
        (pa.timestamp("ns"), NS, MOMENT.replace(tzinfo=None)),
        (pa.duration("ns"), 5_000_001_000, timedelta(seconds=5, microseconds=1)),
        (pa.time64("ns"), OF_DAY, time(1, 0, 0, 1)),
        (pa.list_(pa.timestamp("ns", "UTC")), [NS, None], [MOMENT, None]),
        (pa.large_list(pa.time64("ns")), [OF_DAY], [time(1, 0, 0, 1)]),
        (pa.struct([("at", pa.duration("ns"))]), {"at": 1000}, {"at": timedelta(microseconds=1)}),
        (pa.timestamp("ns", "UTC"), NS + 1, "2020-01-01 00:00:00.000001001Z"),
        (pa.timestamp("ns"), NS + 1, "2020-01-01 00:00:00.000001001"),
        (pa.duration("ns"), 5_000_001_001, "5000001001"),
        (pa.time64("ns"), OF_DAY + 1, "01:00:00.000001001"),
        (pa.list_(pa.time64("ns")), [OF_DAY + 1], ["01:00:00.000001001"]),
    ],
    ids=str,
)
def test_values(kind: pa.DataType, value: object, held: object) -> None:
    """Python's own where they hold it, text with all digits where they do not."""
    assert python_times(pa.array([value, None], kind)).to_pylist() == [held, None]


@pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("us"), pa.list_(pa.string())], ids=str)
def test_other_columns_stay(kind: pa.DataType) -> None:
    """The very same object."""
    column = pa.nulls(2, kind)
    assert python_times(column) is column


def test_fields_of_documents(tmp_path: Path) -> None:
    """Whole rows, of a file that Arrow alone would not hand out."""
    columns = {"text": ["a"], "at": pa.array([NS + 1], pa.timestamp("ns")), "n": [1]}
    pq.write_table(pa.table(columns), tmp_path / "c.parquet")
    (document,) = documents(str(tmp_path / "c.parquet"))
    assert document.fields == {"at": "2020-01-01 00:00:00.000001001", "n": 1}


def test_only_texts(tmp_path: Path) -> None:
    """A file of one column has rows without fields."""
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "c.parquet")
    assert [d.fields for d in documents(str(tmp_path / "c.parquet"))] == [{}, {}]


def test_kept_fields_do_not_need_pandas(tmp_path: Path) -> None:
    """The command keeps them as the library does where pandas is installed."""
    lasted = pa.array([[5_000_001_001]], pa.list_(pa.duration("ns")))
    pq.write_table(pa.table({"text": ["a"], "lasted": lasted}), tmp_path / "c.parquet")
    command = ["embed", str(tmp_path / "c.parquet"), "--model", "data/small_glove.txt"]
    command += ["--keep", "lasted", "-o", str(tmp_path / "out"), "--quiet"]
    subprocess.run([sys.executable, "-m", "tests.plain_command", *command], cwd=ROOT, check=True)
    (shard,) = (tmp_path / "out").glob("shard-*.parquet")
    assert pq.read_table(shard)["lasted"].to_pylist() == ['["5000001001"]']
