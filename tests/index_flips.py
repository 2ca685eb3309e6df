"""Flip bits in every file of an index, and open and search it each time, in a process of its own.

``python -m tests.index_flips INDEX 8`` flips 8 bits of each file, one after the other, in a copy.
It prints as JSON what came out that is no error of ours, and of which files the answers changed.
"""

from __future__ import annotations

import json
import random
import sys
import traceback
from pathlib import Path
from shutil import copytree

from tests.builders.small_indexes import answers, temporary_folder
from vocabtool import Index, VocabtoolError


def asked(path: Path) -> object:
    """What an index answers to all kinds of questions."""
    index = Index.open(path)
    hits = index.search("amber birch", fusion="keyword", where="n > 3", explain=True)
    spelled = index.search("ambre", fusion="keyword").suggestions
    return answers(index), hits.to_json()["hits"], spelled, index.get("d5")


def main() -> None:
    folder, flips = Path(sys.argv[1]), int(sys.argv[2])
    escaped, other_answers = [], set()
    with temporary_folder() as beside:
        path = Path(copytree(folder, Path(beside) / "index"))
        right = asked(path)
        for file in sorted(each for each in path.rglob("*") if each.is_file()):
            data, draw = file.read_bytes(), random.Random(file.suffix)
            for at in draw.choices(range(len(data)), k=flips) if data else ():
                bit = 1 << draw.randrange(8)
                file.unlink()  # another file: the one before may be mapped
                file.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
                try:
                    if asked(path) != right:
                        other_answers.add(file.name)
                except VocabtoolError:
                    pass
                except BaseException:  # noqa: BLE001 - what must not come out is what is looked for
                    escaped.append(f"{file.name} {at} {bit}: {traceback.format_exc(limit=-3)}")
            file.write_bytes(data)
    print(json.dumps({"escaped": escaped, "other_answers": sorted(other_answers)}))  # noqa: T201 - its output is its result


if __name__ == "__main__":
    main()
