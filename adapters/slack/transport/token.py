"""A bot's token, as commands of the terminal need it that don't call Slack."""

from msgspec import Struct
from pydantic import SecretStr


class Token(Struct, frozen=True):
    """A bot token of one workspace, and the bot's ids there.

    `is_home`: it is our own workspace, whose members have bare ids; members of others are `T…:U…`, because Slack's ids
    are unique per workspace only.
    """

    secret: SecretStr
    team_id: str
    bot_user_id: str
    bot_id: str | None = None
    team_name: str | None = None
    is_home: bool = False
