"""`parley doctor`: checks everything that has to be in order, with a remedy for each failure."""

import asyncio
import resource
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from adapters.cli.console import say
from adapters.cli.models import describe_models, describe_recall, is_offline
from shared.errors import ParleyError

if TYPE_CHECKING:
    from shared.db.database import Address
    from shared.settings import Settings

app = typer.Typer()

Level = Literal["ok", "warn", "fail"]
LITTLE_SPACE, NO_SPACE = 1_000_000_000, 200_000_000
FEW_FILES = 4096
SECRET_FILES = ("api_token", "secret_key")
COLOURS = {"ok": typer.colors.GREEN, "warn": typer.colors.YELLOW, "fail": typer.colors.RED}


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    subject: str
    text: str


@app.command("doctor")
def examine(
    call: bool = typer.Option(False, "--call", help="Also ask the first model one tiny question, which costs tokens."),
) -> None:
    """Check that everything is in order: each line says OK or what to do; exit code 1 when something fails."""
    levels = []
    for finding in asyncio.run(_collect(call)):
        levels.append(finding.level)
        say(f"{typer.style(f'{finding.level:4}', COLOURS[finding.level])}  {finding.subject:9} {finding.text}")
    raise typer.Exit(1 if "fail" in levels else 0)


async def _collect(call: bool) -> list[Finding]:
    from adapters.cli.opening import read_settings
    from adapters.cli.skills import examine_folder

    try:
        settings = read_settings(quiet=True)
    except ParleyError as error:
        return [Finding("fail", "settings", str(error))]
    found = [Finding("ok", "settings", f"read; PARLEY_HOME is {settings.parley_home.resolve()}")]
    found += _look_at_home(settings)
    skills, problems = examine_folder(settings)
    usable = [each.name for each in skills if each.skill is not None]
    found += [each async for each in _look_at_database(settings, usable)]
    found.append(_look_at_open_files())
    found.append(await _look_at_storage(settings))
    found += _look_at_modules(settings)
    if usable:
        found.append(Finding("ok", "skills", f"{len(usable)} in {settings.skills_path}: {', '.join(usable)}"))
    found += [Finding("warn", "skills", problem) for problem in problems]
    found += _look_at_models(settings)
    found += [each async for each in _look_at_platforms(settings)]
    if call:
        found.append(await _call_model(settings))
    return found


def _look_at_home(settings: "Settings") -> Iterator[Finding]:
    home = settings.parley_home
    try:
        home.mkdir(parents=True, exist_ok=True)
        (home / ".doctor").touch()
        (home / ".doctor").unlink()
    except OSError as error:
        yield Finding(
            "fail", "home", f"{home} can't be written ({error.strerror}); set PARLEY_HOME to a folder of yours."
        )
        return
    free = shutil.disk_usage(home).free
    shown = f"{free / 1e9:.1f} GB free in {home}"
    if free < NO_SPACE:
        yield Finding("fail", "space", f"{shown}; Postgres stops when it is full: make room.")
    else:
        yield Finding("warn" if free < LITTLE_SPACE else "ok", "space", shown)
    yield from (_look_at_secret(home / name) for name in SECRET_FILES)


def _look_at_open_files() -> Finding:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= limit < FEW_FILES:
        remedy = f"allow {FEW_FILES} or more (ulimit -Hn, LimitNOFILE= of systemd, ulimits of Docker)"
        return Finding("warn", "files", f"a process may open {limit} files and connections; {remedy}")
    return Finding("ok", "files", f"a process may open {'any number of' if limit < 0 else limit} files and connections")


def _look_at_secret(path: Path) -> Finding:
    if not path.exists():
        return Finding("ok", path.name, "is made at the first start, unless the setting gives it")
    mode = path.stat().st_mode & 0o777
    if mode & 0o077:
        return Finding("warn", path.name, f"others can read it (mode {mode:o}); run: chmod 600 {path}")
    return Finding("ok", path.name, f"kept in {path}, mode {mode:o}")


