"""Many workspaces: the app is installed over the web, its tokens are kept encrypted, and each workspace can leave."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from adapters.slack.install.installations import Vault, rotate
from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.slack import Admin, Json, SlackStandIn
from tests.support.slack_transports import with_address, with_web

OLD, NEW = "an old key", "a new key"


@pytest.fixture
def scene(scene: Scene) -> Scene:
    """The scene with an app that anybody may install; the settings hold no token."""
    secret = SecretStr(scene.slack.client_secret)
    own = replace(scene.own, bot_token=None, client_id=scene.slack.client_id, client_secret=secret)
    settings = scene.settings.model_copy(update={"secret_key": SecretStr(OLD)})
    return with_address(replace(scene, settings=settings, own=own))


@asynccontextmanager
async def open_all(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[str]:
    async with scene.opened(address, model), with_web(scene) as url:
        yield url


def new_team(slack: SlackStandIn, name: str) -> tuple[Json, Admin]:
    """Make a workspace without the app, and its admin."""
    team = slack.world.add_team(name)
    return team, Admin(slack, f"{name}-admin", team=team)


async def test_workspaces_install_the_app_and_each_is_answered_with_its_own_token(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    acme, fred = new_team(scene.slack, "Acme")
    lake, boat = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        for admin in (fred, boat):
            status, page = await admin.installs(f"{url}/slack/install")
            assert status == 200, page
            assert f"Parley is in {admin.team['name']} now." in page
        model.play([Answer("Entry."), Answer("Ahoy.")])
        await fred.direct("hello")
        assert await fred.hears() == ["Entry."]
        await boat.direct("hello")
        assert await boat.hears() == ["Ahoy."]

        posted = [call.token for call in scene.slack.calls("chat.postMessage", ok=True)]
        tokens = [scene.slack.world.installation_of(workspace["id"]) for workspace in (acme, lake)]
        assert posted == [token.token for token in tokens if token is not None]
        rows = await scene.sql("SELECT team_id, team_name, bot_user_id, token, installed_by FROM slack_installations")
        assert [(row.team_id, row.team_name, row.installed_by) for row in rows] == [
            (acme["id"], "Acme", fred.id),
            (lake["id"], "Lake", boat.id),
        ]
        assert all(row.token.startswith("gAAAA") for row in rows)
        links = await scene.sql("SELECT platform_user_id FROM user_platform_links ORDER BY id")
        assert [link[0] for link in links] == [f"{acme['id']}:{fred.id}", f"{lake['id']}:{boat.id}"]
        assert scene.refusals() == []


async def test_an_installation_is_finished_once_in_the_browser_that_began_it_and_in_time(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, fred = new_team(scene.slack, "Acme")
    scene.slack.approver = fred.user
    async with open_all(scene, address, model) as url, httpx.AsyncClient() as browser:

        async def begin() -> tuple[str, dict[str, str]]:
            response = await browser.get(f"{url}/slack/install")
            cookie = response.headers["set-cookie"]
            assert "HttpOnly" in cookie
            assert "Secure" in cookie
            back = await browser.get(response.headers["location"])
            return str(back.headers["location"]), {"cookie": cookie.partition(";")[0]}

        async def finish(address: str, headers: Any = None) -> tuple[int, str]:
            page = await browser.get(address, headers=headers)
            return page.status_code, page.text

        back, cookie = await begin()
        assert "another browser" in (await finish(back))[1]
        other_back, other_cookie = await begin()
        assert (await finish(back, other_cookie))[0] == 400
        await scene.sql("UPDATE slack_oauth_states SET expires_at = now() - interval '1 second'")
        status, page = await finish(back, cookie)
        assert (status, "more than ten minutes ago" in page) == (400, True)
        back, cookie = await begin()
        assert await scene.value("SELECT count(*) FROM slack_oauth_states") == 1
        assert (await finish(back, cookie))[0] == 200
        assert "used before" in (await finish(back, cookie))[1]
        assert (await finish(other_back, other_cookie))[0] == 400
        for strange in ("", "?code=x", "?state=x&code=y", "?error=access_denied&state=x", "?error=<b>"):
            status, page = await finish(f"{url}/slack/oauth_redirect{strange}", cookie)
            assert (status < 500, "nothing was installed" in page, "<b>" in page) == (True, True, False), strange
        # The web adapter refuses a NUL in any address before a page is asked for.
        status, page = await finish(f"{url}/slack/oauth_redirect?error=access_denied&state=%00", cookie)
        assert (status, "NUL" in page) == (400, True)
        assert await scene.value("SELECT count(*) FROM slack_installations") == 1


async def test_a_refused_or_invalid_installation_is_explained_and_not_stored(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, fred = new_team(scene.slack, "Acme")
    async with open_all(scene, address, model) as url:
        assert "You have said no" in (await fred.installs(f"{url}/slack/install", agrees=False))[1]
        scene.slack.fail("oauth.v2.access", error="invalid_code")
        assert "does not accept its code" in (await fred.installs(f"{url}/slack/install"))[1]
        scene.slack.fail("oauth.v2.access", status=503)
        assert "nothing was installed" in (await fred.installs(f"{url}/slack/install"))[1]

        assert await scene.value("SELECT count(*) FROM slack_installations") == 0


ENDED = "SELECT count(*) FROM slack_installations WHERE token IS NULL AND ended_because IS NOT NULL"


async def test_a_workspace_that_leaves_loses_its_token_others_go_on_and_it_can_come_back(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    acme, fred = new_team(scene.slack, "Acme")
    _, boat = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        for admin in (fred, boat):
            await admin.installs(f"{url}/slack/install")
        model.play([Answer("Ahoy."), Answer("Entry again.")])

        await fred.removes_app()
        await scene.until_value(1, ENDED)
        await boat.direct("still there?")
        assert await boat.hears() == ["Ahoy."]
        assert await scene.sql("SELECT team_id FROM slack_installations WHERE token IS NULL") == [(acme["id"],)]

        await fred.installs(f"{url}/slack/install")
        await fred.direct("hello again")
        assert await fred.hears() == ["Entry again."]
        # News of the end that comes late is not believed: the token works.
        again = scene.slack.world.installation_of(acme["id"])
        assert again is not None
        calls = len(scene.slack.calls("auth.test", ok=True))
        await scene.slack.events.tell("app_uninstalled", {"type": "app_uninstalled"}, [again])
        await scene.slack.until(lambda: len(scene.slack.calls("auth.test", ok=True)) > calls)
        assert await scene.value(ENDED) == 0


async def test_a_revoked_token_is_deleted_without_an_event_and_a_network_error_deletes_none(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, boat = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        await boat.installs(f"{url}/slack/install")
        model.play([Answer("Later."), Answer("Lost.", delay=0.5)])

        scene.slack.fail("chat.postMessage", error="invalid_auth")
        await boat.direct("hello")
        await scene.until_value("pending", "SELECT status FROM outbox")
        assert await scene.value(ENDED) == 0

        await boat.direct("and now?")
        await scene.until_value("running", "SELECT status FROM turns ORDER BY id DESC LIMIT 1")
        await boat.revokes_tokens(is_told=False)
        await scene.until_value(1, ENDED)
        assert await scene.value("SELECT ended_because FROM slack_installations") == "revoked"


async def test_tokens_are_decrypted_with_old_keys_and_rotated_and_a_lost_key_is_one_log_line(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    acme, fred = new_team(scene.slack, "Acme")
    _, boat = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        await fred.installs(f"{url}/slack/install")
        async with scene.parley.app.database.transaction() as session:
            assert await rotate(session, Vault([NEW, OLD])) == (1, [])
        # What another workspace's row holds opens nothing here.
        await boat.installs(f"{url}/slack/install")
        swapped = "UPDATE slack_installations SET token = (SELECT token FROM slack_installations WHERE team_id = :acme)"
        await scene.sql(swapped, acme=acme["id"])

    keyed = replace(scene, settings=scene.settings.model_copy(update={"secret_key": SecretStr(NEW)}))
    async with keyed.opened(address, model):
        model.play([Answer("Entry.")])
        await boat.direct("hello")
        await fred.direct("hello")
        assert await fred.hears() == ["Entry."]
        await scene.slack.until(lambda: "slack_token_unreadable" in capsys.readouterr().out or None)
        async with keyed.parley.app.database.transaction() as session:
            assert await rotate(session, Vault(["a third key"])) == (0, [acme["id"], boat.team["id"]])
    assert boat.reads() == []


async def test_installations_that_could_not_work_are_refused_and_their_tokens_given_back(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, fred = new_team(scene.slack, "Acme")
    whole = {"team": None, "enterprise": {"id": "E1", "name": "All"}, "is_enterprise_install": True}
    rotated = {"refresh_token": "xoxe-1", "expires_in": 43200}
    async with open_all(scene, address, model) as url:
        scene.slack.install_more = whole
        assert "not into a whole organisation" in (await fred.installs(f"{url}/slack/install"))[1]
        scene.slack.install_more = rotated
        assert "exchanges its tokens every few hours" in (await fred.installs(f"{url}/slack/install"))[1]

        assert len(scene.slack.calls("auth.revoke", ok=True)) == 2
        assert await scene.value("SELECT count(*) FROM slack_installations") == 0


async def test_the_token_in_the_settings_works_beside_installed_workspaces(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, fred = new_team(scene.slack, "Acme")
    scene = replace(scene, own=replace(scene.own, bot_token=SecretStr(scene.slack.bot_token)))
    async with open_all(scene, address, model) as url:
        await fred.installs(f"{url}/slack/install")
        model.play([Answer("Home."), Answer("Entry.")])
        await scene.ann.direct("hello")
        assert await scene.ann.hears() == ["Home."]
        await fred.direct("hello")
        assert await fred.hears() == ["Entry."]

        links = await scene.sql("SELECT platform_user_id FROM user_platform_links ORDER BY id")
        assert [link[0] for link in links] == [scene.ann.id, f"{fred.team['id']}:{fred.id}"]
