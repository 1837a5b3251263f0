"""Counts a turn's SQL statements in the server's log."""

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import asyncpg

from adapters.tables import update_tables
from shared.db.database import Address
from shared.db.hosts import URL
from tests.support.connections import connected, run_as_owner

RECORD = re.compile(r"^parley-bench\|(\d+)\|([^|]*)\|LOG:  (?:statement|execute [^:]*): (.*)")
# Statements that only begin or end a transaction or set the caller.
FRAME = re.compile(r"^\s*(BEGIN|COMMIT|ROLLBACK|SELECT set_config|SET LOCAL)", re.IGNORECASE)
LOGGING = {"log_statement": "'all'", "log_line_prefix": "'parley-bench|%p|%a|'", "log_parameter_max_length": "0"}
# A transaction's statements show whether it belongs to the queue or a tool; all others belong to the turn.
KINDS = {
    "accept": "parley_accept",
    "queue": "parley_take_jobs",
    "jobs": "parley_finish_jobs",
    "answer": "FROM inbox LEFT JOIN turns",
    "sweep": "UPDATE workers",
    "look": "AS tasks",
    "tool": "parley_list_memories",
    "listen": "LISTEN",
    # In the background, for many turns at once.
    "remember": "SELECT turn_id FROM unremembered_turns ORDER BY",
    "summarise": "SET summary_claimed_until = clock_timestamp()",
    "index": "parley_unindexed_memories",
    "embed": "parley_claim_vectors",
    "prices": "FROM model_prices",
}


def socket_folder(home: Path) -> str:
    """Return the folder of the socket of the Postgres in this folder."""
    return (home / "postgres" / "postmaster.pid").read_text().splitlines()[4]


def address_of(home: Path, database: str = "postgres") -> Address:
    """Return the address of a database of the Postgres in this folder."""
    url = URL(username="postgres", database=database, query={"host": socket_folder(home)})
    return Address(url, is_embedded=True)


async def new_database(home: Path, name: str) -> Address:
    """Create a separate database with tables, because Parley's worker would take the turns in its own."""
    await run_as_owner(address_of(home), f"CREATE DATABASE {name}")
    address = address_of(home, name)
    await update_tables(address)
    return address


@dataclass(frozen=True, slots=True)
class Transaction:
    """The statements of one transaction, without BEGIN, COMMIT and the like."""

    application: str
    statements: tuple[str, ...]

    @property
    def kind(self) -> str:
        """Return its purpose: the queue's, or one of ours."""
        whole = "\n".join(self.statements)
        return next((kind for kind, word in KINDS.items() if word in whole), "turn")


@asynccontextmanager
async def counted(home: Path) -> AsyncIterator[list[Transaction]]:
    """Yield a list that has the transactions of the block after its end."""
    log = home / "postgres" / "log"
    transactions: list[Transaction] = []
    async with connected(address_of(home)) as owner:
        try:
            for name, value in LOGGING.items():
                await owner.execute(f"ALTER SYSTEM SET {name} = {value}")
            begins = await _reload(owner, log, "begin-of-count")
            yield transactions
            ends = await _reload(owner, log, "end-of-count")
            transactions += _transactions(_records(_lines(log, begins, ends)))
        finally:
            for name in LOGGING:
                await owner.execute(f"ALTER SYSTEM RESET {name}")
            await owner.execute("SELECT pg_reload_conf()")


async def _reload(owner: asyncpg.Connection, log: Path, marker: str) -> int:
    """Wait until the settings are active; return the position in the log."""
    await owner.execute("SELECT pg_reload_conf()")
    while True:
        await owner.execute("SELECT pg_sleep(0.2)")
        before = _size(log)
        await owner.execute(f"SELECT '{marker}'")
        if _size(log) > before:
            return before


def _size(log: Path) -> int:
    return log.stat().st_size


def _lines(log: Path, begins: int, ends: int) -> list[str]:
    with log.open("rb") as file:
        file.seek(begins)
        return file.read(ends - begins).decode(errors="replace").splitlines()


def _records(lines: Iterable[str]) -> Iterable[tuple[str, str, str]]:
    """Yield process, application and statement, with continuation lines joined."""
    fields: list[str] | None = None
    for line in lines:
        if match := RECORD.match(line):
            if fields:
                yield fields[0], fields[1], fields[2]
            fields = list(match.groups())
        elif fields and line.startswith("\t"):
            fields[2] += f"\n{line}"
        elif fields:
            yield fields[0], fields[1], fields[2]
            fields = None
    if fields:
        yield fields[0], fields[1], fields[2]


def _transactions(records: Iterable[tuple[str, str, str]]) -> Iterable[Transaction]:
    is_open: set[str] = set()
    statements: dict[str, list[str]] = defaultdict(list)
    for process, application, statement in records:
        if application == "psql" or "pg_sleep" in statement:
            continue
        if not FRAME.match(statement):
            statements[process].append(statement)
        if statement.startswith("BEGIN"):
            is_open.add(process)
        elif statement.startswith(("COMMIT", "ROLLBACK")):
            is_open.discard(process)
        if process not in is_open and statements[process]:
            yield Transaction(application, tuple(statements.pop(process)))


@dataclass(frozen=True, slots=True)
class Count:
    """Average statements and transactions of a turn."""

    own: float
    own_transactions: float
    all: float
    all_transactions: float
    by_kind: dict[str, float]


def count(transactions: Iterable[Transaction], turns: int) -> Count:
    """Return the average of this many turns."""
    log = list(transactions)
    own = [transaction for transaction in log if transaction.kind == "turn"]
    by_kind: Counter[str] = Counter()
    for entry in log:
        by_kind[entry.kind] += len(entry.statements)
    return Count(
        own=sum(len(transaction.statements) for transaction in own) / turns,
        own_transactions=len(own) / turns,
        all=sum(len(transaction.statements) for transaction in log) / turns,
        all_transactions=len(log) / turns,
        by_kind={kind: number / turns for kind, number in by_kind.items()},
    )
