"""The bots of an installation, one for each token: each has shards, a pace and an adapter of its own."""

import binascii
from base64 import urlsafe_b64decode
from dataclasses import dataclass, field

from shared.errors import ConfigurationError

FIRST = "discord"


@dataclass(frozen=True, slots=True)
class Bot:
    """A bot. `adapter`: by which its messages come and its replies go; `others`: the user ids of our other bots.

    `adapters` are all by which it sends: as which it had messages before it was the first one, too.
    """

    adapter: str
    token: str = field(repr=False)
    others: frozenset[int] = frozenset()
    adapters: frozenset[str] = frozenset()
    other_adapters: frozenset[str] = frozenset()


def list_bots(tokens: str) -> list[Bot]:
    """Return the bots of tokens that commas separate; raises `ConfigurationError`.

    The first one is `discord`. Each sends by its user id behind that, too, as its token begins with it: neither another
    order nor a new token leaves a reply or a scheduled job to nobody.
    """
    ids = {token: find_user_id(token) for token in (part.strip() for part in tokens.split(",")) if token}
    if tokens and (not ids or any(len(token.split()) > 1 for token in ids)):
        raise ConfigurationError("DISCORD_TOKEN is wrong: it takes tokens with commas between them.")
    bots = []
    for number, (token, user_id) in enumerate(ids.items(), start=1):
        others = [other_id for other, other_id in ids.items() if other != token]
        if number > 1 and user_id is None:
            raise ConfigurationError(f"DISCORD_TOKEN is wrong: number {number} of its tokens is none of Discord's.")
        if user_id is not None and user_id in others:
            raise ConfigurationError(f"DISCORD_TOKEN is wrong: two of its tokens are of the bot {user_id}.")
        other_ids = frozenset(other_id for other_id in others if other_id is not None)
        own, theirs = {to_adapter(user_id)}, {to_adapter(other_id) for other_id in other_ids}
        (own if number == 1 else theirs).add(FIRST)
        adapter = FIRST if number == 1 else to_adapter(user_id)
        bots.append(Bot(adapter, token, other_ids, adapters=frozenset(own), other_adapters=frozenset(theirs)))
    return bots


def to_adapter(user_id: int | None) -> str:
    """Return the adapter of a bot that is not the first one."""
    return FIRST if user_id is None else f"{FIRST}:{user_id}"


def find_user_id(token: str) -> int | None:
    """Return the user id with which a token begins; None if it is none of Discord's."""
    encoded = token.partition(".")[0]
    try:
        digits = urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
    except (binascii.Error, ValueError):
        return None
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) <= 20 else None
