"""The lookup tables of a TFLite model: the constants that fill them and the id of other words.

A graph for initialisation imports keys and values into a table, another looks words up in it; both
name the table by the same number (HashtableOptions in schema.fbs).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from vocabtool.formats.tflite_schema import Graph, Model, Operator, Tensor

HASHTABLE: Final = 136  # BuiltinOperators
FIND: Final = 137  # of a table, a key and what is given for others
IMPORT: Final = 138  # into a table, of keys and values
OPERATORS: Final = frozenset((HASHTABLE, FIND, IMPORT))
TABLE_ID: Final = 0  # of HashtableOptions


class Filled(NamedTuple):
    """A table's constants; ``default``: the id that words outside of it get, where it is one."""

    keys: Tensor
    values: Tensor
    default: int | None


def filled_tables(model: Model) -> list[Filled]:
    """Every import into a table. Raises :class:`InvalidFile` where a graph is damaged."""
    defaults: dict[int, int] = {}
    imported: list[tuple[int | None, Tensor, Tensor]] = []
    for graph in model.graphs():
        table_of: dict[int, int] = {}
        for operator in graph.operators(OPERATORS):
            if operator.code == HASHTABLE:
                table_of |= dict.fromkeys(operator.outputs, operator.option(TABLE_ID))
            elif len(operator.inputs) == 3:
                table = table_of.get(operator.inputs[0])
                if operator.code == IMPORT:
                    keys, values = map(graph.tensor, operator.inputs[1:])
                    imported.append((table, keys, values))
                elif table is not None:
                    defaults |= _default(model, graph, operator, table)
    return [
        Filled(keys, values, None if table is None else defaults.get(table))
        for table, keys, values in imported
    ]


def _default(model: Model, graph: Graph, operator: Operator, table: int) -> dict[int, int]:
    """What a lookup gives for other keys, by its table, where it is one whole number."""
    tensor = graph.tensor(operator.inputs[2])
    numbers = model.integers(tensor) if tensor.buffer else None
    return {table: int(numbers[0])} if numbers is not None and len(numbers) == 1 else {}
