"""Who may see the admin pages, and what everybody else gets: what an address gets where nothing is."""

import re

import httpx
from msgspec.structs import replace
from pydantic import SecretStr

from tests.adapters.web.admin.conftest import make_person, post
from tests.adapters.web.conftest import BROWSER, NO_CERTIFICATES, Site, open_site

MISSING = "/nowhere"


def content(response: httpx.Response) -> tuple[int, str, str | None]:
    """Return what a stranger can tell of an answer."""
    return response.status_code, response.text, response.headers.get("content-type")


async def test_the_pages_are_missing_for_all_but_admins_at_our_own_address(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await make_person(site, "bob", "user")
    async with httpx.AsyncClient(base_url=site.url, headers=BROWSER, verify=NO_CERTIFICATES) as stranger:
        absence = content(await stranger.get(MISSING))
        for method in ("GET", "POST", "DELETE", "OPTIONS"):
            assert content(await stranger.request(method, "/admin")) == absence
        assert content(await stranger.get("/admin/")) == absence
        assert content(await stranger.get("/admin", headers={"Authorization": "Bearer test-token"})) == absence
    async with site.browser("bob") as bob:
        assert content(await bob.get("/admin")) == absence
        assert content(await bob.post("/admin", data={"act": "undo", "entry": "1"})) == absence
    async with site.browser("ann") as ann:
        typed = await ann.get("/admin/people/")
        assert (typed.status_code, typed.headers["location"]) == (307, "/admin/people")
        page = await ann.get("/admin")
        assert page.status_code == 200
        assert "form-action 'self'" in page.headers["content-security-policy"]
        assert page.headers["cache-control"] == "no-store"
        # A browser without TLS tells the site of no form, and the origin only with this.
        assert page.headers["referrer-policy"] == "same-origin"
        for host in ("evil.example", "127.0.0.1.evil.example", "[::1", "10.0.0.1"):
            assert content(await ann.get("/admin", headers={"Host": host})) == absence
        for host in ("localhost:8080", "[::1]:8080", "127.0.0.2"):
            assert (await ann.get("/admin", headers={"Host": host})).status_code == 200
        # Paused, demoted: asked of the database at each request.
        await site.parley.sql("UPDATE users SET paused_at = now() WHERE permission_level = 'admin'")
        assert content(await ann.get("/admin")) == absence
        await site.parley.sql("UPDATE users SET paused_at = NULL, permission_level = 'user'")
        assert content(await ann.get("/admin")) == absence


async def test_the_checks_are_those_of_the_command(site: Site) -> None:
    await make_person(site, "ann", "admin")
    settings = site.parley.app.settings
    url = SecretStr(site.parley.app.database.address.libpq(as_owner=True))
    given = replace(site.parley.app, settings=settings.model_copy(update={"database_url": url}))
    async with open_site(site.parley, given) as same, site.browser("ann") as ann:
        page = await post(ann, f"{same.url}/admin", act="check")

    assert page.status_code == 200
    for subject, state in (("database", "in order"), ("sandbox", "in order"), ("models", "look")):
        assert re.search(rf">{subject}</th><td><span class=\"badge \w+\">{state}<", page.text), subject
