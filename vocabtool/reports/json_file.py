"""Reports as one JSON object; numbers with full precision, what is not UTF-8 escaped.

Lists that may be long come last, an entry a line, and are written as they are made.
"""

from __future__ import annotations

import json
from typing import BinaryIO

from vocabtool.reports.model import Report


def write(report: Report, file: BinaryIO) -> None:
    """Write all that a report knows."""
    text = json.dumps(report.data(), ensure_ascii=False, indent=2)
    if not report.lists:
        file.write(_bytes(text) + b"\n")
        return
    file.write(_bytes(text.removesuffix("\n}")) + b',\n  "entries": {')
    for number, (name, rows) in enumerate(report.lists.items()):
        file.write(b"," * (number > 0) + f'\n    "{name}": ['.encode())
        between = b"\n"
        for row in rows():
            file.write(between + b"      " + _bytes(json.dumps(row, ensure_ascii=False)))
            between = b",\n"
        file.write(b"\n    ]")
    file.write(b"\n  }\n}\n")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
