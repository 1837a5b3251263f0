"""From nothing to an answering account: `parley matrix login`, the dialogue, the doctor."""

import asyncio

from shared.db.database import Address
from tests.adapters.cli.shell import Shell
from tests.adapters.matrix.conftest import Scene
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.folders import temporary_folder

OTHER, MATRIX, NOTHING = "7", "2", ""


async def test_a_password_gives_a_token_with_which_the_dialogue_and_the_doctor_are_content(
    scene: Scene, address: Address, model: OpenAIStub
) -> None:
    model.play([Answer("ready")])
    server, agent = scene.homeserver.address, scene.agent.id
    login = ("matrix", "login", "--homeserver", server, "--user", agent, "--password")
    with temporary_folder("cli") as folder:
        shell = Shell(folder, {"DATABASE_URL": address.libpq(as_owner=True)})
        wrong = await asyncio.to_thread(shell.run, *login, "wrong")
        lines = (await asyncio.to_thread(shell.says, *login, "password")).splitlines()
        settings = dict(line.split("=", 1) for line in lines)
        typed = (OTHER, "gpt-4o-mini", model.base_url, "sk-1", MATRIX, server, settings["MATRIX_TOKEN"], scene.ann.id)
        setup = await asyncio.to_thread(shell.run, "setup", stdin="\n".join([*typed, "40", NOTHING, ""]))
        doctor = await asyncio.to_thread(shell.run, "doctor")
        written = (folder / ".env").read_text()

    assert (wrong.code, wrong.out, "M_FORBIDDEN" in wrong.err) == (1, "", True)
    assert list(settings) == ["MATRIX_HOMESERVER", "MATRIX_USER", "MATRIX_TOKEN"]
    assert (settings["MATRIX_HOMESERVER"], settings["MATRIX_USER"]) == (server, agent)
    assert setup.code == 0, setup.err
    assert f"the token is {agent}'s, at {server}" in setup.out
    assert f"matrix:{scene.ann.id} is an owner." in setup.out
    assert settings["MATRIX_TOKEN"] in written
    assert f"the token is {agent}'s, at {server}" in doctor.out
