"""Finds the modules: each folder in `modules/` with an `__init__.py`. One that fails to load is off and says so."""

import importlib
import json
import re
from pathlib import Path

from agent.tools.toolbox import Toolbox
from shared.log import get_logger
from shared.tools import Tool

MODULES = Path(__file__).resolve().parents[2] / "modules"
log = get_logger()


WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def discover(result_limit: int, folder: Path = MODULES) -> Toolbox:
    """Import every module in the folder; collect its tools, and its `INSTRUCTIONS` for the system prompt."""
    tools: list[Tool] = []
    failures: dict[str, str] = {}
    instructions: dict[str, str] = {}
    for path in sorted(folder.iterdir()):
        if not (path / "__init__.py").is_file():
            continue
        try:
            module = importlib.import_module(f"{folder.name}.{path.name}")
            found = [each for each in vars(module).values() if isinstance(each, Tool) and each.module == path.name]
            for each in found:
                refuse_unfit(each)
        except Exception as error:
            # Whatever a module raises while it loads: this part is off, the rest serves.
            log.exception("module_failed_to_load", module=path.name)
            failures[path.name] = f"{type(error).__name__}: {error}"
            continue
        tools += found
        instructions[path.name] = str(getattr(module, "INSTRUCTIONS", "")).strip()
    return Toolbox(tools, failures, result_limit, instructions)


def refuse_unfit(tool: Tool) -> None:
    """Raise for a tool that no provider would take: one of them would make every request fail."""
    if not WIRE_NAME.fullmatch(tool.wire_name):
        raise ValueError(f"{tool.wire_name}: a tool's name with its module has at most 64 letters, digits, _ and -")
    if not tool.description:
        raise ValueError(f"{tool.name}: the docstring tells the model what the tool is for, and there is none")
    untyped = [name for name, each in tool.parameters.items() if each.annotation is each.empty]
    if untyped:
        raise ValueError(f"{tool.name}: {', '.join(untyped)} has no type")
    # Rendered now, so that a type that has no schema is found here and not in somebody's turn.
    json.dumps(tool.schema)
