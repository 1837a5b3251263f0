"""Calls of tools as the toolbox makes them, without a turn."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from agent.tools.calls import parse_arguments
from shared.clock import SystemClock
from shared.db.database import Database
from shared.files.storage import Storage
from shared.files.stores.folder import FolderStore
from shared.http.client import GuardedClient
from shared.messages import Caller, Permission, Place
from shared.settings import Settings
from shared.tools import Tool, ToolContext


@dataclass
class FakeModels:
    """Models that answer with the length of what they are asked; `asked` has the prompts and instructions."""

    asked: list[tuple[str, str]] = field(default_factory=list)

    async def complete(self, prompt: str, *, instructions: str, max_tokens: int, image_id: int | None = None) -> str:
        """Return a summary of a fixed form."""
        self.asked.append((prompt, instructions))
        return f"A summary of {len(prompt)} characters in {max_tokens} tokens."

    async def draw(self, prompt: str, *, model: str, size: str, tokens: int) -> bytes:
        """Return no image."""
        return b""


def bare_context(module: str, **overrides: Any) -> ToolContext:
    """Return the context of a guest's call, for tools that use nothing of it but what is given."""
    names = ("clock", "http", "storage", "memory", "database")
    fields = {
        **dict.fromkeys(names),
        "user": Caller(1, Permission.GUEST, "Ann"),
        "place": Place("test", None, "direct", is_direct=True),
        "conversation_id": 1,
        "turn_id": 1,
        "call_id": "call-1",
        "module": module,
        "app_settings": Settings(),
    }
    return ToolContext(**{**fields, **overrides})


def context_without_database(folder: Path, module: str, http: GuardedClient, **overrides: Any) -> ToolContext:
    """Return a context for tools that neither use the database nor read stored files; `given` replaces its fields."""
    storage = Storage(FolderStore(folder / "files"), "http://here", ("secret",))
    fields: dict[str, Any] = {
        "user": Caller(1, Permission.USER, "Ada"),
        "clock": SystemClock(),
        "http": http,
        "storage": storage.of_user(cast(Database, None), 1, None),
    }
    return bare_context(module, **fields | overrides)


async def call(tool: Tool, context: ToolContext, **arguments: Any) -> Any:
    """Call a tool as the toolbox does: check the arguments, convert the result to JSON."""
    return json.loads(json.dumps(await tool.run(context, **parse_arguments(tool, arguments)), allow_nan=False))


@contextmanager
def variables(**environment: str) -> Iterator[None]:
    """Set these environment variables for the block."""
    os.environ.update(environment)
    try:
        yield
    finally:
        for name in environment:
            del os.environ[name]
