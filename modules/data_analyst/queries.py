"""Builds the SQL of aggregates: names come from the described columns alone and are quoted, values are parameters."""

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Annotated, Literal

from msgspec import Struct
from pydantic import Field, WithJsonSchema

from shared.errors import ToolError
from shared.text import clean

Scalar = Annotated[str, Field(max_length=500)] | bool | int | float | None
Operator = Literal["=", "!=", "<", "<=", ">", ">=", "contains"]
Condition = Scalar | Annotated[list[Scalar], Field(max_length=100)] | dict[Operator, Scalar]
# The whole schema would cost a hundred tokens in every prompt; an example is in the description.
Filters = Annotated[dict[str, Condition], Field(max_length=20), WithJsonSchema({"type": "object"})]
MAX_KEYS = 8
Names = Annotated[list[str], Field(max_length=MAX_KEYS)]
Dialect = Literal["postgres", "duckdb"]

MEASURE = re.compile(r"\s*(?P<function>sum|avg|min|max|count)\s*\((?P<column>.*)\)\s*", re.IGNORECASE | re.DOTALL)
# A value as decimal; DuckDB's has 28 digits before the point and 10 behind it.
DECIMALS: Mapping[Dialect, str] = {"postgres": "numeric", "duckdb": "DECIMAL(38, 10)"}
SHOWN_COLUMNS = 100


class Column(Struct, frozen=True):
    """A column as its engine describes it."""

    name: str
    type: str
    is_number: bool

    @property
    def is_whole(self) -> bool:
        """Return whether its values are whole numbers."""
        return self.is_number and "int" in self.type.lower()

    def to_text(self, name: str, dialect: Dialect) -> str:
        """Return the expression for its values as text, called `name`: 1.50 and 1.5 read the same in both engines."""
        if not self.is_number:
            return f"CAST({name} AS text)"
        if dialect == "postgres":
            return f"CAST(trim_scale(CAST({name} AS numeric)) AS text)"
        return f"rtrim(rtrim(CAST(CAST({name} AS {DECIMALS[dialect]}) AS text), '0'), '.')"


class Relation(Struct, frozen=True):
    """A table, view or file: its name in the engine's SQL, quoted, and its columns."""

    dialect: Dialect
    name: str
    columns: tuple[Column, ...]

    def find(self, name: str) -> Column:
        """Return the column; raises `ToolError` with those that there are."""
        matches = [column for column in self.columns if column.name == name]
        matches = matches or [column for column in self.columns if column.name.lower() == name.strip().lower()]
        if len(matches) != 1:
            columns = [column.name for column in self.columns][:SHOWN_COLUMNS]
            raise ToolError(f"There is no column {name[:80]}.", available_columns=columns)
        return matches[0]


class Query(Struct, frozen=True):
    """A statement and its parameters, which are all text."""

    text: str
    parameters: tuple[str, ...] = ()


class Measure(Struct, frozen=True):
    """An aggregate: a function and its column, None for the number of rows."""

    function: str
    column: Column | None

    @property
    def label(self) -> str:
        """Return the name of its column in a result."""
        return f"{self.function}_{self.column.name}" if self.column else self.function

    def to_sql(self, dialect: Dialect) -> str:
        """Return the expression."""
        if self.column is None:
            return "count(*)"
        name = quote(self.column.name)
        if self.function == "count":
            return f"count({name})"
        return f"{self.function}(CAST({name} AS {DECIMALS[dialect]}))"


def read_measure(text: str, relation: Relation) -> Measure:
    """Return the measure that `amount`, `avg(amount)` or `count` means; a column alone is summed."""
    if text.strip().lower() in {"count", "count(*)", "*"}:
        return Measure("count", None)
    match = MEASURE.fullmatch(text)
    if match is None:
        function, column = "sum", relation.find(text)
    else:
        function, column = match["function"].lower(), relation.find(match["column"].strip().strip('"'))
    if function != "count" and not column.is_number:
        numbers = [column.name for column in relation.columns if column.is_number][:SHOWN_COLUMNS]
        raise ToolError(f"{column.name} is {column.type} and not a number.", number_columns=numbers)
    return Measure(function, column)


def build_aggregate(relation: Relation, measure: Measure, dimensions: Sequence[str], filters: Filters) -> Query:
    """Return the statement for the measure by each combination of the dimensions, the largest first."""
    names = [quote(relation.find(dimension).name) for dimension in dimensions]
    where, parameters = _build_where(relation, filters)
    value = f"{measure.to_sql(relation.dialect)} AS {quote(measure.label)}"
    text = f"SELECT {', '.join([*names, value])} FROM {relation.name}{where}"
    if names:
        places = ", ".join(str(number + 1) for number in range(len(names)))
        text += f" GROUP BY {places} ORDER BY {len(names) + 1} DESC NULLS LAST, {places}"
    return Query(text, parameters)


def build_side(relation: Relation, measure: Measure, keys: Sequence[str], filters: Filters) -> Query:
    """Return the statement for one side of a comparison: columns `k0`, `k1`, … as text, and `value` as decimal."""
    columns = [relation.find(key) for key in keys]
    where, parameters = _build_where(relation, filters)
    groups = ", ".join(f"{quote(column.name)} AS k{at}" for at, column in enumerate(columns))
    value = f"CAST({measure.to_sql(relation.dialect)} AS {DECIMALS[relation.dialect]})"
    places = ", ".join(str(at + 1) for at in range(len(columns)))
    inner = f"SELECT {groups}, {value} AS value FROM {relation.name}{where} GROUP BY {places}"
    keys_as_text = ", ".join(
        f"{column.to_text(f'k{at}', relation.dialect)} AS k{at}" for at, column in enumerate(columns)
    )
    return Query(f"SELECT {keys_as_text}, value FROM ({inner}) AS side", parameters)


def build_example(relation: Relation) -> Query:
    """Return the statement for all columns of the relation."""
    return Query(f"SELECT * FROM {relation.name}")


def quote(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def _build_where(relation: Relation, filters: Filters) -> tuple[str, tuple[str, ...]]:
    parameters: list[str] = []
    conditions = [
        _compare(relation.find(name), operator, value, parameters=parameters)
        for name, condition in filters.items()
        for operator, value in (condition.items() if isinstance(condition, dict) else [("=", condition)])
    ]
    return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), tuple(parameters)


def _compare(column: Column, operator: str, value: Scalar | list[Scalar], *, parameters: list[str]) -> str:
    if isinstance(value, list):
        choices = [_compare(column, "=", choice, parameters=parameters) for choice in value]
        return f"({' OR '.join(choices)})" if choices else "false"
    name = quote(column.name)
    if value is None:
        if operator not in {"=", "!="}:
            raise ToolError(f"null can be compared with = and != only, not with {operator}.")
        return f"{name} IS {'NOT ' if operator == '!=' else ''}NULL"
    if isinstance(value, bool):
        parameters.append("true" if value else "false")
    else:
        parameters.append(clean(value) if isinstance(value, str) else str(Decimal(str(value))))
    parameter = f"CAST(${len(parameters)} AS text)"
    if operator == "contains":
        return f"strpos(lower(CAST({name} AS text)), lower({parameter})) > 0"
    return f"{name} {'<>' if operator == '!=' else operator} CAST({parameter} AS {column.type})"
