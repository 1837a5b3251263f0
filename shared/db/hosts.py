"""Several servers of one database, of which one takes writes: their addresses, and how it is found after a failover."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

import asyncpg
from pydantic import SecretStr

from shared.db.connections import ReadOnlyDatabase, UnfitDatabase
from shared.db.errors import is_lost
from shared.db.history import History, Position, Witness, read_history
from shared.errors import ConfigurationError

# `postgresql://user:password@first:5432,second:5432/database`.
PARTS = re.compile(
    r"(?P<name>[\w+]+)://(?:(?P<username>[^:/]*)(?::(?P<password>[^@]*))?@)?"
    r"(?:\[(?P<ipv6>[^/?@\[\]]+)\]|(?P<host>[^/:?@\[\]]+))?(?::(?P<port>[^/?]*))?(?:/(?P<database>[^?]*))?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
# The names of parts that libpq reads from parameters, too; a password must not stay among those, which are shown.
PARAMETERS = {"username": "user", "password": "password", "database": "dbname"}
AUTHORITY = re.compile(r"^(?P<scheme>[\w+]+://)(?:(?P<login>[^@]*)@)?(?P<hosts>[^/?]*)(?P<rest>.*)$", re.DOTALL)
HOST = re.compile(r"^(?P<name>\[[^\]]*\]|[^:\[\]]*)(?::(?P<port>\d*))?$")
DEFAULT_PORT, LAST_PORT = "5432", 65535
KIND, READ_WRITE = "target_session_attrs", "read-write"
# With these a standby is never taken for the server that takes writes.
WRITABLE_KINDS = (READ_WRITE, "primary")
# How long the server that took writes last is asked alone, and how long others are waited for once one takes writes:
# where the one that was left behind has come back, two do.
LAST_SECONDS, OTHERS_SECONDS = 2.0, 1.0
# How long one that listens may take to tell its history.
LOOK_SECONDS = 4.0
# Nobody may have stopped the server that was left behind: so often the others are asked whether one was promoted.
ASK_SECONDS = 10.0
# Why a host can't be used now; the others are asked.
FAILURES = (OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, UnfitDatabase)
NO_PRIMARY = (
    "DATABASE_URL: no server takes writes ({reasons}); promote one (pg_ctl promote, or by what manages your cluster), "
    "or name the one that does."
)
OTHER_CLUSTER = "it is of another cluster, and no standby of the one that was used before"
LEFT_BEHIND = "it was left behind when another server was promoted (timeline {theirs}, now {ours})"
TWIN = "it and another server were promoted to timeline {ours}; all use the one that was met first, stop the other one"

Host = tuple[str, int]


class InvalidAddress(ValueError):
    """An address can't be read."""


@dataclass(frozen=True, slots=True)
class URL:
    """The address of a database in its parts, without escapes; several values of a parameter are those of hosts."""

    backend: str = "postgresql"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    host: str | None = None
    port: int | None = None
    database: str | None = None
    query: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict, repr=False, hash=False)

    def set(self, **parts: Any) -> "URL":
        """Return the address with other parts."""
        return replace(self, **parts)

    def with_parameters(self, parameters: Mapping[str, str | tuple[str, ...]]) -> "URL":
        """Return the address with these parameters besides its own."""
        return replace(self, query={**self.query, **parameters})

    def to_text(self, *, hide_password: bool = True) -> str:
        """Return the address as it is written."""
        password = "***" if self.password and hide_password else quote(self.password or "", safe="")
        login = f"{quote(self.username or '', safe='')}{':' if password else ''}{password}"
        # Several hosts stand there with their ports.
        is_ipv6 = self.host is not None and ":" in self.host and "," not in self.host
        host = quote(self.host or "", safe=":,")
        port = "" if self.port is None else f":{self.port}"
        database = "" if self.database is None else f"/{quote(self.database, safe='')}"
        # The key of a certificate has a password, too.
        query = {name: "***" if hide_password and name == "sslpassword" else self.query[name] for name in self.query}
        # libpq reads a `+` as a plus sign.
        parameters = urlencode(query, doseq=True, quote_via=quote)
        return (
            f"{self.backend}://{login}{'@' if login else ''}{f'[{host}]' if is_ipv6 else host}{port}{database}"
            f"{'?' if parameters else ''}{parameters}"
        )


