"""The folder of skills, named by `SKILLS_PATH`: read when it is needed, so that changes count at once.

Whatever is wrong with one skill switches that skill off and is reported; nothing outside of a skill's folder is read.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agent.tools.skills.format import SkillText, WrongSkill, is_name, parse_skill

INSTRUCTIONS = "SKILL.md"
MAX_SKILLS = 500
MAX_INSTRUCTIONS_BYTES, MAX_FILE_BYTES = 800_000, 1_000_000
MAX_FILES, MAX_ENTRIES, MAX_DEPTH = 100, 2000, 6


class Examined(Struct, frozen=True):
    """A skill's folder as the operator is told of it. `skill` is None if it is off; `problems` says what is wrong."""

    name: str
    skill: SkillText | None
    problems: tuple[str, ...] = ()


class SkillFolder:
    """The skills in a folder; its methods block, but `find` reads a file only when it has changed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: dict[str, tuple[tuple[int, ...], SkillText | None]] = {}

    def find(self, name: str) -> SkillText | None:
        """Return a skill without its list of files; None if it is missing or can't be used."""
        if not is_name(name):
            return None
        try:
            status = (self.path / name / INSTRUCTIONS).stat()
        except OSError:
            self._known.pop(name, None)
            return None
        # The time of change also tells files apart that were renamed to this place.
        signature = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_size)
        if name not in self._known or self._known[name][0] != signature:
            try:
                skill: SkillText | None = self._parse(name)
            except WrongSkill:
                skill = None
            self._known[name] = (signature, skill)
        return self._known[name][1]

    def read(self, name: str) -> SkillText:
        """Return a skill with the paths of its files; raises `WrongSkill`."""
        skill = self._parse(name)
        return replace(skill, files=self._examine_files(name)[0])

    def read_file(self, name: str, path: str) -> str:
        """Return the text of a skill's file; raises `WrongSkill`."""
        content = self._read(name, path, MAX_FILE_BYTES)
        try:
            return content.decode("utf-8-sig").replace("\x00", "")
        except UnicodeDecodeError:
            raise WrongSkill(f"{path} is no text in UTF-8") from None

    def examine(self) -> Iterator[Examined]:
        """Yield all skills, sorted by name, with what is wrong with each; raises `WrongSkill` for the folder itself."""
        try:
            with os.scandir(self.path) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith("."))
        except OSError as error:
            raise WrongSkill(f"{self.path} can't be read ({error.strerror})") from None
        if len(names) > MAX_SKILLS:
            raise WrongSkill(f"{self.path} has {len(names):,} folders; {MAX_SKILLS} skills may be")
        for name in names:
            try:
                skill = self._parse(name)
                files, problems = self._examine_files(name)
            except WrongSkill as error:
                yield Examined(name, None, (str(error),))
            else:
                yield Examined(name, replace(skill, files=files), problems)

    def _parse(self, name: str) -> SkillText:
        if not is_name(name):
            raise WrongSkill("a skill's folder is named with a-z, 0-9 and single hyphens between them")
        content = self._read(name, INSTRUCTIONS, MAX_INSTRUCTIONS_BYTES)
        try:
            skill = parse_skill(content.decode("utf-8"))
        except UnicodeDecodeError:
            raise WrongSkill(f"{INSTRUCTIONS} is no text in UTF-8") from None
        if skill.name != name:
            raise WrongSkill(f"its name is {skill.name}, its folder's is not: they have to be the same")
        return skill

    def _read(self, name: str, path: str, most: int) -> bytes:
        home = self._resolve_home(name)
        try:
            target = (home / path).resolve(strict=True)
            if not target.is_relative_to(home):
                raise WrongSkill(f"{path} leads out of the skill's folder")
            # Not blocking, because opening a pipe would wait for a writer.
            descriptor = os.open(target, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise WrongSkill(f"{path} is no file")
                content = file.read(most + 1)
        except (OSError, ValueError, RuntimeError) as error:
            raise WrongSkill(f"{path} can't be read ({getattr(error, 'strerror', None) or 'wrong path'})") from None
        if len(content) > most:
            raise WrongSkill(f"{path} has more than {most:,} bytes")
        return content

    def _resolve_home(self, name: str) -> Path:
        if not is_name(name):
            raise WrongSkill(f"there is no folder {name[:64]!r}")
        try:
            root, home = self.path.resolve(strict=True), (self.path / name).resolve(strict=True)
        except (OSError, RuntimeError):
            raise WrongSkill("its folder can't be read") from None
        if home.parent != root:
            raise WrongSkill("its folder is a link that leads somewhere else")
        return home

    def _examine_files(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the paths of the files that can be read, and what is wrong with others; looks at a bounded number."""
        home = self._resolve_home(name)
        files: list[str] = []
        problems: list[str] = []
        for count, (path, is_link) in enumerate(_walk(home)):
            if count >= MAX_ENTRIES or len(files) >= MAX_FILES:
                problems.append(f"it has more than {MAX_FILES} files or {MAX_ENTRIES:,} entries; others are left out")
                break
            relative_path = path.relative_to(home).as_posix()
            try:
                leads_out = is_link and not path.resolve(strict=True).is_relative_to(home)
                status = None if leads_out else path.stat()
            except (OSError, RuntimeError):
                problems.append(f"{relative_path} can't be read")
                continue
            if status is None:
                problems.append(f"{relative_path} leads out of the skill's folder")
            elif status.st_size > MAX_FILE_BYTES:
                problems.append(f"{relative_path} has more than {MAX_FILE_BYTES:,} bytes")
            elif stat.S_ISREG(status.st_mode) and relative_path != INSTRUCTIONS:
                files.append(relative_path)
        return tuple(sorted(files)), tuple(problems)


def _walk(folder: Path, depth: int = 1) -> Iterator[tuple[Path, bool]]:
    # Yields everything but folders, which are entered; links to folders are yielded.
    try:
        entries = os.scandir(folder)
    except OSError:
        return
    with entries:
        children = (entry for entry in entries if not entry.name.startswith(".") and entry.name != "__pycache__")
        for child in children:
            if not child.is_dir(follow_symlinks=False):
                yield Path(child.path), child.is_symlink()
            elif depth < MAX_DEPTH:
                yield from _walk(Path(child.path), depth + 1)