async def _look_at_database(settings: "Settings", usable_skills: Sequence[str]) -> AsyncIterator[Finding]:
    from adapters.cli.opening import find_database
    from shared.db.compatibility import list_revisions
    from shared.db.database import VERSIONS, check, find_revision, newest_revision

    try:
        address = find_database(settings)
        await check(address)
    except ParleyError as error:
        yield Finding("fail", "database", str(error))
        return
    kind = "embedded" if address.is_embedded else "given by DATABASE_URL"
    yield Finding("ok", "database", f"{kind}, {await _describe_server(address)}")
    revision, newest = await find_revision(address), newest_revision()
    if revision == newest:
        yield Finding("ok", "tables", f"at revision {revision}")
        if settings.embedding_model is not None:
            yield await _look_at_vectors(address, settings.embedding_model)
        async for finding in _look_at_listed_skills(address, usable_skills):
            yield finding
        yield await _look_at_audit(address)
        yield await _look_at_roles(address)
        yield await _look_at_ledger(address)
    elif revision is None:
        yield Finding("warn", "tables", "not made yet; `parley migrate` or the next start makes them")
    elif revision in list_revisions(VERSIONS):
        yield Finding("warn", "tables", f"at revision {revision}, the newest is {newest}; run: parley migrate")
    else:
        text = f"at revision {revision}, newer than this program ({newest}); install the newer Parley again."
        yield Finding("fail", "tables", text)


async def _look_at_vectors(address: "Address", model: str) -> Finding:
    from shared.db.database import Database
    from shared.memory.vectors import read_progress

    database = Database(address, pool_size=1)
    try:
        progress = await read_progress(database, model)
    finally:
        await database.close()
    text = f"{progress.memories - progress.missing:,} of {progress.memories:,} memories have vectors of {model}"
    return Finding("ok", "vectors", f"{text}; the workers make the others" if progress.missing else text)


async def _look_at_audit(address: "Address") -> Finding:
    import asyncpg

    connection = await asyncpg.connect(timeout=10, **address.asyncpg_arguments(as_owner=True))
    try:
        found = await connection.fetchrow("SELECT entries, first_broken FROM parley_verify_audit_v1()")
    finally:
        await connection.close()
    if found["first_broken"] is None:
        return Finding("ok", "audit", f"changes by admins: {found['entries']:,}, none of them altered since")
    text = f"entry {found['first_broken']} of audit_log was altered, or the one before it removed; compare a backup"
    return Finding("fail", "audit", text)


async def _look_at_roles(address: "Address") -> Finding:
    import asyncpg

    from shared.db.roles import ROLES, check_roles

    connection = await asyncpg.connect(timeout=10, **address.asyncpg_arguments(as_owner=True))
    try:
        await check_roles(connection)
    except ParleyError as error:
        return Finding("fail", "roles", str(error))
    finally:
        await connection.close()
    return Finding("ok", "roles", f"{', '.join(ROLES)}, none of them a superuser")


async def _look_at_ledger(address: "Address") -> Finding:
    import asyncpg

    connection = await asyncpg.connect(timeout=10, **address.asyncpg_arguments(as_owner=True))
    try:
        calls = await connection.fetchval("SELECT count(*) FROM token_logs")
        different = await connection.fetchval("SELECT count(*) FROM parley_budget_differences_v1()")
    finally:
        await connection.close()
    if different:
        text = (
            f"counters that differ from it: {different:,}; `parley budget check` shows them, `… reconcile` repairs them"
        )
        return Finding("warn", "ledger", text)
    return Finding("ok", "ledger", f"calls: {calls:,}; what limits have counted is their sum")


async def _describe_server(address: "Address") -> str:
    import asyncpg

    connection = await asyncpg.connect(timeout=10, **address.asyncpg_arguments(as_owner=True))
    try:
        version = await connection.fetchval("SHOW server_version")
        vector = await connection.fetchval("SELECT default_version FROM pg_available_extensions WHERE name = 'vector'")
    finally:
        await connection.close()
    return f"Postgres {version}, pgvector {vector}"