def make_url(text: str) -> URL:
    """Return the address that a text is, of one host; raises `ValueError` when it is none."""
    # Nothing may be left over: after a password with an `@` that is not escaped, its end would pass for the host.
    if (match := PARTS.fullmatch(text)) is None or "\0" in unquote(text):
        raise InvalidAddress("it is no address of a database")
    values = parse_qs(match["query"] or "")
    several = {name: tuple(values[name]) for name in ("host", "port") if len(values.get(name, ())) > 1}
    query = {name: texts[-1] for name, texts in values.items()}
    parts = {part: query.pop(name, None) or unquote(match[part] or "") or None for part, name in PARAMETERS.items()}
    host = match["ipv6"] or match["host"]
    port = _read_port(match["port"]) if match["port"] else None
    return URL(match["name"], host=host and unquote(host), port=port, query={**query, **several}, **parts)


def _read_port(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= LAST_PORT):
        raise InvalidAddress("there is no such port")
    return int(text)


@dataclass(frozen=True, slots=True)
class Opened:
    """A connection to a server that takes writes, and the server's history, None where it tells none."""

    connection: asyncpg.Connection
    history: tuple[History, Position] | None

    @property
    def timeline(self) -> int:
        """Return the number of the server's timeline, 0 where it tells none."""
        return 0 if self.history is None else self.history[0].timeline


Open = Callable[[Host | None], Awaitable[asyncpg.Connection]]


def parse_url(text: str) -> URL:
    """Return the URL of a database; several hosts and their ports become its parameters `host` and `port`.

    libpq reads them there. Raises `ValueError` when it is no URL of a database.
    """
    match = AUTHORITY.match(text)
    if match is None or "," not in match["hosts"]:
        url = make_url(text)
        hosts, ports = _read_parameters(url)
        if len(hosts) < 2:
            query = dict(url.query)
            port = query.pop("port", None)
            return url if port is None else url.set(port=_read_port(str(port)), query=query)
    else:
        login = "" if match["login"] is None else f"{match['login']}@"
        url = make_url(f"{match['scheme']}{login}{match['rest'] or '/'}")
        parts = [HOST.match(part) for part in match["hosts"].split(",")]
        hosts = [unquote(part["name"].strip("[]")) if part else "" for part in parts]
        ports = [(part["port"] if part else "") or DEFAULT_PORT for part in parts]
    if not all(hosts) or len(ports) != len(hosts) or not all(map(_read_port, ports)):
        raise InvalidAddress("the hosts and ports can't be read")
    return url.set(host=None, port=None).with_parameters(
        {"host": ",".join(hosts), "port": ",".join(ports), KIND: url.query.get(KIND, READ_WRITE)}
    )


def _read_parameters(url: URL) -> tuple[list[str], list[str]]:
    # libpq's form, host=a,b&port=1,2, and SQLAlchemy's, host=a:1&host=b:2.
    names, ports = url.query.get("host", ()), url.query.get("port", ())
    if not isinstance(names, str):
        pairs = [part.partition(":") for part in names]
        return [name for name, _, _ in pairs], [port or DEFAULT_PORT for _, _, port in pairs]
    hosts, several = names.split(","), (ports if isinstance(ports, str) else ",".join(ports)).split(",")
    return hosts, [port or DEFAULT_PORT for port in (several * len(hosts) if len(several) == 1 else several)]


def list_hosts(url: URL) -> tuple[Host, ...]:
    """Return the hosts of a URL that names several of them; empty for one that names one, or a socket."""
    names, ports = url.query.get("host", ""), url.query.get("port", "")
    if not isinstance(names, str) or not isinstance(ports, str) or "," not in names or not ports:
        return ()
    return tuple((name, int(port)) for name, port in zip(names.split(","), ports.split(","), strict=True))


