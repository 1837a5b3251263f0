"""The signal on which a program begins again ends it in good order or not at all, whenever it comes."""

import subprocess
import sys
from pathlib import Path

from tests.support.source_tree import ROOT

PROGRAM = """
import os, signal, sys
from pathlib import Path
from adapters.cli.restart import Restart
from adapters.cli.watchdog import end_within

def ask():
    os.kill(os.getpid(), signal.SIGUSR1)

sys.argv[0], folder = sys.argv[1], Path.cwd()
restart = Restart(os.environ)
os.environ["TRIED"] = "and dropped"
ask()
with restart.offered(folder):
    ask()
    signal.signal(signal.SIGTERM, lambda *_: print("stops", flush=True))
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    ask()
    os.chdir(folder)
    ask()
    ask()
# The main thread hangs.
end_within(0.0, 0, restart.end)
signal.pause()
"""
AGAIN = """
import os, sys
print("begins again", sys.argv[1:], os.environ.get("TRIED"))
"""


def test_a_signal_comes_at_any_time_and_a_program_that_hangs_begins_again(tmp_path: Path) -> None:
    again = tmp_path / "again.py"
    again.write_text(AGAIN)

    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(again)],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.stdout.splitlines() == ["stops", "begins again ['run', '--older-process'] None"], ended.stderr
    assert "goes on with the settings of before: [Errno 2]" in ended.stderr
    assert ended.returncode == 0
