"""The bots of an installation, one for each token: each has shards, a pace and an adapter of its own."""

import binascii
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.errors import ConfigurationError

FIRST = "discord"


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot. `adapter`: by which its messages come and its replies go.

    `others`: the user ids of our other bots by their adapters; 0 where a token does not tell it.
    """

    adapter: str
    token: str = field(repr=False)
    others: Mapping[str, int] = field(default_factory=dict)


def list_bots(tokens: str) -> list[Bot]:
    """Return the bots of tokens that commas separate; raises `ConfigurationError`.

    The first one is `discord`. A further one has its user id behind that, as its token begins with it: neither another
    order nor a new token leaves a reply or a scheduled job to nobody.
    """
    ids = {token: find_user_id(token) for token in (part.strip() for part in tokens.split(",")) if token}
    adapters: dict[str, str] = {}
    for number, (token, user_id) in enumerate(ids.items(), start=1):
        if number > 1 and user_id is None:
            raise ConfigurationError(f"DISCORD_TOKEN is wrong: number {number} of its tokens is none of Discord's.")
        if user_id is not None and list(ids.values()).count(user_id) > 1:
            raise ConfigurationError(f"DISCORD_TOKEN is wrong: two of its tokens are of the bot {user_id}.")
        adapters[FIRST if number == 1 else f"{FIRST}:{user_id}"] = token
    return [
        Bot(adapter, token, {other: ids[adapters[other]] or 0 for other in adapters if other != adapter})
        for adapter, token in adapters.items()
    ]


def find_user_id(token: str) -> int | None:
    """Return the user id with which a token begins; None if it is none of Discord's."""
    encoded = token.partition(".")[0]
    try:
        digits = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 20 else None
