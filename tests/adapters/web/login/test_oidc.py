"""Signing in at a provider of OpenID Connect, and every answer that is refused."""

import re
import time
from collections.abc import AsyncIterator
from html import unescape
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from msgspec.structs import replace
from pydantic import SecretStr, ValidationError

from adapters.web.login.oidc import ENTRANCE
from adapters.web.login.provider import CALLBACK
from shared.settings import Settings
from tests.adapters.web.conftest import BROWSER, NO_CERTIFICATES, Site, open_site
from tests.adapters.web.login.test_links import as_whom
from tests.adapters.web.test_messages import refusal
from tests.standins.oidc import ANN, CLIENT_ID, CLIENT_SECRET, OidcProvider
from tests.support.parley import Parley

REFRESH = re.compile(r'http-equiv="refresh" content="0; url=([^"]+)"')
HOUR_AGO = int(time.time()) - 3600
LIES: list[dict[str, Any]] = [
    {"nonce": "another"},
    {"nonce": None},
    {"aud": "another"},
    {"aud": ["another", "third"]},
    {"aud": [CLIENT_ID, "another"], "azp": "another"},
    {"iss": "https://evil.example"},
    {"exp": HOUR_AGO},
    {"exp": None},
    {"iat": None},
    {"sub": None},
    {"sub": ""},
    {"sub": 7},
    {"sub": "x" * 256},
]


@pytest.fixture
async def provider() -> AsyncIterator[OidcProvider]:
    async with OidcProvider() as provider:
        yield provider


@pytest.fixture
async def site(parley: Parley, provider: OidcProvider) -> AsyncIterator[Site]:
    settings = parley.app.settings.model_copy(
        update={
            "oidc_issuer": provider.base,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": SecretStr(CLIENT_SECRET),
            "oidc_name": "Acme <b>",
            "oidc_email_domains": ("example.org",),
            "oidc_groups": ("staff", "guests"),
        }
    )
    async with open_site(parley, replace(parley.app, settings=settings)) as site:
        yield site


def browser(site: Site) -> httpx.AsyncClient:
    """Return a browser without a session, in which the forms of our own pages are sent."""
    return httpx.AsyncClient(base_url=site.url, headers=BROWSER, timeout=30, verify=NO_CERTIFICATES)


async def begin(client: httpx.AsyncClient) -> str:
    """Click the button, go to the provider, and return where it leads back, without opening that."""
    start = await client.post("/login/oidc")
    match = REFRESH.search(start.text)
    assert match is not None, start.text
    async with httpx.AsyncClient(verify=NO_CERTIFICATES) as outside:
        back = urlsplit((await outside.get(unescape(match[1]))).headers["location"])
    assert back.path == CALLBACK
    return f"{back.path}?{back.query}"


async def follow(client: httpx.AsyncClient, answer: str) -> httpx.Response:
    """Come back from the provider, as by its redirect, and go on to where our page leads."""
    back = await client.get(answer, headers={"Sec-Fetch-Site": "cross-site"})
    match = REFRESH.search(back.text)
    return await client.get(unescape(match[1])) if match else back


async def test_a_person_signs_in_by_provider_and_subject(site: Site, provider: OidcProvider) -> None:
    async with browser(site) as client, browser(site) as later, browser(site) as other:
        assert "Sign in with Acme &lt;b&gt;" in (await client.get("/")).text
        assert (await follow(client, await begin(client))).status_code == 200
        assert await as_whom(client) == "You are Ann Lee"
        assert "Sign out of Acme &lt;b&gt;, too" in (await client.post("/logout")).text
        leaving = REFRESH.search((await client.post("/login/oidc/leave")).text)
        assert leaving is not None
        assert unescape(leaving[1]).startswith(f"{provider.base}/leave?from=here&client_id={CLIENT_ID}&post_logout")
        # Renamed, with another address: the same person. With the same address, but another subject: another one.
        provider.person |= {"name": "Ann Kay", "email": "kay@example.org"}
        await follow(later, await begin(later))
        assert await site.parley.value("SELECT count(*) FROM users") == 1
        provider.person |= {"sub": "another"}
        await follow(other, await begin(other))
    links = await site.parley.sql(
        "SELECT platform_user_id FROM user_platform_links WHERE platform = 'oidc' ORDER BY id"
    )
    assert [row[0] for row in links] == [f"{provider.base}#{ANN['sub']}", f"{provider.base}#another"]
    assert [row[0] for row in await site.parley.sql("SELECT login FROM web_sessions")] == ["oidc"] * 2


async def test_what_the_provider_says_wrongly_is_refused(
    site: Site, provider: OidcProvider, subtests: pytest.Subtests
) -> None:
    async with browser(site) as client:
        for lie in LIES:
            with subtests.test(str(lie)[:60]):
                provider.lies = lie
                assert "The sign-in was not accepted" in (await follow(client, await begin(client))).text
        provider.lies = {}
        for provider.signs in ("none", "HS256", "public key", "another key"):
            with subtests.test(provider.signs):
                assert "The sign-in was not accepted" in (await follow(client, await begin(client))).text
    assert provider.tokens == len(LIES) + 4
    assert await site.parley.value("SELECT count(*) FROM users") == 0


