"""The archive of a backup: damage of any kind is found before anything is restored."""

import zipfile
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.backup.archive import FORMAT, MANIFEST, AuditState, BackupError, Manifest, created, opened

CONTENT = {"database.dump": b"PGDMP" * 100, "files/1/abc/notes.txt": b"notes", "secrets/api_token": b"secret"}


def write(path: Path, content: dict[str, bytes] = CONTENT, *, number: int = FORMAT) -> Path:
    with created(path) as archive:
        for name, value in content.items():
            with archive.entry(name) as sink:
                sink.write(value)
        manifest = Manifest(
            format=number,
            version="0.1.0",
            made_at=datetime(2026, 11, 22, tzinfo=UTC),
            postgres=18,
            revisions={"alembic_version": "0053"},
            roles={"parley_app": True},
            members=[],
            rows={"users": 1},
            audit=AuditState(),
            missing=[],
            entries=archive.entries,
        )
        archive.finish(manifest)
    return path


def test_what_was_written_is_read_and_only_its_owner_may(tmp_path: Path) -> None:
    path = write(tmp_path / "backup.zip")

    assert path.stat().st_mode & 0o777 == 0o600
    with opened(path) as archive:
        assert {name: b"".join(archive.chunks(name)) for name in archive.manifest.entries} == CONTENT
        assert archive.names("files/") == ["1/abc/notes.txt"]
    with pytest.raises(BackupError, match="is there already"):
        write(path)


def test_an_archive_that_could_not_be_finished_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), created(tmp_path / "backup.zip") as archive, archive.entry("database.dump"):
        raise RuntimeError

    assert list(tmp_path.iterdir()) == []


@settings(max_examples=40)
@given(where=st.floats(0, 1, exclude_max=True), is_cut=st.booleans())
def test_a_changed_byte_and_a_cut_are_found(
    tmp_path_factory: pytest.TempPathFactory, where: float, is_cut: bool
) -> None:
    path = write(tmp_path_factory.mktemp("archive") / "backup.zip")
    whole = path.read_bytes()
    at = int(len(whole) * where)
    path.write_bytes(whole[:at] if is_cut else whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])

    # A byte may say nothing about the content, such as that of an entry's time.
    with suppress(BackupError), opened(path) as archive:
        assert {name: b"".join(archive.chunks(name)) for name in archive.manifest.entries} == CONTENT
        assert not is_cut


def replaced(entries: zipfile.ZipFile) -> None:
    entries.writestr("database.dump", b"PGDMP of somebody else")


def extended(entries: zipfile.ZipFile) -> None:
    entries.writestr("files/2/def/more.txt", b"more")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("change", [replaced, extended])
def test_an_entry_that_the_manifest_does_not_name_is_refused(
    tmp_path: Path, change: Callable[[zipfile.ZipFile], None]
) -> None:
    path = write(tmp_path / "backup.zip")
    with zipfile.ZipFile(path, "a") as entries:
        change(entries)

    with pytest.raises(BackupError, match="damaged"), opened(path):
        pass


def test_an_entry_with_other_content_is_named(tmp_path: Path) -> None:
    path, other = write(tmp_path / "backup.zip"), tmp_path / "other.zip"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"sEcret" if name == "secrets/api_token" else source.read(name))

    with pytest.raises(BackupError, match="secrets/api_token is not what its manifest says"), opened(other):
        pass


@pytest.mark.parametrize("name", ["files/../../etc/passwd", "secrets/../x", "files/", "/root", "postgres/PG_VERSION"])
def test_an_entry_that_leads_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "backup.zip", CONTENT | {name: b""})

    with pytest.raises(BackupError, match="which no backup has"), opened(path):
        pass


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    text, zipped = tmp_path / "text", tmp_path / "zipped"
    text.write_text("hello")
    with zipfile.ZipFile(zipped, "w") as target:
        target.writestr("hello.txt", "hello")

    with pytest.raises(BackupError, match="no backup of Parley"), opened(text):
        pass
    with pytest.raises(BackupError, match=f"it has no manifest|{MANIFEST}"), opened(zipped):
        pass
    newer = write(tmp_path / "new", number=FORMAT + 1)
    with pytest.raises(BackupError, match="a format that this release can't read"), opened(newer):
        pass
