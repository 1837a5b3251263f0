"""The Dockerfile's steps, replayed in a clean folder: there is no engine here, and most of them need none.

Paths of the image begin with the folder; everything else is what the Dockerfile says. What a base image brings is this
machine's: Debian and a Python.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from io import BytesIO
from pathlib import Path
from string import Template

from dockerfile_parse import DockerfileParser

from tests.support.source_tree import ROOT

# They are in the image alone; `python` and the shell are the machine's.
OWN_PATHS = re.compile(r"(?<![\w.])/(?=opt/|var/lib/parley)")
UV = Path(sys.executable).with_name("uv")
INSTALL: list[str | Path] = [UV, "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
# Stands for uv where a script uses it: it leaves there what is in a folder, and then pip finds that nothing is missing.
LEAVING = """#!/bin/sh
for word; do case $word in */bin/python) cp -a {}/. "${{word%/bin/python}}"/lib/python*/site-packages ;; esac; done
exit 1
"""


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction of a Dockerfile, its continued lines joined."""

    word: str
    value: str


@dataclass
class Image:
    """What the steps have left: files below `root`, and how a container of it is started."""

    root: Path
    user: int = 0
    home: Path = Path("/")
    environment: dict[str, str] = field(default_factory=dict)
    command: dict[str, list[str]] = field(default_factory=dict)

    def start(self, command: list[str], **variables: str) -> subprocess.Popen[str]:
        """Start a program as the image's user, in its folder and with its variables."""
        user = self.user if os.getuid() == 0 else None
        environment = self.environment | variables
        return subprocess.Popen(
            [shutil.which(command[0], path=environment["PATH"]) or command[0], *command[1:]],
            cwd=self.home,
            env=environment,
            user=user,
            group=user,
            extra_groups=None if user is None else (),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        running = self.start(command, **variables)
        output, _ = running.communicate(timeout=100)
        return subprocess.CompletedProcess(command, running.returncode, output)


def read_steps() -> list[Step]:
    """Return the instructions of the Dockerfile in their order."""
    parser = DockerfileParser(fileobj=BytesIO((ROOT / "Dockerfile").read_bytes()))
    return [Step(step["instruction"], step["value"]) for step in parser.structure if step["instruction"] != "COMMENT"]


def read_stages() -> list[list[Step]]:
    """Return the instructions of each stage, which begins with FROM."""
    stages: list[list[Step]] = []
    for step in read_steps():
        if step.word == "FROM":
            stages.append([])
        stages[-1].append(step)
    return stages


def find_python() -> str:
    """Return a Python that every user of this machine may run."""
    candidates = [Path(sys.base_prefix, "bin/python3"), Path("/usr/bin/python3")]
    return str(next(path for path in candidates if all(parent.stat().st_mode & 1 for parent in path.resolve().parents)))


def copy_context(target: Path) -> None:
    """Copy what the builder would be sent."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    left_out = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    for name in (line[1:] for line in lines if line.startswith("!")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, target / name)
        else:
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns(*left_out))
    assert not [path for path in target.rglob("*") if any(fnmatch(path.name, pattern) for pattern in left_out)]
    # As somebody has cloned it whose files are closed to others.
    for path in target.rglob("*"):
        path.chmod(0o700 if path.is_dir() or os.access(path, os.X_OK) else 0o600)


class Replay:
    """Carries out one step after another."""

    def __init__(self, folder: Path) -> None:
        self.image = Image(folder / "image")
        self._context, self._code = folder / "context", folder / "code"
        self._folder = Path("/")
        copy_context(self._context)
        machine = folder / "machine"
        machine.mkdir()
        # A virtual environment refers to the Python that made it, so it is this one, under the name that images have.
        (machine / "python").write_text(f'#!/bin/sh\nexec {find_python()} "$@"\n')
        (machine / "python").chmod(0o755)
        (machine / "uv").write_text(LEAVING.format(self._code))
        (machine / "uv").chmod(0o755)
        self._base = {"PATH": f"{machine}:{os.defpath}"}
        # How pip of this machine finds packages; and it may keep what it has fetched.
        pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_") or name == "HOME"}
        # Nothing is said of whether packages are compiled: pip would spend as long on that as on all else.
        self._machine = {**pip, "PIP_NO_CACHE_DIR": "off", "PIP_NO_COMPILE": "off", "UV": str(machine / "uv")}

    def run(self) -> Image:
        """Carry out all steps, and return what they leave."""
        steps: dict[str, Callable[[str], None]] = {
            "FROM": self._from,
            "ENV": self._env,
            "ARG": self._env,
            "COPY": self._copy,
            "RUN": self._run,
            "WORKDIR": self._workdir,
            "USER": self._user,
            "HEALTHCHECK": self._healthcheck,
            "ENTRYPOINT": lambda value: self._command("ENTRYPOINT", value),
            "CMD": lambda value: self._command("CMD", value),
            "EXPOSE": lambda _value: None,
            "VOLUME": lambda _value: None,
        }
        for step in read_steps():
            steps[step.word](step.value)
        return self.image

    def _to_path(self, text: str) -> str:
        return OWN_PATHS.sub(f"{self.image.root}/", text)

    def _from(self, _value: str) -> None:
        self.image.environment = dict(self._base)

    def _env(self, value: str) -> None:
        for pair in shlex.split(value):
            name, _, text = pair.partition("=")
            self.image.environment[name] = Template(self._to_path(text)).safe_substitute(self.image.environment)

    def _copy(self, value: str) -> None:
        *sources, target = value.split()
        folder = Path(self._to_path(target))
        if sources[0] == "--from=build":
            # It stays where it is, and all else that the stage has made is gone.
            assert sources[1:] == [target]
            for path in folder.parent.iterdir():
                if path != folder:
                    shutil.rmtree(path)
            return
        for source in sources:
            path = self._context / source
            if path.is_file():
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, folder)
            else:
                shutil.copytree(path, folder, dirs_exist_ok=True)

    def _run(self, value: str) -> None:
        if value.startswith("useradd"):
            words = shlex.split(self._to_path(value))
            self.image.home = Path(words[words.index("--home-dir") + 1])
            self.image.home.mkdir(parents=True)
            if os.getuid() == 0:
                os.chown(self.image.home, *[int(words[words.index("--uid") + 1])] * 2)
            return
        environment = self.image.environment | self._machine
        self._prepare(value)
        command = ["/bin/sh", "-c", self._to_path(value)]
        done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{value}\n{done.stdout}\n{done.stderr}"

    def _prepare(self, value: str) -> None:
        # pip takes a minute to unpack what uv links from its cache in seconds; then it finds that nothing is missing.
        environment = self.image.root / "opt/parley/venv"
        for lock in re.findall(r"-r (\S+/requirements[\w-]*\.lock)", value):
            if environment.is_dir() and "--python" not in value and "/opt/sbom" not in value:
                subprocess.run([*INSTALL, "--python", environment, "-r", self._to_path(lock)], check=True)
                (environment / ".lock").unlink(missing_ok=True)
        if "code-environment" in value:
            lock = ROOT / "requirements-code.lock"
            subprocess.run([*INSTALL, "--python", find_python(), "--target", self._code, "-r", lock], check=True)
            # What was compiled from a file of the same time and size need not be compiled again.
            (compiled,) = Path(sys.prefix, "code/lib").glob("python*/site-packages")
            for path in compiled.rglob("*.pyc"):
                target = self._code / path.relative_to(compiled)
                if target.parent.parent.is_dir():
                    target.parent.mkdir(exist_ok=True)
                    shutil.copy2(path, target)
            (self._code / ".lock").unlink(missing_ok=True)

    def _workdir(self, value: str) -> None:
        self.image.home = Path(self._to_path(value))

    def _user(self, value: str) -> None:
        self.image.user = int(value)

    def _healthcheck(self, value: str) -> None:
        self._command("HEALTHCHECK", value.partition(" CMD ")[2])

    def _command(self, word: str, value: str) -> None:
        self.image.command[word] = json.loads(value)