async def test_an_answer_counts_once_in_the_browser_that_asked(site: Site, provider: OidcProvider) -> None:
    async with browser(site) as client, browser(site) as victim:
        answer = await begin(client)
        await begin(victim)
        for wrong in (
            answer.replace("state=", "state=x"),
            answer.partition("state=")[0] + "state=é",
            f"{CALLBACK}?error=access_denied",
            CALLBACK,
        ):
            assert "The sign-in was not accepted" in (await follow(victim, wrong)).text
        # Somebody else's answer, though it is whole: no session of theirs.
        await begin(victim)
        assert "The sign-in was not accepted" in (await follow(victim, answer)).text
        wrong_issuer = await begin(client)
        assert "not accepted" in (await follow(client, f"{wrong_issuer}&iss=https://evil.example")).text
        kept = await begin(client)
        cookies = dict(client.cookies)
        back = await client.get(kept, headers={"Sec-Fetch-Site": "cross-site"})
        # The link stands in no address, opens nothing elsewhere, and asks where another page leads to it.
        assert "key=" not in back.text
        assert (await victim.get(ENTRANCE)).status_code == 401
        held = dict(client.cookies)
        led = await client.get(ENTRANCE, headers={"Sec-Fetch-Site": "cross-site"})
        assert "Go on as Ann Lee?" in led.text
        client.cookies.update(held)
        assert "set-cookie" in (await client.get(ENTRANCE)).headers
        assert await as_whom(client) == "You are Ann Lee"
        # The same answer again, with the cookie that belongs to it.
        async with httpx.AsyncClient(base_url=site.url, cookies=cookies, headers=BROWSER) as thief:
            assert "The sign-in was not accepted" in (await follow(thief, kept)).text
        assert refusal(await victim.post("/login/oidc", headers={"Sec-Fetch-Site": "cross-site"})).startswith("403")
    assert await site.parley.value("SELECT count(*) FROM web_sessions") == 1


async def test_only_verified_addresses_and_groups_of_the_settings_come_in(site: Site, provider: OidcProvider) -> None:
    outsiders: list[dict[str, Any]] = [
        {"email": "ann@example.org", "email_verified": False},
        {"email": "ann@example.org", "email_verified": "true"},
        {"email": "ann@example.org.evil.example"},
        {"email": None},
        {"groups": ["others"]},
        {"groups": "staff"},
        {"groups": None},
    ]
    async with browser(site) as client:
        for provider.lies in outsiders:
            page = (await follow(client, await begin(client))).text
            assert "not one of those that may sign in" in page, provider.lies
        # Who is known there by another account than the one meant gets out of it.
        assert '<a href="/">Sign in another way</a>' in page
        assert "Sign out of Acme &lt;b&gt;<" in page
        assert REFRESH.search((await client.post("/login/oidc/leave")).text)
        # Told beside the token, first of somebody else.
        provider.lies = {"email": None, "email_verified": None, "groups": None}
        provider.userinfo = ANN | {"sub": "another"}
        assert "The sign-in was not accepted" in (await follow(client, await begin(client))).text
        provider.userinfo = ANN
        assert await site.parley.value("SELECT count(*) FROM users") == 0
        assert (await follow(client, await begin(client))).status_code == 200
        assert await as_whom(client) == "You are Ann Lee"


async def test_a_person_who_is_signed_in_links_an_account_that_is_nobody_else_s(
    site: Site, provider: OidcProvider
) -> None:
    async with site.browser("ann") as ann, site.browser("bob") as bob, browser(site) as phone:
        assert "Link Acme &lt;b&gt;" in (await ann.get("/me/accounts")).text
        linked = await follow(ann, await begin(ann))
        assert provider.base in linked.text
        assert "signs in somebody else" in (await follow(bob, await begin(bob))).text
        await follow(phone, await begin(phone))
        assert await as_whom(phone) == await as_whom(ann)
        # The session in which the linking began has ended meanwhile.
        provider.person |= {"sub": "another"}
        answer = await begin(bob)
        await bob.post("/logout")
        assert "The sign-in was not accepted" in (await follow(bob, answer)).text
        assert refusal(await bob.get("/page/chats")).startswith("401")
    assert await site.parley.value("SELECT count(*) FROM user_platform_links WHERE platform = 'oidc'") == 1


async def test_without_a_provider_there_is_none_and_a_wrong_one_is_said(parley: Parley, provider: OidcProvider) -> None:
    async with open_site(parley) as bare, browser(bare) as client:
        assert "Sign in with" not in (await client.get("/")).text
        assert (await client.post("/login/oidc")).status_code == 404
        assert (await client.get(CALLBACK)).status_code == 404
        assert (await client.post("/login/oidc/leave")).status_code == 404
    own = {"oidc_issuer": provider.base, "oidc_client_id": CLIENT_ID, "public_url": "https://parley.example"}
    app = replace(parley.app, settings=parley.app.settings.model_copy(update=own))
    async with open_site(parley, app) as other, browser(other) as client:
        # No other host of the domain can put an answer of its own in the place of this one.
        cookie = (await client.post("/login/oidc")).headers["set-cookie"]
        assert re.match(r"__Host-parley_oidc=\S+; HttpOnly; Max-Age=600; Path=/; SameSite=lax; Secure$", cookie)
        for wrong in ({"issuer": "https://evil.example"}, {"jwks_uri": "ftp://keys.example"}, {"token_endpoint": None}):
            provider.metadata = wrong
            refused = await client.post("/login/oidc")
            assert (refused.status_code, "compare OIDC_ISSUER" in refused.text) == (503, True)
        for _ in range(26):
            await client.post("/login/oidc")
        limited = await client.post("/login/oidc")
    assert "too many attempts" in limited.text
    for issuer, client_id in (("http://login.example", "x"), ("login.example", "x"), ("https://login.example", None)):
        with pytest.raises(ValidationError, match=r"write the provider's address|OIDC_ISSUER needs it"):
            Settings(oidc_issuer=issuer, oidc_client_id=client_id)
