"""Modules that answer HTTP requests and work in the background."""

import asyncio
import sys
from pathlib import Path

from agent.tools.modules import discover
from shared.db.database import Address
from shared.settings import Settings
from tests.adapters.web.conftest import open_site
from tests.standins.openai_api import OpenAIStub
from tests.support.eventually import PATIENCE
from tests.support.parley import open_parley

MODULE = '''
"""A game server's scores."""

from sqlalchemy import text

from shared.errors import ToolError
from shared.hooks import HttpResponse, route, tick


@route("scores", methods=("POST", "GET"))
async def take(context, request):
    if request.headers.get("authorization") != "Bearer dice":
        return HttpResponse(status=401, headers={"WWW-Authenticate": "Bearer", "Set-Cookie": "a=b"})
    if request.body == b"wrong":
        raise ToolError("This is no score.")
    if request.body == b"bug":
        raise KeyError("bug")
    return HttpResponse(b"|".join([request.method.encode(), request.query.get("game", "").encode(), request.body]))


@route("cookies", methods=("GET",))
async def show(context, request):
    return HttpResponse(request.headers.get("cookie", "none").encode())


@tick(seconds=1)
async def count(context):
    async with context.transaction() as session:
        await session.execute(text("UPDATE users SET display_name = 'counted by ' || :name"), {"name": context.module})
'''


async def test_a_module_answers_at_its_address_and_works_in_the_background(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    (tmp_path / "dice").mkdir()
    (tmp_path / "dice" / "__init__.py").write_text(MODULE, "utf-8")
    modules = discover(tmp_path)
    assert modules.failures == {}
    async with open_parley(settings, address, model, modules=modules) as parley, open_site(parley) as site:
        here, token = "/modules/dice/scores", {"Authorization": "Bearer dice"}
        response = await site.client.post(f"{here}?game=7", content=b"six", headers=token)
        assert (response.status_code, response.content) == (200, b"POST|7|six")
        assert "sandbox" in response.headers["content-security-policy"]

        refusal = await site.client.post(here, content=b"six", headers={"Authorization": "Bearer wrong"})
        assert (refusal.status_code, "set-cookie" in refusal.headers) == (401, False)
        wrong = await site.client.post(here, content=b"wrong", headers=token)
        assert (wrong.status_code, "This is no score." in wrong.text) == (400, True)
        bug = await site.client.post(here, content=b"bug", headers=token)
        assert (bug.status_code, "KeyError" in bug.text) == (500, False)
        large = await site.client.post(here, content=b"x" * 1_100_000, headers=token)
        assert large.status_code == 413
        assert (await site.client.put(here, headers=token)).status_code == 405
        for path in ("/modules/dice/other", "/modules/other/scores", "/modules/dice"):
            assert (await site.client.get(path)).status_code == 404
        assert (await site.client.get("/modules/dice/cookies", headers={"Cookie": "parley_session=x"})).text == "none"

        await parley.ask("hello")
        async with asyncio.timeout(PATIENCE):
            while await parley.value("SELECT display_name FROM users") != "counted by dice":  # noqa: ASYNC110
                await asyncio.sleep(0.1)


CLOCK = """
import asyncio

from shared.hooks import HttpResponse, route, tick

beats = asyncio.Queue()


@route("time", methods=("GET",))
async def show(context, request):
    return HttpResponse(b"noon")


@tick(seconds=1)
async def beat(context):
    beats.put_nowait(context.module)
"""


async def test_a_module_that_is_off_has_no_addresses_and_no_work_until_it_is_on_again(
    settings: Settings, address: Address, model: OpenAIStub, tmp_path: Path
) -> None:
    for name in ("sundial", "watch"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(CLOCK, "utf-8")
    modules = discover(tmp_path)
    sundial, watch = (sys.modules[f"modules.{name}"].beats for name in ("sundial", "watch"))
    async with open_parley(settings, address, model, modules=modules) as parley, open_site(parley) as site:
        assert (await site.client.get("/modules/sundial/time")).text == "noon"
        assert await sundial.get() == "sundial"

        await parley.sql("SELECT admin.set_module('sundial', is_enabled => false)")
        missing = await site.client.get("/modules/sundial/time")
        assert (missing.status_code, missing.json()) == (404, (await site.client.get("/modules/none/time")).json())
        assert (await site.client.get("/modules/watch/time")).text == "noon"
        await pass_beats(watch)
        # What had begun before has ended now.
        before = sundial.qsize()
        await pass_beats(watch)
        assert sundial.qsize() == before

        await parley.sql("SELECT admin.set_module('sundial', is_enabled => true)")
        assert (await site.client.get("/modules/sundial/time")).text == "noon"
        for _ in range(before + 1):
            await sundial.get()


async def pass_beats(beats: "asyncio.Queue[str]") -> None:
    """Wait for three beats that are still to come."""
    for _ in range(beats.qsize() + 3):
        await beats.get()
