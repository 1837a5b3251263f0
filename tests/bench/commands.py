"""`python -m tests.bench.commands` prints what each command costs beside a running Parley: the processor's seconds.

What it starts counts, too, such as pg_dump, but not what Postgres and the worker do for it. What is `alone` has no
worker beside it.
"""

import os
import shlex
import statistics
import subprocess
import sys

from tests.adapters.cli.shell import PARLEY, Shell
from tests.bench.figures import Figure, report
from tests.support.folders import temporary_folder

# What each command is called with; `{n}` is another number each time. What stands before a `;` prepares the call and
# isn't measured. Of what runs until it is stopped, or asks a person, the help is measured.
CALLS = {
    "run": "run --help",
    "worker": "worker --help",
    "adapter": "adapter --help",
    "link": "link",
    "chat": "chat",
    "ask": "ask hello",
    "migrate": "migrate",
    "psql": "psql -c 'SELECT 1'",
    "dump": "dump {n}.dump",
    "backup": "backup {n}.backup --live",
    "setup": "setup --help",
    "doctor": "doctor",
    "version": "version",
    "tools": "tools",
    "explain": "explain 1",
    "mcp": "mcp --help",
    "export": "export --kubernetes",
    "apply": "apply persona.yaml --dry-run",
    "operator": "operator --help",
    "verify-receipt": "verify-receipt receipt.json",
    "completion": "completion bash",
    "user list": "user list",
    "user show": "user show web:zoe",
    "user promote": "user promote web:p{n} user --new",
    "user set-budget": "user set-budget web:b{n} 1000 --new",
    "user pause": "user set-budget web:a{n} 1000 --new; user pause web:a{n}",
    "user resume": "user set-budget web:r{n} 1000 --new; user pause web:r{n}; user resume web:r{n}",
    "user link": "user link web:zoe web:other{n}",
    "user export": "user export web:zoe",
    "user erase": "user set-budget web:e{n} 1000 --new; user erase web:e{n} --yes",
    "grant list": "grant list",
    "grant add": "grant add web:zoe admin",
    "grant remove": "grant add web:zoe admin; grant remove web:zoe",
    "budget show": "budget show web:zoe",
    "budget set": "budget set web:zoe 1000",
    "budget list": "budget list",
    "budget check": "budget check",
    "budget reconcile": "budget reconcile",
    "persona list": "persona list",
    "persona show": "persona show Cook",
    "persona edit": "persona edit Cook",
    "persona create": "persona create Cook{n} --prompt 'You cook {n}.'",
    "persona delete": "persona create Old{n} --prompt 'You cook.'; persona delete Old{n} --yes",
    "persona set-default": "persona set-default none",
    "persona history": "persona history Cook",
    "persona diff": "persona diff Cook 1 1",
    "persona rollback": "persona rollback Cook 1",
    "persona dry-run": "persona dry-run Cook --turns 1 --as web:zoe --yes",
    "token create": "token create web:zoe",
    "token list": "token list",
    "token revoke": "token create web:zoe; token revoke {n}",
    "audit list": "audit list",
    "audit undo": "audit undo {n}",
    "audit verify": "audit verify",
    "server list": "server list",
    "server prepare": "server prepare",
    "server move": "server move discord 1 --to 1",
    "skill list": "skill list",
    "skill show": "skill show greet",
    "skill add": "skill add SKILL.md --replace",
    "skill remove": "skill add SKILL.md --replace; skill remove greet",
    "slack manifest": "slack manifest",
    "slack rotate-keys": "slack rotate-keys",
}
# With no Parley beside them they start Postgres, and who asks is the worker, too.
ALONE = {
    "ask alone": "ask hello",
    "chat alone": "chat hello",
    "restore alone": "dump {n}.old; restore {n}.old --yes",
}

# The promise: doctor asks all others, and a restore starts programs of Postgres.
USUAL = 0.4
BY_NAME = {"doctor": 2.0, "restore alone": 2.0}
SKILL = "---\nname: greet\ndescription: Greets people.\n---\nSay hello.\n"
PERSONA = """
apiVersion: parley.chat/v1alpha1
kind: Persona
metadata: {name: librarian}
spec: {name: Librarian, instructions: You know every book.}
"""
PREPARATION = (
    "user set-budget web:zoe 1000 --new",
    "persona create Cook --prompt 'You cook.'",
    "grant add web:zoe admin",
    "skill add SKILL.md",
    "ask hello",
)


def call(shell: Shell, line: str) -> tuple[float, int]:
    """Return the seconds of the processor that a command has taken, with what it has started, and its exit code."""
    process = subprocess.Popen(  # our own program
        [PARLEY, *shlex.split(line)],
        cwd=shell.folder,
        env=shell.environment(EDITOR="true"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, process.returncode


def measure(shell: Shell, name: str, runs: int) -> Figure:
    """Return the median of a command's runs; the exit code stands behind the name of one that refuses here."""
    seconds, code = [], 0
    for number in range(1, runs + 1):
        *before, last = (CALLS | ALONE)[name].replace("{n}", str(number)).split(";")
        for line in before:
            call(shell, line)
        cost, code = call(shell, last)
        seconds.append(cost)
    marked = f"{name} (exit code {code})" if code else name
    return Figure(marked, statistics.median(seconds) * 1000, "ms", at_most=BY_NAME.get(name, USUAL) * 1000)


def main() -> None:
    """Measure all commands, or those that are named, ten times each."""
    names, alone = (
        [name for name in calls if not sys.argv[1:] or name.startswith(tuple(sys.argv[1:]))] for calls in (CALLS, ALONE)
    )
    with temporary_folder("commands") as folder:
        shell = Shell(folder, is_warm=False)
        (folder / "SKILL.md").write_text(SKILL, "utf-8")
        (folder / "persona.yaml").write_text(PERSONA, "utf-8")
        with shell.start("worker") as worker:
            assert worker.stdout is not None
            assert "ready" in worker.stdout.readline()
            for line in PREPARATION:
                call(shell, line)
            report([measure(shell, name, 10) for name in names])
            worker.terminate()
            worker.communicate()
            report([measure(shell, name, 10) for name in alone])


if __name__ == "__main__":
    main()
