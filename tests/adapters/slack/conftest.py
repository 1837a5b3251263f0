"""A workspace with a channel, people in it, and a running Parley whose app listens there."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import SecretStr

from adapters.slack.platform import SlackPlatform
from adapters.slack.settings import SlackSettings
from shared.db.database import Address
from shared.settings import Settings
from tests.standins.openai_api import OpenAIStub
from tests.standins.slack import Json, Person, SlackStandIn
from tests.support.chat_scene import ChatScene, Connections

if TYPE_CHECKING:
    from tests.support.cells import CellDatabases
    from tests.support.slack_cells import Workspace


@dataclass(kw_only=True)
class Scene(ChatScene):
    """Slack with Ann and Bob in a workspace, and Parley with its app."""

    slack: SlackStandIn
    ann: Person
    bob: Person
    general: Json
    own: SlackSettings

    @property
    def connections(self) -> Connections:
        return self.slack.socket

    def build(self, **options: Any) -> SlackPlatform:
        return SlackPlatform(self.own, **options)

    def refusals(self) -> list[tuple[str, str | None]]:
        """Return the calls that Slack has refused, other than for their number or to find out what the app is."""
        errors = [(call.method, call.error) for call in self.slack.journal.refused]
        return [error for error in errors if error != ("agents.sessions.setStatus", "not_authorized")]


def make_scene(slack: SlackStandIn, settings: Settings) -> Scene:
    """Return a scene on a stand-in; its Parley is still closed."""
    general = slack.world.add_channel("general", topic="Bikes and boats")
    ann, bob = Person(slack, "Ann"), Person(slack, "Bob")
    ann.joins(general)
    bob.joins(general)
    own = SlackSettings(
        bot_token=SecretStr(slack.bot_token), app_token=SecretStr(slack.app_token), api_base=slack.api_base
    )
    return Scene(slack=slack, ann=ann, bob=bob, general=general, settings=settings, own=own)


@pytest.fixture
async def slack() -> AsyncIterator[SlackStandIn]:
    async with SlackStandIn() as standin:
        yield standin


@pytest.fixture
def scene(slack: SlackStandIn, settings: Settings) -> Scene:
    """Everything but Parley: tests that prepare something open it themselves."""
    return make_scene(slack, settings)


@pytest.fixture
async def office(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Scene]:
    """The scene with its Parley open."""
    async with scene.opened(address, model):
        yield scene


@pytest.fixture
async def workspace(scene: Scene, cell_databases: "CellDatabases", model: OpenAIStub) -> AsyncIterator["Workspace"]:
    """A second workspace, with the app installed, beside two cells."""
    # Imported here: it takes the scene from this file.
    from tests.support.slack_cells import open_workspace

    async with open_workspace(scene, cell_databases, model, by_http=False) as workspace:
        await workspace.installs()
        yield workspace
