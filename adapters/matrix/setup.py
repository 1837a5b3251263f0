"""What `parley setup` asks for Matrix."""

import re
from collections.abc import Mapping

TITLE = "Matrix"
QUESTIONS: Mapping[str, str] = {
    "MATRIX_HOMESERVER": "the address of the homeserver",
    "MATRIX_TOKEN": "the account's access token",
}
OWNER = "Who is its owner there? The whole account, which clients show below your name."
OWNER_ID, EXAMPLE_ID = re.compile(r"@[^\s:]+:\S+"), "@ann:example.org"
INTRODUCTION = (
    "Matrix: register an account for the agent at a homeserver, with any client.\n"
    "`parley matrix login` asks for its password, and prints the token; the password is kept nowhere."
)
