"""The checks of `parley doctor` for the database and for what stands in it."""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from datetime import timedelta
from difflib import get_close_matches
from typing import Any

from msgspec import Struct, field
from sqlalchemy import TextClause, select

from adapters.cli.compose import BUILT_IN_MODULES
from adapters.cli.findings import Finding, Level
from adapters.cli.opening import find_database
from adapters.cli.skills import find_listed
from agent.llm.completions import Cause
from agent.llm.cooldowns import REMEDIES, to_cause_line
from agent.queue.heartbeats import LiveWorkers
from shared.backup.records import LAST_BACKUPS, judge
from shared.clock import SystemClock
from shared.db.connections import Server
from shared.db.database import Address, Database, check
from shared.db.driver import to_sql
from shared.db.history import Loss
from shared.db.migrations import EARLIER, VERSIONS, find_revision, is_earlier, list_revisions, newest_revision
from shared.db.pooling.room import find_shortage
from shared.db.roles import ROLES, check_roles
from shared.db.statements import load_statements
from shared.errors import FileDamaged, FileLost, ParleyError, Unavailable
from shared.files.storage import open_storage
from shared.files.stored_file import StoredContent
from shared.memory.vectors import read_progress
from shared.models import Skill
from shared.settings import Settings, load_secrets

statements = load_statements(__file__)

CONNECT_SECONDS = 10
MOST_SECONDS_APART = 2.0

# A reply that is younger may be on its way.
WAITS_SECONDS = 60
MOST_BYTES = 200 * 1024 * 1024


class Installation(Struct):
    """What other checks need to know of the database; `found_models` are those of personas, with their names."""

    settings: Settings
    modules: Sequence[str]
    skills: Sequence[str]
    found_models: list[tuple[str, str]] = field(default_factory=list)


async def check_database(installation: Installation) -> AsyncIterator[Finding]:
    """Yield the findings about the database, its tables, and what admins have written into them."""
    try:
        address = find_database(installation.settings)
        postgres = await check(address)
    except ParleyError as error:
        yield Finding("fail", "database", str(error))
        return
    async for finding in _check_server(address, postgres):
        yield finding
    if (shortage := find_shortage(postgres, installation.settings.count_workers())) is not None:
        yield Finding("warn", "database", shortage)
    revision, newest = await find_revision(address), newest_revision()
    if revision == newest:
        yield Finding("ok", "tables", f"at revision {revision}")
        yield await _look_at_workers(address, installation.settings)
        for check_part in (check_servers, check_bus, _check_work, _check_choices, _find_scripts, _check_records):
            async for finding in check_part(address, installation):
                yield finding
    elif revision is None:
        yield Finding("warn", "tables", "not made yet; `parley migrate` or the next start makes them")
    elif revision in list_revisions(VERSIONS):
        yield Finding("warn", "tables", f"at revision {revision}, the newest is {newest}; run: parley migrate")
    elif is_earlier(revision, list_revisions(VERSIONS)):
        yield Finding("fail", "tables", EARLIER.format(revision=revision))
    else:
        text = f"at revision {revision}, newer than this program ({newest}); install the newer Parley again."
        yield Finding("fail", "tables", text)


async def _check_server(address: Address, postgres: Server) -> AsyncIterator[Finding]:
    kind = "embedded" if address.is_embedded else "given by DATABASE_URL"
    before = SystemClock().now()
    server = (await _fetch(address, statements.read_server, as_owner=True))[0]
    yield Finding("ok", "database", f"{kind}, {postgres}")
    after, now = SystemClock().now(), server["now"]
    if server["installed"] is not None:
        yield Finding("ok", "extension", f"pgvector {server['installed']}")
    elif server["available"] is not None:
        text = f"pgvector {server['available']} is there; the first migration installs it"
        yield Finding("ok", "extension", text)
    else:
        text = "this Postgres has no pgvector; on Debian: apt-get install postgresql-NN-pgvector"
        yield Finding("fail", "extension", text)
    apart = max((before - now).total_seconds(), (now - after).total_seconds(), 0.0)
    if apart > MOST_SECONDS_APART:
        text = f"this machine and the database are {apart:.0f} s apart; let NTP set both (timedatectl set-ntp true)"
        yield Finding("warn", "clock", text)
    else:
        yield Finding("ok", "clock", f"{after:%Y-%m-%d %H:%M:%S} UTC, as the database has it")


