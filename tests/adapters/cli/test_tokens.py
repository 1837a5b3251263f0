"""`parley token`: tokens for the API that speak for one person."""

import re

from tests.adapters.cli.shell import Shell


def test_a_token_is_made_listed_and_revoked(shell: Shell) -> None:
    creation = shell.says(
        "token", "create", "discord:tess", "--new", "--scopes", "read", "--expires", "90d", "--name", "ci"
    )
    listing = shell.says("token", "list")
    (number,) = re.findall(r"^(\d+) +\S+ +ci +read", listing, re.MULTILINE)
    revoked = shell.says("token", "revoke", number)
    again = shell.run("token", "revoke", number)

    assert re.fullmatch(r"parley_[0-9a-f]{64}\n", creation)
    assert creation.strip() not in listing
    assert revoked == f"token {number} is revoked; a new one can be made\n"
    assert (again.code, "that is not revoked" in again.err) == (1, True)
    assert "there is no scope" in shell.run("token", "create", "discord:tess", "--scopes", "all").err
