"""The work of `parley backup` and `parley restore`."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from tempfile import TemporaryDirectory

from adapters.cli.console import complain, progress, say
from adapters.cli.database import restore_dump
from adapters.cli.opening import find_database, prepare, read_settings
from adapters.tables import list_schemas
from shared import __version__
from shared.backup.archive import FILES, Archive, BackupError, Manifest, opened
from shared.backup.create import Installation, make_backup
from shared.backup.records import note_backup, note_failure, note_verification
from shared.backup.restore import refuse_newer, refuse_used, restore_database, restore_files, restore_secrets
from shared.db.database import check
from shared.db.embedded.server import find_server
from shared.db.migrations import VERSIONS, list_files, list_revisions
from shared.errors import ConfigurationError, ParleyError
from shared.files.stores import open_store
from shared.settings import Settings, load_secrets

# What `parley dump` writes begins so.
DUMP = b"PGDMP"
# What an installation keeps in its home; an archive has the secrets under these names.
TOKEN, KEY = "api_token", "secret_key"
KEPT = ("postgres", "files", TOKEN, KEY)


def write(file: Path, *, is_live: bool) -> None:
    """Write an archive of the installation that the settings describe."""
    if not file.absolute().parent.is_dir():
        raise BackupError(f"There is no folder {file.absolute().parent}.")
    settings = read_settings(quiet=True)
    address, secrets = find_database(settings), load_secrets(settings)
    path = file.absolute()
    secret_values = {TOKEN: secrets.api_token, KEY: ",".join(secrets.secret_keys)}

    async def work() -> Manifest:
        try:
            async with aclosing(open_store(settings)) as store:
                source = Installation(address, store, secrets=secret_values, version=__version__)
                manifest = await make_backup(source, file, is_live=is_live)
        except ParleyError as error:
            await note_failure(address, path, str(error))
            raise
        await note_backup(address, path, manifest)
        return manifest

    with progress("writing the backup"):
        manifest = asyncio.run(work())
    for key in manifest.missing:
        complain(f"the file {key} is not in the store, and so not in the backup")
    for key in manifest.damaged:
        complain(f"the file {key} is not what was stored: changed or cut in the store; the backup has it as it is")
    say(f"{file}: {file.stat().st_size / 1e6:.1f} MB, {_describe(manifest)}; it holds secrets: keep it safe")


def verify(file: Path) -> None:
    """Restore an archive into a temporary folder with a Postgres of its own, which are removed again."""
    own = read_settings(quiet=True)
    with TemporaryDirectory(prefix="parley-verify-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        try:
            manifest = _restore(
                file, own.model_copy(update={"parley_home": home, "database_url": None, "s3_endpoint": None})
            )
        finally:
            if (home / "postgres").exists():
                find_server(home).detach()
    # Where there is no database yet, none is made for this.
    if own.database_url is not None or (own.parley_home / "postgres").exists():
        asyncio.run(note_verification(find_database(own), manifest))
    say(f"{file} is whole, and could be restored: {_describe(manifest)}")


def restore(file: Path, *, replaces: bool) -> None:
    """Restore an archive into what is new, or a dump into the database of today, which it `replaces`."""
    with file.open("rb") as beginning:
        is_dump = beginning.read(len(DUMP)) == DUMP
    if is_dump:
        restore_dump(file, yes=replaces)
        return
    settings = read_settings(quiet=True)
    names = [name for name in KEPT if (settings.parley_home / name).exists()]
    if names:
        raise ConfigurationError(
            f"PARLEY_HOME: {settings.parley_home} holds {' and '.join(names)} already, and a backup replaces nothing; "
            f"name a new folder: PARLEY_HOME=/new/folder parley restore {file}."
        )
    manifest = _restore(file, settings)
    say(f"restored the backup of {manifest.made_at:%d %B %Y %H:%M} UTC: {_describe(manifest)}; `parley run` starts it")


def _restore(file: Path, settings: Settings) -> Manifest:
    async def work(archive: Archive) -> None:
        address = find_database(settings)
        if not address.is_embedded:
            await check(address)
        await refuse_used(archive.manifest, address)
        is_complete = False
        try:
            await restore_database(archive, address)
            restore_secrets(archive, settings.parley_home)
            async with aclosing(open_store(settings)) as store:
                await restore_files(archive, store, address)
            await prepare(settings, address)
            is_complete = True
        finally:
            if not is_complete:
                complain("the restore has not come to its end: begin again with a new folder, and a new database")

    schemas = list_schemas(settings.modules_path)
    revisions = {owner: [path.name for path in list_files(folder)] for owner, folder in schemas.items()}
    revisions["alembic_version"] = list(list_revisions(VERSIONS))
    with progress("reading the backup"), opened(file) as archive:
        refuse_newer(archive.manifest, revisions)
        asyncio.run(work(archive))
        return archive.manifest


def _describe(manifest: Manifest) -> str:
    files = sum(name.startswith(FILES) for name in manifest.entries)
    return (
        f"{sum(manifest.rows.values()):,} rows in {len(manifest.rows)} tables, {files:,} files, "
        f"{manifest.audit.entries:,} entries in the audit log"
    )
