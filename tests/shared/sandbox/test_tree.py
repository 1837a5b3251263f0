"""What code has made is read and removed by descriptors."""

import os
import subprocess
import sys
from pathlib import Path

from shared.sandbox.job import PROGRAM_FOLDER
from shared.sandbox.tree import read_file, remove, walk


def test_folders_deeper_than_any_path_are_removed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/etc")
    descriptor = os.open(root, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d" * 200, 0o700, dir_fd=descriptor)
        inner = os.open("d" * 200, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor))
    os.close(descriptor)

    assert remove(root)
    assert list(tmp_path.iterdir()) == []


def test_links_pipes_and_files_of_two_names_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("mine")
    (tmp_path / "one").write_text("a")
    (tmp_path / "two").hardlink_to(tmp_path / "one")
    (tmp_path / "link").symlink_to("plain")
    os.mkfifo(tmp_path / "pipe")

    contents = {entry.name: read_file(entry.name, 100, entry.folder) for entry in walk(tmp_path)}

    assert contents == {"plain": b"mine", "one": None, "two": None, "link": None, "pipe": None}
    assert read_file(tmp_path / "plain", 3) is None


def test_a_folder_that_its_owner_can_not_look_into_hides_nothing() -> None:
    code = (
        "import os, sys, tempfile; from pathlib import Path; from shared.sandbox.tree import walk\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:\n"
        "    os.mkdir(root + '/closed', 0o300); open(root + '/closed/file', 'w').close()\n"
        "    print(['/'.join(entry.parts) for entry in walk(Path(root))])"
    )

    ended = subprocess.run([sys.executable, "-c", code], cwd=PROGRAM_FOLDER, capture_output=True, text=True, check=True)

    assert ended.stdout == "['closed', 'closed/file']\n"
