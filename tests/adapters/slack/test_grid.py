"""Enterprise Grid: workspaces of an organisation, and what the organisation itself sends."""

from copy import deepcopy
from typing import Any

from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import OpenAIStub
from tests.standins.slack import Json
from tests.standins.slack.world import stamp
from tests.support.cells import CellDatabases
from tests.support.slack_cells import Workspace, open_workspace

ENTERPRISE = {"id": "E1", "name": "All"}


def last_payload(workspace: Workspace, kind: str, words: str) -> Json:
    """Return what Slack has sent last of a kind that says this, to be changed."""
    envelopes = workspace.scene.slack.journal.envelopes
    payloads = [one.payload for one in envelopes if one.kind == kind and words in str(one.payload)]
    return dict(deepcopy(payloads[-1]))


def of_organisation(payload: Json, **fields: Any) -> Json:
    """Return a payload as an app gets it that serves workspaces of an organisation."""
    authorization = payload["authorizations"][0] | {"enterprise_id": ENTERPRISE["id"]} | fields
    return payload | {"enterprise_id": ENTERPRISE["id"], "authorizations": [authorization]}


async def test_a_workspace_of_an_organisation_is_served_and_moves_as_any_other(
    scene: Scene, cell_databases: CellDatabases, model: OpenAIStub
) -> None:
    async with open_workspace(scene, cell_databases, model, by_http=True) as workspace:
        slack, fred, pier, cells = workspace.scene.slack, workspace.fred, workspace.pier, workspace.cells
        slack.install_more = {"team": None, "enterprise": ENTERPRISE, "is_enterprise_install": True}
        assert "not into a whole organisation" in (await fred.installs(f"{cells.client.base_url}/slack/install"))[1]
        assert [await cells.sql(cell, "SELECT FROM slack_installations") for cell in "ab"] == [[], []]
        slack.install_more = {"enterprise": ENTERPRISE}
        await workspace.installs()
        await workspace.moves()
        assert [tuple(row) for row in await cells.sql("b", "SELECT enterprise_id FROM slack_installations")] == [
            ("E1",)
        ]

        await fred.mentions(pier, "hello")
        await fred.hears(pier)
        await workspace.until_count("b", 1)
        again = of_organisation(last_payload(workspace, "events_api", "> hello'"))
        again["event"] |= {"ts": stamp(), "text": again["event"]["text"].replace("hello", "of the organisation")}
        await slack.delivery.give("events_api", again)
        await workspace.until_count("b", 2)

        vote = await fred.presses(pier, fred.written(pier)[0], "👍")
        assert len(await vote.answered()) == 1
        # As Slack sends it to an app of an organisation.
        click = last_payload(workspace, "interactive", "👍") | {"team": None, "enterprise": ENTERPRISE}
        await slack.delivery.give("interactive", click | {"is_enterprise_install": True})
        assert "Thank you" in (await vote.answered(2))[1]
        assert await cells.count("a") == 0


async def test_what_an_organisation_sends_is_nobodys_of_its_workspaces(workspace: Workspace) -> None:
    scene, cells = workspace.scene, workspace.cells
    await scene.ann.direct("hello")
    await scene.ann.hears()
    payload = of_organisation(
        last_payload(workspace, "events_api", "'text': 'hello'"), team_id=None, is_enterprise_install=True
    )
    payload["event"] |= {"ts": stamp(), "text": "to whom?", "user": "U0FOREIGN", "channel": "D0FOREIGN"}
    envelope = await scene.slack.delivery.give("events_api", payload)
    assert envelope.acked_at is not None
    await scene.ann.direct("and now?")
    await scene.ann.hears(count=2)
    assert [await cells.sql(cell, "SELECT FROM inbox WHERE content = 'to whom?'") for cell in "ab"] == [[], []]
