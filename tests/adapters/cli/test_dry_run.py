"""`parley persona dry-run` as an operator types it, beside a running Parley and alone."""

import json

from tests.adapters.cli.shell import Shell
from tests.adapters.cli.test_running import running_parley

OURS, THEIRS = {"DEBUG_MOCK_RESPONSES": '["Cake."]'}, {"DEBUG_MOCK_RESPONSES": '["Soup."]'}
DRY_RUN = ("persona", "dry-run", "Cook", "--yes")


def test_a_running_parley_plays_the_dry_run_and_without_one_the_command_does(shell: Shell) -> None:
    shell.says("persona", "create", "Cook", "--prompt", "You cook.")
    with running_parley(shell, "run", until="Ctrl+C stops it", PORT="0", **THEIRS) as (parley, _):
        shell.says("ask", "--persona", "Cook", "dinner?")
        beside = json.loads(shell.says(*DRY_RUN, "--json", **OURS))
        refusal = shell.run(*DRY_RUN, "--turns", "999", **OURS)
        rows = shell.says("psql", "--superuser", "-At", "-c", "SELECT count(*) FROM dry_runs")
        parley.terminate()
        parley.communicate()
    alone = json.loads(shell.says(*DRY_RUN, "--json", **OURS))

    assert [(turn["message"], turn["then"]["text"], turn["now"]["text"]) for turn in beside] == [
        ("dinner?", "Soup.", "Soup.")
    ]
    assert refusal.code == 1
    assert refusal.err.startswith("parley: These turns can't be answered again: 999. There must be an answer")
    assert rows.strip() == "0"
    assert [turn["now"]["text"] for turn in alone] == ["Cake."]
