"""A strict stand-in for Slack: its Web API, Socket Mode and signed deliveries on loopback, people, and a journal.

    async with SlackStandIn() as slack:
        ann, general = Person(slack, "Ann"), slack.world.add_channel("general")
        ...  # SLACK_API_BASE is slack.api_base, SLACK_BOT_TOKEN slack.bot_token, SLACK_APP_TOKEN slack.app_token
        await slack.socket.until()
        await ann.direct("hello")
        assert await ann.hears() == ["Hi."]

It uses Socket Mode; after `await slack.deliver_to(url)` HTTP requests, signed with `slack.signing_secret`.
`python -m tests.standins.slack --port 9300` starts one by hand.
"""

from tests.standins.slack.admin import Admin
from tests.standins.slack.interactions import Interaction
from tests.standins.slack.journal import Envelope, Fault, Sent
from tests.standins.slack.limits import Limits
from tests.standins.slack.manifests import ManifestRefused
from tests.standins.slack.people import Person
from tests.standins.slack.server import SlackStandIn
from tests.standins.slack.show import pings, show
from tests.standins.slack.world import SCOPES, Installation, Json

__all__ = [
    "SCOPES",
    "Admin",
    "Envelope",
    "Fault",
    "Installation",
    "Interaction",
    "Json",
    "Limits",
    "ManifestRefused",
    "Person",
    "Sent",
    "SlackStandIn",
    "pings",
    "show",
]