async def check_servers(address: Address, _installation: Installation) -> AsyncIterator[Finding]:
    """Yield the findings about the servers of an address with several, and about what failovers have lost."""
    states = await address.list_states()
    writable = [(host, state) for host, state in states if isinstance(state, int)]
    if len(writable) > 1:
        names = " and ".join(f"{host} (timeline {timeline})" for host, timeline in writable)
        text = f"several servers take writes: {names}; stop those that were left behind, before anybody writes to them"
        yield Finding("fail", "servers", text)
    elif states:
        names = "; ".join(f"{host}: {'takes writes' if isinstance(state, int) else state}" for host, state in states)
        yield Finding("ok", "servers", names)
    for row in await _fetch(address, statements.read_last_history):
        if row["histories"] > 1:
            loss = Loss(**{name: row[name] for name in Loss.__struct_fields__})
            level: Level = "warn" if loss.may_be and row["is_recent"] else "ok"
            yield Finding(level, "failover", str(loss))


async def _look_at_files(address: Address, settings: Settings) -> Finding:
    # The newest: reading all of them may take hours, and `parley backup` does.
    rows = await _fetch(address, statements.list_newest_files, MOST_BYTES, as_owner=True)
    storage, wrong = open_storage(settings, load_secrets(settings)), []
    async with aclosing(storage):
        for row in rows:
            try:
                await anext(storage.read(StoredContent(row["minio_key"], row["filename"], row["sha256"])), b"")
            except (FileLost, FileDamaged) as error:
                wrong.append(f"{row['id']} ({error.code})")
            except Unavailable as error:
                return Finding("warn", "contents", f"the newest files can't be compared with their checksums: {error}")
    if wrong:
        remedy = "take them from a backup, or ask their people to send them again"
        return Finding("fail", "contents", f"files that are not as they were stored: {', '.join(wrong)}; {remedy}")
    return Finding("ok", "contents", f"the newest {len(rows)} files are as they were stored")


async def _look_at_workers(address: Address, settings: Settings) -> Finding:
    database = Database(address, pool_size=1)
    try:
        async with database.transaction() as session:
            live = await LiveWorkers().count(session, SystemClock().monotonic())
    finally:
        await database.close()
    # Those of a given database may be started elsewhere, in any number.
    count = settings.count_workers() if address.is_embedded else live
    if not live:
        return Finding("ok", "workers", "none runs now; messages wait until `parley run` or `parley worker` does")
    if live < count:
        cause = "the log of `parley run` says why (worker_ended)"
        return Finding("warn", "workers", f"{live} of {count} run; {cause}")
    return Finding("ok", "workers", f"{live} run")


async def _check_work(address: Address, installation: Installation) -> AsyncIterator[Finding]:
    # Whether the program can do what waits for it.
    role = (await _fetch(address, statements.read_role))[0]
    roles = Finding(
        "ok", "roles", f"{', '.join(ROLES)}, none of them a superuser; row-level security binds the program"
    )
    if role["sees_all"]:
        roles = Finding(
            "fail",
            "roles",
            f"the program works as {role['name']}, which row-level security does not bind; it has to be parley_app",
        )
    else:
        connection = await address.connect(as_owner=True)
        try:
            await check_roles(connection)
        except ParleyError as error:
            roles = Finding("fail", "roles", str(error))
        finally:
            await connection.close()
    yield roles
    for row in await _fetch(address, statements.list_waiting_replies, as_owner=True):
        verb = "waits" if row["replies"] == 1 else "wait"
        backlog = f"{row['replies']} {verb} for {row['adapter']}, the oldest for {timedelta(seconds=int(row['age']))}"
        if row["age"] <= WAITS_SECONDS:
            yield Finding("ok", "replies", backlog)
        else:
            cause = (row["cause"] or "no worker that serves it runs").removesuffix(".")
            yield Finding("warn", "replies", f"{backlog}: {cause}; they are sent when it is back")
    if (model := installation.settings.embedding_model) is not None:
        database = Database(address, pool_size=1)
        try:
            progress = await read_progress(database, model)
        finally:
            await database.close()
        text = f"{progress.memories - progress.missing:,} of {progress.memories:,} memories have vectors of {model}"
        yield Finding("ok", "vectors", f"{text}; the workers make the others" if progress.missing else text)


async def _find_scripts(address: Address, _installation: Installation) -> AsyncIterator[Finding]:
    for agent in await _fetch(address, statements.list_scripted_agents, as_owner=True):
        remedy = "to end that, take DEBUG_MOCK_RESPONSES out of agents.env"
        text = f"the agent {agent['name']} answers by a script, not by a model; {remedy}"
        yield Finding("warn", "agents", text)


