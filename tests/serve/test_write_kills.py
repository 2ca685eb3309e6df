"""A server that is killed while it writes: every batch is in the index, however often sent.

Three kills by default, thirty with ``--full``.
"""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from pathlib import Path
from typing import Final

import httpx

from tests.builders.served import serve_process
from tests.builders.small_indexes import DIM, contents, document, temporary_folder, vector
from vocabtool import Document, Index

KILLS: Final = 30
CLIENTS: Final = 3
SIZE: Final = 5  # documents of a batch
SEED: Final = 29
LONGEST: Final = 0.6  # seconds from a commit until the kill
HEADERS: Final = {"Content-Type": "application/x-ndjson"}


class Sender(threading.Thread):
    """A client that sends batches until it is stopped, each until it is answered.

    ``answered``: of each batch, the answer. ``number``: of the batch that is sent now.
    """

    def __init__(self, which: int, addresses: list[httpx.URL]) -> None:
        super().__init__(daemon=True)
        self.which = which
        self.addresses = addresses
        self.number = 0
        self.answered: list[dict[str, int]] = []
        self.stopped = threading.Event()

    def numbers(self, batch: int) -> range:
        """The documents of a batch."""
        first = (batch * CLIENTS + self.which) * SIZE
        return range(first, first + SIZE)

    def run(self) -> None:
        while not self.stopped.is_set():
            rows = []
            for number in self.numbers(self.number):
                each = document(number)
                row = {"id": each.id, "text": each.text, **each.fields}
                rows.append(json.dumps({**row, "vector": vector(number).tolist()}))
            self.answered.append(self.send("\n".join(rows)))
            self.number += 1

    def send(self, body: str) -> dict[str, int]:
        """Send a batch again and again until it is answered."""
        while True:
            url = self.addresses[-1].join("/v1/indexes/small/documents")
            try:
                answer = httpx.post(url, content=body, headers=HEADERS, timeout=60)
            except httpx.TransportError:  # the server is dead; the next one may not be there yet
                answer = None
            if answer is None or answer.status_code == 503:  # or not open yet
                time.sleep(0.05)
                continue
            assert answer.status_code == 200, answer.text
            found: dict[str, int] = answer.json()
            return found


def test_a_killed_server_loses_and_repeats_nothing(full: bool) -> None:
    """Clients send each batch until it is answered; the server is killed at any moment.

    A batch which was committed but not answered is sent again, and replaces its documents.
    """
    draw = random.Random(SEED)
    rounds = KILLS if full else KILLS // 10
    with temporary_folder() as there:
        folder = Path(there) / "small"
        Index.create(folder, dim=DIM)
        addresses: list[httpx.URL] = []
        reader = Index.open(folder)
        senders = [Sender(which, addresses) for which in range(CLIENTS)]
        try:
            for kill in range(rounds + 1):
                with serve_process(f"small={folder}", "--writable") as served:
                    addresses.append(served.client.base_url)
                    if kill == 0:
                        for each in senders:
                            each.start()
                    if kill == rounds:  # the last server is not killed
                        for each in senders:
                            each.stopped.set()
                            each.join()
                        assert served.stop() == 0
                        break
                    kind = draw.random()
                    while kind < 0.8 and not reader.refresh():
                        assert served.process.poll() is None, "the server ended by itself"
                        assert all(each.is_alive() for each in senders), "a client was refused"
                    if kind > 0.5:  # else right after a commit, perhaps before its answer
                        time.sleep(draw.uniform(0, LONGEST))
                    served.stop(signal.SIGKILL)
                    reader.refresh()
        finally:
            for each in senders:
                each.stopped.set()
        index = Index.open(folder)
        sent: dict[str, Document] = {}
        for each in senders:
            assert len(each.answered) == each.number
            for batch, answer in enumerate(each.answered):
                assert (answer["added"], answer["replaced"]) in ((SIZE, 0), (0, SIZE))
                sent |= {f"d{number}": document(number) for number in each.numbers(batch)}
        assert contents(index) == sent
        assert index.manifest.live == len(sent)
        assert index.verify().documents == len(sent)
