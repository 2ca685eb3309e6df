"""The store fulfils the contract of vocabtool; in the local mode of the client."""

from pathlib import Path

from vocabtool.testing import StoreContract


class TestQdrant(StoreContract):
    def new_address(self, tmp_path: Path) -> str:
        return f"qdrant-local://{tmp_path}/qdrant/demo"
