"""The web adapter beside the Slack adapter."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from pydantic import SecretStr

from adapters.cli.serving import with_free_port
from adapters.web import serve
from shared.db.database import Address
from tests.adapters.slack.conftest import Scene
from tests.standins.openai_api import OpenAIStub


def with_address(scene: Scene) -> Scene:
    """Return a scene whose web address is known before it opens."""
    settings = with_free_port(scene.settings.model_copy(update={"port": 0}))
    return replace(scene, settings=settings.model_copy(update={"public_url": f"http://127.0.0.1:{settings.port}"}))


@asynccontextmanager
async def with_web(scene: Scene) -> AsyncIterator[str]:
    """Serve the web adapter and return its address."""
    listening = asyncio.Event()
    serving = asyncio.create_task(serve(scene.parley.app, lambda _host, _port: listening.set()))
    await listening.wait()
    try:
        yield str(scene.settings.public_url)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def opened_by_http(scene: Scene, address: Address, model: OpenAIStub) -> AsyncIterator[Scene]:
    """Open a scene to which Slack sends everything in signed requests."""
    own = replace(scene.own, app_token=None, signing_secret=SecretStr(scene.slack.signing_secret))
    scene = with_address(replace(scene, own=own))
    async with scene.opened(address, model, listens=False), with_web(scene) as url:
        await scene.slack.delivery.deliver_to(
            f"{url}/slack/events", interactions=f"{url}/slack/interactions", commands=f"{url}/slack/commands"
        )
        yield scene
