"""A plugin of pytest that starts the processes of pytest-xdist as forks of one that has collected the tests.

Imports and the rewriting of assertions cost a process ten seconds of the processor, a fork next to nothing.
`python -m tests.support.workers NUMBER ARGUMENT...` is that one: it collects what pytest finds with these arguments.
"""

import gc
import os
import socket
import sys
from contextlib import ExitStack
from importlib import import_module

import pytest

# `tests.support.forks` is imported late: pytest cannot rewrite the plugins that it would import before.


def pytest_cmdline_main(config: pytest.Config) -> None:
    """Name the command that starts a process, after pytest-xdist has counted them."""
    from tests.support.folders import TEMPLATE, temporary_folder
    from tests.support.forks import Forks, get_command

    if config.option.tx:
        template = ExitStack()
        os.environ[TEMPLATE] = str(template.enter_context(temporary_folder("template")))
        config.add_cleanup(template.close)
        forks = Forks(__name__, *config.invocation_params.args)
        config.add_cleanup(forks.close)
        command = " ".join(get_command(__name__, forks))
        config.option.tx = [f"popen//python={command}" for _ in config.option.tx]


def main() -> None:
    """Run what the distributing process sends, as `python -c` does."""
    exec(sys.argv[-1], {"__name__": "__main__"})  # noqa: S102


def serve_workers(listener: socket.socket, arguments: list[str]) -> None:
    """Collect the tests, import what they start, and fork a process for each connection."""
    gc.disable()
    pytest.main([*arguments, "--numprocesses=0", "--collect-only", "-qq"])
    from shared.settings import prepare_litellm_environment
    from tests.support.forks import get_forks, serve
    from tests.support.template import make_template

    prepare_litellm_environment()
    # Without the call that warms it up, which starts threads: they would not survive a fork.
    import_module("litellm")
    make_template()
    # All of them start programs in one process.
    get_forks()
    if "tests.test_style" in sys.modules:
        # Ten files of tests go through the whole source, and to read it takes a process three seconds and 230 MB.
        for source in import_module("tests.support.source_tree").sources():
            source.nodes()
    gc.enable()
    serve(listener)


if __name__ == "__main__":
    serve_workers(socket.socket(fileno=int(sys.argv[1])), sys.argv[2:])
