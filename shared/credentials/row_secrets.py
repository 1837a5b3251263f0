"""Environment variables in values of a row: `${MCP_TICKETS_TOKEN}` in a header stands for that variable."""

from collections.abc import Mapping
from string import Template

from shared.errors import Unavailable
from shared.settings import find_named_variable


def filled_in(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the values with each `${NAME}` replaced by that variable.

    Raises `Unavailable` for a variable that is not set or whose name lacks the prefix.
    """
    texts = {}
    for name, value in values.items():
        template = Template(value)
        if not template.is_valid():
            raise Unavailable(f"{name} has a $ that names no variable; write $$ for the sign itself.")
        variables = {}
        for variable in template.get_identifiers():
            # The prefix keeps a row from naming the program's own secrets.
            secret = find_named_variable(variable, prefix)
            if secret is None:
                raise Unavailable(f"{name} names ${{{variable}}}; set it, and let its name begin with {prefix}.")
            variables[variable] = secret
        texts[name] = template.substitute(variables)
    return texts
