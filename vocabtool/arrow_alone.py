"""Arrow without pandas, for the command: a third of a second less before it begins.

Arrow imports pandas, where it is installed, when it first converts Python's values, to know the
missing values of pandas among them. The command hands it none. What asks Arrow for pandas later
(``to_pandas``, an encoder of the caller's own) gets it as ever.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def keep_pandas_out() -> None:
    """Have Arrow look for pandas now, and find none."""
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        import pyarrow as pa

        pa.array([None])
    finally:
        sys.meta_path.remove(finder)
