"""What `parley doctor` looks at, one after the other."""

import resource
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

from adapters.cli.check_database import Installation, check_database
from adapters.cli.check_models import check_models
from adapters.cli.findings import Finding
from adapters.cli.opening import read_settings
from adapters.cli.platforms import examine_platforms
from adapters.cli.skills import examine_folder
from agent.tools.modules import FoundModules, find_modules
from shared.errors import ParleyError
from shared.files.storage import open_storage
from shared.sandbox.pool import Sandbox
from shared.sandbox.programs import REMEDY
from shared.settings import Settings, load_secrets
from shared.settings.home import make_private

LITTLE_SPACE, NO_SPACE = 1_000_000_000, 200_000_000
FEW_FILES = 4096
SECRET_FILES = ("api_token", "secret_key")


async def examine_all(*, call: bool) -> AsyncIterator[Finding]:
    """Yield what is found of everything; `call`: each model is asked, too."""
    try:
        settings = read_settings(quiet=True)
    except ParleyError as error:
        yield Finding("fail", "settings", str(error))
        return
    yield Finding("ok", "settings", f"read; PARLEY_HOME is {settings.parley_home.resolve()}")
    for finding in _look_at_home(settings):
        yield finding
    skills, problems = examine_folder(settings)
    usable = [skill.name for skill in skills if skill.skill is not None]
    modules = find_modules(settings.modules_path, settings)
    installation = Installation(settings, [module.name for module in modules.loaded], usable)
    async for finding in check_database(installation):
        yield finding
    async for finding in _look_at_files(settings):
        yield finding
    for finding in _look_at_modules(modules):
        yield finding
    if usable:
        yield Finding("ok", "skills", f"{len(usable)} in {settings.skills_path}: {', '.join(usable)}")
    for problem in problems:
        yield Finding("warn", "skills", problem)
    async for finding in check_models(settings, installation.found_models, call=call):
        yield finding
    async for name, platform_finding in examine_platforms(settings):
        yield Finding(platform_finding.level, name, platform_finding.text)


def _look_at_home(settings: Settings) -> Iterator[Finding]:
    home = settings.parley_home
    try:
        make_private(home)
        (home / ".doctor").touch()
        (home / ".doctor").unlink()
    except OSError as error:
        yield Finding(
            "fail", "home", f"{home} can't be written ({error.strerror}); set PARLEY_HOME to a folder of yours."
        )
        return
    free = shutil.disk_usage(home).free
    text = f"{free / 1e9:.1f} GB free in {home}"
    if free < NO_SPACE:
        yield Finding("fail", "space", f"{text}; Postgres stops when it is full: make room.")
    else:
        yield Finding("warn" if free < LITTLE_SPACE else "ok", "space", text)
    for path in (home / name for name in SECRET_FILES):
        if not path.exists():
            yield Finding("ok", path.name, "is made at the first start, unless the setting gives it")
        elif (mode := path.stat().st_mode & 0o777) & 0o077:
            yield Finding("warn", path.name, f"others can read it (mode {mode:o}); run: chmod 600 {path}")
        else:
            yield Finding("ok", path.name, f"kept in {path}, mode {mode:o}")


async def _look_at_files(settings: Settings) -> AsyncIterator[Finding]:
    # How many may be open, whether they are stored, and whether it is safe to read them.
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if 0 <= limit < FEW_FILES:
        remedy = f"allow {FEW_FILES} or more (ulimit -Hn, LimitNOFILE= of systemd, ulimits of Docker)"
        yield Finding("warn", "files", f"a process may open {limit} files and connections; {remedy}")
    else:
        number = "any number of" if limit < 0 else limit
        yield Finding("ok", "files", f"a process may open {number} files and connections")
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
        yield Finding("fail", "storage", f"{where}: {error} ({remedy})")
    else:
        if came_back == content:
            yield Finding("ok", "storage", f"{where}: written, read and removed")
        else:
            yield Finding("fail", "storage", f"{where}: what was read is not what was written")
    if (fault := await Sandbox().find_fault()) is not None:
        remedy = f"documents, images, recordings and data files are not opened. {REMEDY}."
        yield Finding("fail", "sandbox", f"{fault}; {remedy}")
    else:
        text = "attacks on it fail here; documents, images and other files are opened in it"
        yield Finding("ok", "sandbox", text)


def _look_at_modules(modules: FoundModules) -> Iterator[Finding]:
    off: dict[str, list[str]] = {}
    for module in modules.loaded:
        for tool, reason in module.off.items():
            off.setdefault(reason, []).append(tool)
    count = sum(len(module.tools) for module in modules.loaded)
    active_count = count - sum(map(len, off.values()))
    names = ", ".join(sorted(module.name for module in modules.loaded))
    yield Finding("ok", "modules", f"{active_count} of {count} tools are on, in {names}")
    for reason, tools in off.items():
        yield Finding("off", "tools", f"{', '.join(sorted(tools))}: {reason}")
    for failure in modules.failed:
        yield Finding("warn", "modules", f"{failure.name} ({failure.source}) is off: {failure.reason}")
