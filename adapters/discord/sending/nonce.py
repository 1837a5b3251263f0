"""The nonces of messages. For some minutes, Discord makes only one message of an author's nonce.

So a nonce has to name one answer among all that the bot may give, also beside another database: a fresh or restored one
counts its turns and replies from an earlier number. It is made from the installation, the question and the turn.
"""

import hashlib
import json

from agent.people.hops import installation_id
from shared.messages import Place
from shared.settings import Secrets

# With the number of a part and a suffix, a nonce has at most 25 characters.
DIGITS = 16


def nonce_of_turn(secrets: Secrets, place: Place, reply_to: str | None, *, turn_id: int) -> str:
    """Return the prefix of the nonces of an answer; `reply_to` names the question."""
    return to_nonce(secrets, place.key, reply_to, "turn", turn_id)


def to_nonce(secrets: Secrets, *identity: object) -> str:
    """Return the prefix of the nonces of what this identity names in this installation."""
    named = json.dumps([installation_id(secrets), *identity])
    return hashlib.sha256(named.encode()).hexdigest()[:DIGITS]
