"""The way a question has come from house to house: how deep it is, and whether it goes round in circles.

Each house that asks another adds itself, and each of its agents through whom the question went. The way is part of the
place, as its thread, so that it stands wherever the place stands: with the inbox row and the context of every tool.
"""

import hashlib
import hmac
import re
from collections.abc import Sequence

from agent.delegation.agents import MAX_DEPTH
from shared.errors import Refusal
from shared.messages import Place
from shared.settings import Secrets

# What marks a channel as the context of another agent's question, and stands before its id.
CHANNEL = "a2a:"
ARROW = ">"
# Among the names of our own agents, it marks a house that a question came by.
AT = "@"
HOP = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,79}")

Hops = tuple[str, ...]


class GoesInCircles(Refusal):
    """This question has been here before ({way}); it is not taken up again."""

    code = "delegation_cycle"


class TooDeep(Refusal):
    """This question has been passed on {passed} times ({way}); {most} is the most."""

    code = "delegation_depth"


def house_id(secrets: Secrets) -> str:
    """Return what other houses know this one by: the same in each of its processes, and no hint at the secret."""
    return _signed(secrets, "house")


def person_id(secrets: Secrets, user_id: int) -> str:
    """Return what other houses know a person by: always the same one, and nobody there can tell who."""
    return f"{house_id(secrets)}/{_signed(secrets, f'person {user_id}')}"


def is_hop(value: object) -> bool:
    """Tell whether a value can stand in a trail."""
    return isinstance(value, str) and HOP.fullmatch(value) is not None


def house_of(hop: str) -> str:
    """Return the house of a stop, which may be one of its agents."""
    return hop.partition("/")[0]


def check_hops(hops: Hops, house: str) -> None:
    """Raise the `Refusal` that ends a question which comes back to this house, or has come through too many."""
    way = " → ".join((*hops, house))
    if house in map(house_of, hops):
        raise GoesInCircles(way=way)
    if len(hops) > MAX_DEPTH:
        raise TooDeep(way=way, passed=len(hops), most=MAX_DEPTH)


def to_place(platform: str, context_id: str, hops: Hops, *, is_direct: bool) -> Place:
    """Return the place of another agent's context."""
    return Place(platform, None, f"{CHANNEL}{context_id}", ARROW.join(hops) or None, is_direct)


def inbound_hops(place: Place) -> Hops:
    """Return by which houses a question came, each marked as one; empty for what a person wrote here."""
    if place.thread is None or not place.channel.startswith(CHANNEL):
        return ()
    return tuple(AT + hop for hop in place.thread.split(ARROW))


def outbound_hops(way: Sequence[str], house: str) -> list[str]:
    """Return the trail that goes with a question to another house.

    `way` is what `inbound_hops` gave and the names of our own agents through whom the question went since.
    """
    came_by = [hop.removeprefix(AT) for hop in way if hop.startswith(AT)]
    return [*came_by, house, *(f"{house}/{name}" for name in way if not name.startswith(AT))]


def _signed(secrets: Secrets, what: str) -> str:
    return hmac.new(secrets.secret_keys[-1].encode(), f"parley {what}".encode(), hashlib.sha256).hexdigest()[:16]
