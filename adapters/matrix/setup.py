"""What `parley setup` asks for Matrix."""

import re
from collections.abc import Mapping
from pathlib import Path

from shared.settings import Settings

TITLE = "Matrix"
QUESTIONS: Mapping[str, str] = {
    "MATRIX_HOMESERVER": "the address of the homeserver",
    "MATRIX_TOKEN": "the account's access token",
}
OWNER = "Who is its owner there? The whole account, which clients show below your name."
OWNER_ID, EXAMPLE_ID = re.compile(r"@[^\s:]+:\S+"), "@ann:example.org"


def introduce(settings: Settings, folder: Path) -> str:  # the signature is that of every platform
    """Return what to do before the questions."""
    return (
        "Matrix: register an account for the agent at a homeserver, with any client.\n"
        "`parley matrix login` asks for its password, and prints the token; the password is kept nowhere."
    )
