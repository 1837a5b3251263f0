"""Payloads as Slack documents them: what they are in our shape."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, fields
from pydantic import SecretStr

from adapters.slack.events.incoming import is_written_by_a_person, mentions_agent, to_incoming
from adapters.slack.transport.token import Token
from shared.messages import IncomingMessage

FOLDER = Path(__file__).parents[1] / "fixtures" / "slack"
TOKEN = Token(SecretStr("xoxb-1"), "T061EG9R6", "U0LAN0Z89", "B0LAN2Q65", "Parley", is_home=True)
NAMES = {"U2147483697": "ann", "U061F7AUR": "Bob", "W012A3CDE": "eve"}
OPTIONAL = {field.name: field.default for field in fields(IncomingMessage)}


def to_plain(value: Any) -> Any:
    """Return what JSON does not know as what it does."""
    return value.isoformat() if isinstance(value, datetime) else asdict(value)


def to_json(event: dict[str, Any]) -> dict[str, Any] | None:
    """Return the event in our shape, without empty fields, and whether it mentions the agent."""
    if not is_written_by_a_person(event, TOKEN):
        return None
    message = asdict(to_incoming(event, TOKEN, NAMES))
    fields_set = {key: value for key, value in message.items() if value != OPTIONAL.get(key)}
    result: dict[str, Any] = json.loads(json.dumps(fields_set, default=to_plain))
    result["platform_context"] = {key: value for key, value in result.get("platform_context", {}).items() if value}
    if not result["platform_context"]:
        del result["platform_context"]
    for attachment in result.get("attachments", ()):
        if attachment["author"] == "person":
            del attachment["author"]
    return result | {"calls": mentions_agent(event, TOKEN)}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_a_payload_of_slack_becomes_our_message(path: Path) -> None:
    case = json.loads(path.read_text())

    assert to_json(case["event"]) == case["expected"]