def write_libpq(url: URL, user: str | None, parameters: Mapping[str, str]) -> str:
    """Return the URL as libpq reads it, with this user, and with these parameters where it does not name them."""
    query: dict[str, Any] = {**parameters, **url.query}
    if "ssl" in query:
        query["sslmode"] = query.pop("ssl")
    return url.set(username=user, password=url.password or None, port=url.port or None, query=query).to_text(
        hide_password=False
    )


def check_kind(url: URL, setting: str) -> None:
    """Raise `ConfigurationError` for an address that asks for a standby."""
    kind = url.query.get(KIND, READ_WRITE)
    if kind not in WRITABLE_KINDS and not (kind == "any" and not list_hosts(url)):
        raise ConfigurationError(
            f"{setting}: {KIND}={kind} may lead to a standby, and Parley writes; make it {READ_WRITE}, or leave it out."
        )


def read_url(secret: SecretStr, setting: str) -> URL:
    """Return the URL of the address that this setting has; raises `ConfigurationError` with the remedy."""
    try:
        url = parse_url(secret.get_secret_value())
    except ValueError:
        raise ConfigurationError(
            f"{setting} is not a database address; write postgresql://user:password@host:5432/database."
        ) from None
    backend = url.backend.partition("+")[0]
    if backend not in {"postgresql", "postgres"}:
        raise ConfigurationError(f"{setting} names {backend}; Parley needs postgresql:// (15 or newer).")
    check_kind(url, setting)
    return url.set(backend="postgresql")


