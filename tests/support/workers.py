"""A plugin of pytest that starts the processes of pytest-xdist as forks of one that has collected the tests.

It mixes the files of all folders, because tests that wait stand together otherwise, and leave the processors idle.
Imports and the rewriting of assertions cost a process ten seconds of the processor, a fork next to nothing.
`python -m tests.support.workers NUMBER ARGUMENT...` is that one: it collects what pytest finds with these arguments.
"""

import gc
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from importlib import import_module
from operator import itemgetter
from zlib import crc32

import pytest

# What takes seconds to start; each is shared by tests of one process.
SHARING = ("browser", "homeserver")
LONG = "long"
# `tests.support.forks` is imported late: pytest cannot rewrite the plugins that it would import before.


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Name the command that starts a process, after pytest-xdist has counted them."""
    from tests.support.folders import TEMPLATE, temporary_folder
    from tests.support.forks import LOADED, Forks, get_command

    if config.option.tx:
        template = ExitStack()
        os.environ[TEMPLATE] = str(template.enter_context(temporary_folder("template")))
        config.add_cleanup(template.close)
        forks = Forks(__name__, *config.invocation_params.args)
        config.add_cleanup(forks.close)
        os.environ[LOADED] = forks.path
        command = " ".join(get_command(__name__, forks))
        config.option.tx = [f"popen//python={command}" for _ in config.option.tx]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix the files of all folders, in the same way each time, and give each process a part of as many tests.

    Files with a browser, and those with a homeserver, are in the part of one process, which starts it once. They and
    tests that take long come in the first half of a part, so that none is the last one and few are passed on.
    """
    files: dict[str, list[pytest.Item]] = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    workers: int = getattr(config, "workerinput", {}).get("workercount", 1)
    parts: list[list[tuple[float, list[pytest.Item]]]] = [[] for _ in range(workers)]
    sizes = [0] * len(parts)
    groups = {name: find_group(name, tests) for name, tests in files.items()}
    for name in sorted(files, key=lambda name: (groups[name] is None, -len(files[name]))):
        group, place = groups[name], crc32(name.encode()) / 2**32
        part = sizes.index(min(sizes)) if group is None or group == LONG else SHARING.index(group) % len(parts)
        parts[part].append((place if group is None else place / 2, files[name]))
        sizes[part] += len(files[name])
    items[:] = [item for part in parts for _, tests in sorted(part, key=itemgetter(0)) for item in tests]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Spare what is imported by now the collection of garbage at the end of pytest, which takes two seconds."""
    if session.config.option.collectonly:
        gc.freeze()


def find_group(name: str, tests: Sequence[pytest.Item]) -> str | None:
    """Return what a file of tests shares with others, or that it takes long; None of most."""
    if any("chromium" in getattr(test, "fixturenames", ()) for test in tests):
        return "browser"
    if name.startswith(("tests/adapters/contract/", "tests/adapters/matrix/")):
        return "homeserver"
    return LONG if any(test.get_closest_marker("timeout") for test in tests) else None


def main() -> None:
    """Run what the distributing process sends, as `python -c` does."""
    exec(sys.argv[-1], {"__name__": "__main__"})  # noqa: S102


def serve_workers(listener: socket.socket, arguments: list[str]) -> None:
    """Collect the tests, import what they start, and fork a process for each connection."""
    gc.disable()
    pytest.main([*arguments, "--numprocesses=0", "--collect-only", "-qq"])
    # What is not written by now would be what each fork writes first.
    sys.stdout.flush()
    from shared.settings import prepare_litellm_environment
    from tests.support.forks import get_forks, serve
    from tests.support.template import make_template

    prepare_litellm_environment()
    import_litellm()
    make_template()
    # All of them start programs in one process.
    get_forks()
    if "tests.test_style" in sys.modules:
        # Ten files of tests go through the whole source, and to read it takes a process three seconds and 230 MB.
        for source in import_module("tests.support.source_tree").sources():
            source.nodes()
    gc.enable()
    serve(listener)


def import_litellm() -> None:
    """Import litellm, and what its first call imports; that is made in a fork, for its threads would survive none."""
    import_module("litellm")
    reader, writer = os.pipe()
    if not os.fork():
        try:
            before = set(sys.modules)
            import_module("agent.llm.providers.library").import_litellm()
            os.write(writer, " ".join(sys.modules.keys() - before).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as names:  # noqa: PTH123  # no path, but a pipe
        for name in names.read().split():
            with suppress(ImportError):
                import_module(name)
    os.wait()


if __name__ == "__main__":
    serve_workers(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
