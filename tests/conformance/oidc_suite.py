"""Signing in at a provider that others have written: npm's oidc-provider, which is certified."""

import asyncio
import json
import re
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import httpx
from msgspec.structs import replace
from pydantic import SecretStr

from adapters.web.login.provider import CALLBACK
from tests.adapters.web.conftest import BROWSER, Site, open_site
from tests.adapters.web.login.test_links import as_whom
from tests.adapters.web.login.test_oidc import REFRESH
from tests.conformance.environment import FOLDER, NODE, SECONDS, Verdict, open_door
from tests.support.loopback import free_port

SUITE = "OpenID Connect"
SCRIPT = Path(__file__).with_name("oidc_provider.mjs")
SECRET = "a-secret-that-only-the-two-know"
METHODS = ("client_secret_basic", "client_secret_post")
FORM = re.compile(r'<form[^>]*action="([^"]+)"')


@asynccontextmanager
async def open_provider(port: int, callback: str, method: str) -> AsyncIterator[None]:
    """Run the provider, which knows Parley as a client that shows its secret by this method."""
    client = {"client_id": "parley", "client_secret": SECRET, "token_endpoint_auth_method": method}
    # A package is found beside the program that imports it.
    script = FOLDER / SCRIPT.name
    await asyncio.to_thread(script.write_text, await asyncio.to_thread(SCRIPT.read_text, "utf-8"), "utf-8")
    options = json.dumps({"port": port, "client": client, "callback": callback})
    process = await asyncio.create_subprocess_exec(str(NODE), script, options, cwd=FOLDER, stdout=PIPE, stderr=STDOUT)
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SECONDS):
            while b"ready" not in (line := await process.stdout.readline()):
                assert line, "the provider has ended"
        yield
    finally:
        process.kill()
        await process.wait()


async def sign_in(client: httpx.AsyncClient, name: str) -> httpx.Response:
    """Click through the forms of both sides as a browser does, and return the last page."""
    response = await client.post("/login/oidc")
    for _ in range(12):
        if (location := response.headers.get("location")) is not None:
            response = await client.get(urljoin(str(response.url), location), headers={"Sec-Fetch-Site": "cross-site"})
        elif (leading := REFRESH.search(response.text)) is not None:
            response = await client.get(urljoin(str(response.url), unescape(leading[1])))
        elif "/interaction/" in str(response.url) and (form := FORM.search(response.text)) is not None:
            prompt = "consent" if 'value="consent"' in response.text else "login"
            fields = {"prompt": prompt, "login": name, "password": "any"}
            response = await client.post(urljoin(str(response.url), unescape(form[1])), data=fields)
        else:
            return response
    return response


async def play(site: Site, *, admits: bool, name: str) -> bool:
    """Sign in, and tell whether the person is the one that the provider names, or refused."""
    async with httpx.AsyncClient(base_url=site.url, headers=BROWSER, timeout=30) as client:
        page = await sign_in(client, name)
        if not admits:
            return "not one of those that may sign in" in page.text
        return await as_whom(client) == f"You are {name} of Acme"


async def play_all(door: Site, method: str) -> list[Verdict]:
    """Sign in those who may and those who may not, where the client shows its secret by this method."""
    port, own_port = free_port(), free_port()
    settings = door.parley.app.settings.model_copy(
        update={
            "port": own_port,
            "public_url": f"http://127.0.0.1:{own_port}",
            "oidc_issuer": f"http://127.0.0.1:{port}",
            "oidc_client_id": "parley",
            "oidc_client_secret": SecretStr(SECRET),
            "oidc_email_domains": ("example.org",),
        }
    )
    app = replace(door.parley.app, settings=settings)
    async with open_provider(port, f"{settings.public_url}{CALLBACK}", method), open_site(door.parley, app) as site:
        return [
            Verdict(SUITE, f"{name} signs in, {method}", await play(site, admits=admits, name=name))
            for name, admits in (("ann", True), ("mallory", False))
        ]


async def run(home: Path) -> list[Verdict]:
    """Sign people in, with each way to show the client's secret."""
    async with open_door(home) as door:
        return [verdict for method in METHODS for verdict in await play_all(door, method)]