@dataclass(slots=True)
class Servers:
    """The servers of one address, for one process: which one took writes last, and what was seen of them.

    `moves` counts how often another one had to be used: connections that were opened before are of no use.
    """

    hosts: tuple[Host, ...] = ()
    last: Host | None = None
    witness: Witness = field(default_factory=Witness)
    moves: int = 0
    _asked_at: float = 0.0

    async def open(self, open_one: Open, *, has_history: bool) -> asyncpg.Connection:
        """Return a connection to the server that takes writes; of two that do, to the one that was promoted last.

        `open_one` opens one to a host, None for an address of one host. Without `has_history` the role may not ask for
        the history. Raises `ReadOnlyDatabase` when a server answers and none takes writes, `OSError` when none answers,
        and what else keeps all of them from being used.
        """
        if not self.hosts:
            try:
                return self._keep(await self._try(open_one, None, has_history))
            except ReadOnlyDatabase as error:
                raise ReadOnlyDatabase(NO_PRIMARY.format(reasons=error)) from None
        if self.last is not None:
            with suppress(*FAILURES):
                async with asyncio.timeout(LAST_SECONDS):
                    return self._keep(await self._try(open_one, self.last, has_history))
        return await self._open_any(open_one, has_history)

    async def look(self, connection: asyncpg.Connection, open_one: Open) -> None:
        """Take note how far the server of an open connection is.

        Raises `ReadOnlyDatabase` when it takes no writes any more, or was left behind.
        """
        if (history := await read_history(connection, LOOK_SECONDS)) is None:
            return
        self._note(*history)
        if self.hosts and monotonic() - self._asked_at >= ASK_SECONDS:
            self._asked_at = monotonic()
            await self._ask_others(history[0], open_one)

    async def _ask_others(self, ours: History, open_one: Open) -> None:
        others = [host for host in self.hosts if host != self.last]
        outcomes = await asyncio.gather(
            *(_open_with_history(open_one, host) for host in others), return_exceptions=True
        )
        newest, where = ours, None
        for host, outcome in zip(others, outcomes, strict=True):
            if isinstance(outcome, Opened):
                outcome.connection.terminate()
                if outcome.history is not None and newest.yields_to(outcome.history[0]):
                    newest, where = outcome.history[0], host
        if where is not None:
            self.last, self.moves = where, self.moves + 1
            cause = LEFT_BEHIND if ours.is_before(newest) else TWIN
            raise ReadOnlyDatabase(cause.format(theirs=ours.timeline, ours=newest.timeline))

    async def list_states(self, open_one: Open) -> list[tuple[str, int | str]]:
        """Return each of several hosts with its timeline if it takes writes, else with the reason why it can't be."""
        tries = [_open_with_history(open_one, host) for host in self.hosts]
        outcomes = await asyncio.gather(*tries, return_exceptions=True)
        states: list[tuple[str, int | str]] = []
        for (name, port), outcome in zip(self.hosts, outcomes, strict=True):
            if isinstance(outcome, Opened):
                outcome.connection.terminate()
            state = outcome.timeline if isinstance(outcome, Opened) else str(outcome) or type(outcome).__name__
            states.append((f"{name}:{port}", state))
        return states

    async def _open_any(self, open_one: Open, has_history: bool) -> asyncpg.Connection:
        tasks = [asyncio.create_task(self._try(open_one, host, has_history)) for host in self.hosts]
        best: Opened | None = None
        outcomes: list[Opened | BaseException] = []
        try:
            await _wait_for_one(tasks)
            outcomes = await _end(tasks)
            best = _choose([outcome for outcome in outcomes if isinstance(outcome, Opened)])
        finally:
            for outcome in outcomes or await _end(tasks):
                if isinstance(outcome, Opened) and outcome is not best:
                    outcome.connection.terminate()
        if best is None:
            raise self._combine([outcome for outcome in outcomes if isinstance(outcome, Exception)])
        self.last = self.hosts[outcomes.index(best)]
        return self._keep(best)

    def _combine(self, errors: Sequence[Exception]) -> Exception:
        reasons = "; ".join(
            f"{name}:{port}: {str(error) or type(error).__name__}"
            for (name, port), error in zip(self.hosts, errors, strict=True)
        )
        if any(isinstance(error, ReadOnlyDatabase) for error in errors):
            return ReadOnlyDatabase(NO_PRIMARY.format(reasons=reasons))
        # What does not pass by itself is told as it is.
        lasting = [error for error in errors if not is_lost(error)]
        return lasting[0] if lasting else ConnectionError(reasons)

    async def _try(self, open_one: Open, host: Host | None, has_history: bool) -> Opened:
        if not has_history:
            return Opened(await open_one(host), None)
        opened, ours = await _open_with_history(open_one, host), self.witness.history
        theirs = None if opened.history is None else opened.history[0]
        if theirs is None or ours is None or not (self._is_other(theirs, ours) or theirs.is_before(ours)):
            return opened
        opened.connection.terminate()
        if self._is_other(theirs, ours):
            raise ReadOnlyDatabase(OTHER_CLUSTER)
        raise ReadOnlyDatabase(LEFT_BEHIND.format(theirs=theirs.timeline, ours=ours.timeline))

    def _is_other(self, theirs: History, ours: History) -> bool:
        # One address may be given to a new cluster while we run, as an upgrade of a provider does.
        return bool(self.hosts) and theirs.system != ours.system

    def _keep(self, opened: Opened) -> asyncpg.Connection:
        if opened.history is not None:
            self._note(*opened.history)
        return opened.connection

    def _note(self, history: History, position: Position) -> None:
        self.moves += self.witness.history not in {None, history}
        self.witness.note(history, position)


async def _open_with_history(open_one: Open, host: Host | None) -> Opened:
    connection = await open_one(host)
    with ExitStack() as closing:
        closing.callback(connection.terminate)
        history = await read_history(connection)
        closing.pop_all()
    return Opened(connection, history)


def _choose(opened: Sequence[Opened]) -> Opened | None:
    # The first, unless another server of its cluster goes before.
    best = opened[0] if opened else None
    for other in opened[1:]:
        if best and best.history and other.history and best.history[0].yields_to(other.history[0]):
            best = other
    return best


async def _wait_for_one(tasks: Sequence[asyncio.Task[Opened]]) -> None:
    # Until one takes writes; the others get a moment more.
    pending = set(tasks)
    while pending and not any(task.done() and task.exception() is None for task in tasks):
        _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    if pending:
        await asyncio.wait(pending, timeout=OTHERS_SECONDS)


async def _end(tasks: Sequence[asyncio.Task[Opened]]) -> list[Opened | BaseException]:
    for task in tasks:
        task.cancel()
    return await asyncio.gather(*tasks, return_exceptions=True)
