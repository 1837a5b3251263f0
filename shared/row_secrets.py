"""Secrets that a row names instead of holding them: `${MCP_TICKETS_TOKEN}` in a header stands for that variable."""

from collections.abc import Mapping
from string import Template

from shared.errors import Unavailable
from shared.settings import find_named_variable


def filled_in(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return values with each `${NAME}` exchanged for that variable; raises `Unavailable` for one that can't be."""
    return {name: _fill_in(name, value, prefix) for name, value in values.items()}


def _fill_in(name: str, value: str, prefix: str) -> str:
    written = Template(value)
    if not written.is_valid():
        raise Unavailable(f"{name} has a $ that names no variable; write $$ for the sign itself.")
    variables = {each: _find(name, each, prefix) for each in written.get_identifiers()}
    return written.substitute(variables)


def _find(name: str, variable: str, prefix: str) -> str:
    # Only such names, so that a row can't send our own secrets away.
    found = find_named_variable(variable, prefix)
    if found is None:
        raise Unavailable(f"{name} names ${{{variable}}}; set it, and let its name begin with {prefix}.")
    return found
