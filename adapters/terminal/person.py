"""The person at the terminal: who it is, and where the conversation takes place."""

import os
import pwd

from shared.messages import Place, Sender


def terminal_sender() -> Sender:
    """Return the identity of the person who runs the program: the machine's login name."""
    try:
        login = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        login = f"uid-{os.getuid()}"
    return Sender("terminal", login, login)


def terminal_place(sender: Sender) -> Place:
    """Return the place of a terminal: a direct conversation with this person."""
    return Place("terminal", None, sender.platform_user_id, is_direct=True)
