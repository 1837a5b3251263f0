"""Many workspaces: the app is installed over the web, its tokens are kept encrypted, and each workspace can leave."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from adapters.slack.install.installations import rotate
from adapters.slack.install.vault import Vault
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
    pond, frog = new_team(scene.slack, "Pond")
    lake, toad = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        for admin in (frog, toad):
            status, page = await admin.installs(f"{url}/slack/install")
            assert status == 200, page
            assert f"Parley is in {admin.team['name']} now." in page
        model.play([Answer("Croak."), Answer("Quak.")])
        await frog.direct("hello")
        assert await frog.hears() == ["Croak."]
        await toad.direct("hello")
        assert await toad.hears() == ["Quak."]

        posted = [call.token for call in scene.slack.calls("chat.postMessage", ok=True)]
        tokens = [scene.slack.world.installation_of(workspace["id"]) for workspace in (pond, lake)]
        assert posted == [token.token for token in tokens if token is not None]
        rows = await scene.sql("SELECT team_id, team_name, bot_user_id, token, installed_by FROM slack_installations")
        assert [(row.team_id, row.team_name, row.installed_by) for row in rows] == [
            (pond["id"], "Pond", frog.id),
            (lake["id"], "Lake", toad.id),
        ]
        assert all(row.token.startswith("gAAAA") for row in rows)
        links = await scene.sql("SELECT platform_user_id FROM user_platform_links ORDER BY id")
        assert [link[0] for link in links] == [f"{pond['id']}:{frog.id}", f"{lake['id']}:{toad.id}"]
        assert scene.refusals() == []


async def test_an_installation_is_finished_once_in_the_browser_that_began_it_and_in_time(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, frog = new_team(scene.slack, "Pond")
    scene.slack.approver = frog.user
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
    _, frog = new_team(scene.slack, "Pond")
    async with open_all(scene, address, model) as url:
        assert "You have said no" in (await frog.installs(f"{url}/slack/install", agrees=False))[1]
        scene.slack.fail("oauth.v2.access", error="invalid_code")
        assert "does not accept its code" in (await frog.installs(f"{url}/slack/install"))[1]
        scene.slack.fail("oauth.v2.access", status=503)
        assert "nothing was installed" in (await frog.installs(f"{url}/slack/install"))[1]

        assert await scene.value("SELECT count(*) FROM slack_installations") == 0


ENDED = "SELECT count(*) FROM slack_installations WHERE token IS NULL AND ended_because IS NOT NULL"


async def test_a_workspace_that_leaves_loses_its_token_others_go_on_and_it_can_come_back(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    pond, frog = new_team(scene.slack, "Pond")
    _, toad = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        for admin in (frog, toad):
            await admin.installs(f"{url}/slack/install")
        model.play([Answer("Quak."), Answer("Croak again.")])

        await frog.removes_app()
        await scene.until_value(1, ENDED)
        await toad.direct("still there?")
        assert await toad.hears() == ["Quak."]
        assert await scene.sql("SELECT team_id FROM slack_installations WHERE token IS NULL") == [(pond["id"],)]

        await frog.installs(f"{url}/slack/install")
        await frog.direct("hello again")
        assert await frog.hears() == ["Croak again."]
        # News of the end that comes late is not believed: the token works.
        again = scene.slack.world.installation_of(pond["id"])
        assert again is not None
        calls = len(scene.slack.calls("auth.test", ok=True))
        await scene.slack.events.tell("app_uninstalled", {"type": "app_uninstalled"}, [again])
        await scene.slack.until(lambda: len(scene.slack.calls("auth.test", ok=True)) > calls)
        assert await scene.value(ENDED) == 0


async def test_a_revoked_token_is_deleted_without_an_event_and_a_network_error_deletes_none(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, toad = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        await toad.installs(f"{url}/slack/install")
        model.play([Answer("Later."), Answer("Lost.", delay=0.5)])

        scene.slack.fail("chat.postMessage", error="invalid_auth")
        await toad.direct("hello")
        await scene.until_value("pending", "SELECT status FROM outbox")
        assert await scene.value(ENDED) == 0

        await toad.direct("and now?")
        await scene.until_value("running", "SELECT status FROM turns ORDER BY id DESC LIMIT 1")
        await toad.revokes_tokens(is_told=False)
        await scene.until_value(1, ENDED)
        assert await scene.value("SELECT ended_because FROM slack_installations") == "revoked"


async def test_tokens_are_decrypted_with_old_keys_and_rotated_and_a_lost_key_is_one_log_line(
    scene: Scene, address: Address, model: OpenAIStub, capsys: pytest.CaptureFixture[str]
) -> None:
    pond, frog = new_team(scene.slack, "Pond")
    _, toad = new_team(scene.slack, "Lake")
    async with open_all(scene, address, model) as url:
        await frog.installs(f"{url}/slack/install")
        async with scene.parley.app.database.transaction() as session:
            assert await rotate(session, Vault([NEW, OLD])) == (1, [])
        # What another workspace's row holds opens nothing here.
        await toad.installs(f"{url}/slack/install")
        swapped = "UPDATE slack_installations SET token = (SELECT token FROM slack_installations WHERE team_id = :pond)"
        await scene.sql(swapped, pond=pond["id"])

    keyed = replace(scene, settings=scene.settings.model_copy(update={"secret_key": SecretStr(NEW)}))
    async with keyed.opened(address, model):
        model.play([Answer("Croak.")])
        await toad.direct("hello")
        await frog.direct("hello")
        assert await frog.hears() == ["Croak."]
        await scene.slack.until(lambda: "slack_token_unreadable" in capsys.readouterr().out or None)
        async with keyed.parley.app.database.transaction() as session:
            assert await rotate(session, Vault(["a third key"])) == (0, [pond["id"], toad.team["id"]])
    assert toad.reads() == []


async def test_installations_that_could_not_work_are_refused_and_their_tokens_given_back(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, frog = new_team(scene.slack, "Pond")
    whole = {"team": None, "enterprise": {"id": "E1", "name": "All"}, "is_enterprise_install": True}
    rotated = {"refresh_token": "xoxe-1", "expires_in": 43200}
    async with open_all(scene, address, model) as url:
        scene.slack.install_more = whole
        assert "not into a whole organisation" in (await frog.installs(f"{url}/slack/install"))[1]
        scene.slack.install_more = rotated
        assert "exchanges its tokens every few hours" in (await frog.installs(f"{url}/slack/install"))[1]

        assert len(scene.slack.calls("auth.revoke", ok=True)) == 2
        assert await scene.value("SELECT count(*) FROM slack_installations") == 0


async def test_the_token_in_the_settings_works_beside_installed_workspaces(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    _, frog = new_team(scene.slack, "Pond")
    scene = replace(scene, own=replace(scene.own, bot_token=SecretStr(scene.slack.bot_token)))
    async with open_all(scene, address, model) as url:
        await frog.installs(f"{url}/slack/install")
        model.play([Answer("Home."), Answer("Croak.")])
        await scene.ann.direct("hello")
        assert await scene.ann.hears() == ["Home."]
        await frog.direct("hello")
        assert await frog.hears() == ["Croak."]

        links = await scene.sql("SELECT platform_user_id FROM user_platform_links ORDER BY id")
        assert [link[0] for link in links] == [scene.ann.id, f"{frog.team['id']}:{frog.id}"]
