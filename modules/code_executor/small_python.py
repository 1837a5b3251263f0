"""Runs small code in pydantic-monty, an interpreter without files, network or libraries, in the sandbox."""

import asyncio
import re
import sysconfig
from pathlib import Path

from msgspec import Struct

from shared.sandbox.job import MEGABYTE, Limits
from shared.sandbox.programs import confine_binary

SECONDS = 1.0
# The limit above counts what the code computes, not what it waits for.
WAIT_SECONDS = 3.0
MEMORY_BYTES = 32 * MEGABYTE
# Of the process, the interpreter included: where its own limits fail.
LIMITS = Limits(memory_bytes=256 * MEGABYTE, cpu_seconds=3, file_bytes=0, open_files=16, tasks=8)
BINARY = Path(sysconfig.get_path("scripts")) / "monty"
MAX_PRINTED_BYTES = 64 * 1024
MAX_CHARS = 20_000
LIBRARIES = frozenset({"datetime", "json", "math", "re"})
IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+)([^\n#;]*)", re.MULTILINE)
# What only the other interpreter has: files, people's own environment, code made from text.
OTHERS = re.compile(r"\b(?:open|input|exec|eval|compile|globals|locals|__\w+__)\b|\bimport\b.*;|;.*\bimport\b")


class SmallResult(Struct, frozen=True):
    """What was printed, and the value of the expression at the end as Python writes it."""

    output: str


class NotSmall(Exception):
    """The code needs the other interpreter, or failed here; whether it is wrong, that one tells."""


def is_small(code: str) -> bool:
    """Tell whether it is worth trying: no other libraries, no files."""
    if len(code) > MAX_CHARS or OTHERS.search(code):
        return False
    # "import json, os" names more than the first.
    return all(name in LIBRARIES and "," not in more.partition("import")[0] for name, more in IMPORT.findall(code))


async def run_small(code: str) -> SmallResult:
    """Run the code in a process of its own, which ends with this call; raises `NotSmall` for whatever fails."""
    # Imported here: a list of the tools takes a fiftieth less of the processor without it.
    from pydantic_monty import AsyncMonty, CollectString, MontyError, ResourceLimits

    printed = CollectString(MAX_PRINTED_BYTES)
    limits = ResourceLimits(max_feed_duration_secs=SECONDS, max_memory=MEMORY_BYTES)
    try:
        with confine_binary(BINARY, LIMITS) as command:
            async with (
                asyncio.timeout(WAIT_SECONDS),
                AsyncMonty(binary_path=command, max_processes=1, request_timeout=WAIT_SECONDS) as pool,
                pool.checkout(limits=limits) as session,
            ):
                value = await session.feed_run(code, print_callback=printed)
        text = "" if value is None else f"{await asyncio.to_thread(repr, value)}\n"
    except (MontyError, TimeoutError, OSError, ValueError, RecursionError, MemoryError) as error:
        raise NotSmall(f"{type(error).__name__}: {error}") from None
    if "Monty" in text:
        # An object of the code's own class: only Python itself writes it as its class says.
        raise NotSmall("The value at the end is an object of a class; print what should be shown.")
    return SmallResult(printed.output + text)
