"""From nothing to an answering account: the dialogue, the doctor."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiohttp import web

from shared.db.database import Address
from tests.adapters.cli.shell import Shell
from tests.adapters.matrix.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.stand_in import ChatStandIn
from tests.support.folders import temporary_folder

OTHER, MATRIX, NOTHING = "7", "2", ""


async def test_a_password_gives_a_token_with_which_the_dialogue_and_the_doctor_are_content(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("ready")] * 4)
    server, agent = scene.homeserver.address, scene.agent.id
    with temporary_folder("cli") as folder:
        shell, file = Shell(folder, {"DATABASE_URL": address.libpq(as_owner=True)}), folder / ".env"

        async def set_up(*answers: str, homeserver: str = server) -> tuple[int, str]:
            typed = (OTHER, "gpt-4o-mini", model.base_url, "sk-1", MATRIX, homeserver, agent, *answers)
            stdin = "\n".join([*typed, scene.ann.id, "40", NOTHING, ""])
            result = await asyncio.to_thread(shell.run, "setup", stdin=stdin)
            return result.code, result.out + result.err

        code, screen = await set_up(NOTHING, "wrong")
        assert (code, "M_FORBIDDEN" in screen, file.exists()) == (1, True, False)
        code, screen = await set_up(NOTHING, "password", homeserver="matrix.test")
        assert (code, "matrix.test is no address; one begins with https://" in screen, file.exists()) == (
            1,
            True,
            False,
        )
        # What can't be tried is kept, but no password is.
        code, screen = await set_up(NOTHING, "password", homeserver="http://127.0.0.1:1")
        assert (code, "is kept" in screen, "MATRIX_USER" in file.read_text()) == (0, True, True)
        assert "assword" not in file.read_text()
        doctor = await asyncio.to_thread(shell.run, "doctor")
        assert "it is not used yet; set MATRIX_TOKEN, see docs/matrix.md" in doctor.out
        file.unlink()
        code, screen = await set_up(NOTHING, "password")
        assert (code, f"the token is {agent}'s, at {server}" in screen) == (0, True), screen
        assert f"matrix:{scene.ann.id} is an owner." in screen
        assert "assword" not in file.read_text()
        token = next(line for line in file.read_text().splitlines() if line.startswith("MATRIX_TOKEN="))
        doctor = await asyncio.to_thread(shell.run, "doctor")
        assert f"the token is {agent}'s, at {server}" in doctor.out
        # Who has a token is asked for no password.
        file.unlink()
        code, screen = await set_up(token.partition("=")[2].strip("'"))
        assert (code, "MATRIX_PASSWORD" in screen) == (0, False)


@pytest.mark.parametrize(
    ("answer", "typed", "remedy"),
    [
        ({}, ["", "password"], "no homeserver"),
        ({"user_id": 5, "access_token": "a"}, ["", "password"], "no homeserver"),
        ({"user_id": "@parley:hs", "access_token": "a'\nOPENAI_API_KEY='b"}, ["", "password"], "no homeserver"),
        ({}, ["token"], "MATRIX_TOKEN is that of None"),
    ],
)
async def test_what_is_no_homeserver_is_named_and_nothing_of_it_is_written(
    address: Address, model: OpenAIStub, answer: dict[str, Any], typed: Sequence[str], remedy: str
) -> None:
    async def reply(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(answer)

    model.play([Answer("ready")])
    async with ChatStandIn(web.Server(reply), 0) as server:
        with temporary_folder("cli") as folder:
            shell = Shell(folder, {"DATABASE_URL": address.libpq(as_owner=True)})
            lines = (OTHER, "gpt-4o-mini", model.base_url, "sk-1", MATRIX, server.base, "@parley:hs", *typed)
            result = await asyncio.to_thread(shell.run, "setup", stdin="\n".join(lines))
            screen = result.out + result.err
            assert (result.code, remedy in screen, "Traceback" in screen) == (1, True, False), screen
            assert not (folder / ".env").exists()
