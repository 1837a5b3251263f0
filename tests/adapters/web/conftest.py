"""A running Parley with its web adapter open on loopback, and clients for it."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.async_api import Browser, expect
from pydantic import SecretStr

from adapters.cli.compose import list_routes
from adapters.web import one_time_link, serve
from agent.app import App
from shared.settings import Settings
from tests.adapters.web.browser import Window, browser_address, chromium, open_window
from tests.standins.openai_api import Answer
from tests.standins.openai_api.script import Body, last_user_text
from tests.support.parley import Parley

__all__ = ["browser_address", "chromium"]

TOKEN = "test-token"
BROWSER = {"Sec-Fetch-Site": "same-origin"}
# As a browser opens an address that no page has led it to.
BY_HAND = {"Sec-Fetch-Site": "none"}
# To read the system's certificates takes each new client 30 ms, and these clients speak plain HTTP.
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def say_it_back(body: Body, _number: int) -> Answer:
    """Answer with what the person wrote, without the clock and the memories that go with it."""
    return Answer(f"You said: {last_user_text(body).partition('<context>')[0].strip()}")


@dataclass
class Site:
    """The open web adapter: its address, Parley behind it, and a client that holds the token."""

    url: str
    parley: Parley
    client: httpx.AsyncClient

    async def posts(self, content: Any, **fields: Any) -> httpx.Response:
        """Post a message of Ann to the agent's own interface."""
        body = {
            "platform": "test",
            "platform_user_id": "ann",
            "platform_channel_id": "dm",
            "content": content,
            **fields,
        }
        return await self.client.post("/v1/messages", json=body)

    def link(self, who: str | None = None) -> str:
        """Return a one-time link as it can be reached: the port was not known when the settings were made."""
        return self.url + "/?" + urlsplit(one_time_link(self.parley.app, who)).query

    @asynccontextmanager
    async def browser(self, who: str = "ann") -> AsyncIterator[httpx.AsyncClient]:
        """Open a client that has a session, as the page has."""
        async with httpx.AsyncClient(base_url=self.url, headers=BROWSER, timeout=30, verify=NO_CERTIFICATES) as client:
            entered = await client.get(self.link(who), headers=BY_HAND)
            assert entered.status_code == 200
            yield client


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings of a Parley with a small limit for bodies, on whatever port is free."""
    return settings.model_copy(update={"api_token": SecretStr(TOKEN), "port": 0, "max_body_mb": 3})


@asynccontextmanager
async def open_site(parley: Parley, app: App | None = None) -> AsyncIterator[Site]:
    """Serve a running Parley on a free port."""
    address: asyncio.Future[tuple[str, int]] = asyncio.get_running_loop().create_future()

    def note_address(host: str, port: int) -> None:
        address.set_result((host, port))

    serving = asyncio.create_task(serve(app or parley.app, note_address, mounted=list_routes()))
    host, port = await address
    url = f"http://{host}:{port}"
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(base_url=url, headers=bearer, timeout=30, verify=NO_CERTIFICATES) as client:
        yield Site(url, parley, client)
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.fixture
async def site(parley: Parley) -> AsyncIterator[Site]:
    """The web adapter of a Parley with a worker, whose model says back what it hears."""
    parley.model.play(say_it_back)
    async with open_site(parley) as site:
        yield site


@pytest.fixture
async def window(site: Site, chromium: Browser) -> AsyncIterator[Window]:
    """The page as it is after a click on the one-time link."""
    async with open_window(chromium, site.link("ann")) as window:
        await expect(window.page.locator("#welcome")).to_be_visible()
        yield window