def _look_at_server(server: Any) -> Finding:
    name = f"the {server['kind']} {server['name']}"
    if not server["enabled"]:
        return Finding("off", "remote", f"{name} is switched off")
    if server["last_error"] is not None:
        return Finding("warn", "remote", f"{name} can't be used: {' '.join(server['last_error'].split())}")
    if not server["was_reached"]:
        return Finding("warn", "remote", f"{name} has not been reached yet; a worker does that")
    if server["held_back"]:
        return Finding("warn", "remote", f"{name} has {server['held_back']} tools that wait for mcp_tools.approved")
    return Finding("ok", "remote", f"{name} was reached")


async def _check_choices(address: Address, installation: Installation) -> AsyncIterator[Finding]:
    # What admins have written: skills, servers and agents elsewhere, personas.
    database = Database(address, pool_size=1)
    try:
        async with database.transaction() as session:
            personas_by_skill = await find_listed(session)
            rows = set((await session.scalars(select(Skill.name).where(Skill.is_enabled))).all())
    finally:
        await database.close()
    for name in sorted(personas_by_skill.keys() - rows - set(installation.skills)):
        yield Finding("warn", "skills", f"{', '.join(personas_by_skill[name])} lists {name}, which is missing or off")
    yield await _look_at_files(address, installation.settings)
    servers = await _fetch(address, statements.list_servers, as_owner=True)
    for server in servers:
        yield _look_at_server(server)
    modules = {*installation.modules, *(server["name"] for server in servers), *BUILT_IN_MODULES}
    personas = await _fetch(address, statements.list_personas, as_owner=True)
    installation.found_models += [
        (f"the persona {persona['name']}", persona["default_model"]) for persona in personas if persona["default_model"]
    ]
    for persona in personas:
        for name in sorted({*json.loads(persona["allowed_modules"] or "[]")} - modules):
            nearest = get_close_matches(name, modules, n=1, cutoff=0.0)[0]
            text = f"{persona['name']} allows the module {name}, which does not exist; did you mean {nearest}?"
            yield Finding("warn", "persona", text)


async def check_bus(address: Address, installation: Installation) -> AsyncIterator[Finding]:
    """Yield whether the NATS server is there, if one is named."""
    settings = installation.settings
    if not settings.list_bus_servers():
        return
    # An extra.
    from agent.live.nats_bus import FAILURES, connect, describe, find_prefix, leave

    subjects = f"{find_prefix(address, load_secrets(settings).secret_keys)}.>"
    try:
        client = await connect(settings)
    except FAILURES as error:
        text = f"no NATS server takes us ({error}); processes tell each other by Postgres meanwhile. Check BUS_URL"
        yield Finding("warn", "bus", text)
        return
    yield Finding("ok", "bus", f"{describe(client)}, subjects {subjects}")
    await leave(client)


async def _check_records(address: Address, _installation: Installation) -> AsyncIterator[Finding]:
    # Whether the audit log, the backups, the ledger and the last calls of models tell of trouble.
    audit = (await _fetch(address, statements.verify_audit, as_owner=True))[0]
    if audit["first_broken"] is None:
        yield Finding("ok", "audit", f"changes by admins: {audit['entries']:,}, none of them altered since")
    else:
        text = f"entry {audit['first_broken']} of audit_log was altered, or the one before it removed; compare a backup"
        yield Finding("fail", "audit", text)
    last = await _fetch(address, LAST_BACKUPS, as_owner=True)
    level, text = judge(last[0] if last else None)
    yield Finding(level, "backups", text)
    ledger = (await _fetch(address, statements.compare_ledger, as_owner=True))[0]
    if ledger["different"]:
        text = f"different: {ledger['different']:,}; `parley budget check` shows them, and reconcile repairs"
        yield Finding("warn", "ledger", text)
    else:
        yield Finding("ok", "ledger", f"calls: {ledger['calls']:,}; what limits have counted is their sum")
    for route in await _fetch(
        address, statements.list_failing_models, [model_cause.value for model_cause in REMEDIES], as_owner=True
    ):
        sentence = to_cause_line(route["model"], Cause(route["cause"]))
        yield Finding("fail", "model", f"at {route['last_at']:%H:%M} UTC: {sentence}")


async def _fetch(address: Address, statement: TextClause, *parameters: Any, as_owner: bool = False) -> Sequence[Any]:
    connection = await address.connect(as_owner=as_owner)
    try:
        rows: Sequence[Any] = await connection.fetch(to_sql(statement), *parameters)
    finally:
        await connection.close()
    return rows