async def _look_at_storage(settings: "Settings") -> Finding:
    from shared.files.storage import open_storage
    from shared.settings import load_secrets

    where = f"S3 at {settings.s3_endpoint}, bucket {settings.s3_bucket}" if settings.s3_endpoint else "a folder"
    key, content = "doctor/check", b"Parley was here."
    try:
        storage = open_storage(settings, load_secrets(settings))
        async with aclosing(storage):
            await storage.put(key, content, "text/plain")
            came_back = b"".join([chunk async for chunk in storage.get(key)])
            await storage.delete(key)
    except (ParleyError, OSError) as error:
        remedy = "check S3_ENDPOINT, S3_ACCESS_KEY and S3_SECRET_KEY" if settings.s3_endpoint else "check PARLEY_HOME"
        return Finding("fail", "storage", f"{where}: {error} ({remedy})")
    if came_back != content:
        return Finding("fail", "storage", f"{where}: what was read is not what was written")
    return Finding("ok", "storage", f"{where}: written, read and removed")


def _look_at_modules(settings: "Settings") -> Iterator[Finding]:
    from agent.tools.modules import find_modules

    found = find_modules(settings.modules_path, settings)
    count = sum(len(each.tools) for each in found.loaded)
    yield Finding("ok", "modules", f"{count} tools in {', '.join(sorted(each.name for each in found.loaded))}")
    for each in found.failed:
        yield Finding("warn", "modules", f"{each.name} ({each.source}) is off: {each.reason}")
    for reason in (each.off.get("code_executor.load_file") for each in found.loaded if each.name == "code_executor"):
        if reason is None:
            yield Finding("ok", "code", "runs in the sandbox, which has passed its test")
        else:
            yield Finding("warn", "code", f"only small code runs, without files and libraries: {reason}")


async def _look_at_listed_skills(address: "Address", usable_skills: Sequence[str]) -> AsyncIterator[Finding]:
    from sqlalchemy import select

    from adapters.cli.skills import find_listed
    from shared.db.database import Database
    from shared.models import Skill

    database = Database(address, pool_size=1)
    try:
        async with database.transaction() as session:
            listed = await find_listed(session)
            stored = set((await session.scalars(select(Skill.name).where(Skill.is_enabled))).all())
    finally:
        await database.close()
    for name in sorted(listed.keys() - stored - set(usable_skills)):
        yield Finding("warn", "skills", f"{', '.join(listed[name])} lists {name}, which is missing or off")


def _look_at_models(settings: "Settings") -> Iterator[Finding]:
    if is_offline(settings):
        text = f"{describe_models(settings)}; set LLM_MODELS and the provider's key for a real one"
        yield Finding("warn", "models", text)
    else:
        yield Finding("ok", "models", describe_models(settings))
    is_complete, text = describe_recall(settings)
    yield Finding("ok" if is_complete else "warn", "recall", text)


async def _look_at_platforms(settings: "Settings") -> AsyncIterator[Finding]:
    from adapters.cli.platforms import examine_platforms

    async for name, finding in examine_platforms(settings):
        yield Finding(finding.level, name, finding.text)


async def _call_model(settings: "Settings") -> Finding:
    from agent.llm.completions import ModelRequest
    from agent.llm.router import Router
    from shared.clock import SystemClock

    clock = SystemClock()
    question = {"role": "user", "content": "Answer with the one word: ready"}
    try:
        async with aclosing(Router(settings, clock)) as router:
            request = ModelRequest(messages=(question,), tools=(), max_tokens=16)
            completion = await router.complete(request, deadline=clock.monotonic() + 60)
    except ParleyError as error:
        return Finding("fail", "call", f"{error} (the log above names the cause of each model)")
    return Finding("ok", "call", f"{completion.model} answered with {completion.usage.total} tokens")
