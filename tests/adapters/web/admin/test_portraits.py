"""The picture of a persona: uploaded, shown beside answers, taken back; what is no picture, and who may not."""

import asyncio
import io
import re
from html import unescape

import httpx
import pytest
from PIL import Image
from playwright.async_api import Browser, FilePayload, Route, expect
from sqlalchemy.exc import DBAPIError

from tests.adapters.web.admin.conftest import TOKEN, admin_window, look, make_person, post
from tests.adapters.web.browser import Window, open_window, take_picture
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page_chats import examine
from tests.support.pictures import picture

HREF = re.compile(r"/pictures/([0-9a-f]{64})")
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>document.title = 1</script></svg>'
DEFINE = "SELECT admin.define_persona(:name, 'You are wise.', platform => 'web')"


async def upload(client: httpx.AsyncClient, page: str, content: bytes) -> httpx.Response:
    """Send the form of a picture as a browser does."""
    token = TOKEN.search((await client.get(page)).text)
    assert token is not None
    fields = {"token": unescape(token[1]), "act": "picture"}
    return await client.post(page, data=fields, files={"picture": ("a.svg", content, "image/svg+xml")})


async def test_a_persona_has_a_picture_that_is_written_anew_and_taken_back(site: Site) -> None:
    await make_person(site, "ann", "admin")
    await make_person(site, "bob")
    await site.parley.sql(DEFINE, name="Sage")
    sage = await site.parley.value("SELECT id FROM personas")
    page = f"/admin/personas/{sage}"
    exif = Image.Exif()
    exif[0x010F] = "The Camera"
    async with site.browser("ann") as ann, site.browser("bob") as bob:
        for content in (SVG, b"GIF89a" + SVG, b"", picture()[:40], picture((9000, 9000))):
            refusal = await upload(ann, page, content)
            assert refusal.status_code == 422
            assert 'class="refusal"' in refusal.text
        assert (await upload(ann, page, b"x" * (5 * 1024 * 1024))).status_code == 422
        assert await site.parley.value("SELECT count(*) FROM pictures") == 0

        response = await upload(ann, page, picture((400, 200), "JPEG", exif=exif))
        assert "The persona Sage has this picture." in response.text
        digest = HREF.findall(response.text)[0]
        download = await bob.get(f"/pictures/{digest}", headers={"Cookie": ""})
        assert (download.headers["content-type"], download.headers["x-content-type-options"]) == (
            "image/jpeg",
            "nosniff",
        )
        # A browser keeps it, and asks whether the persona still has it.
        assert download.headers["cache-control"] == "public, no-cache"
        for tags in (download.headers["etag"], f'"other", W/{download.headers["etag"]}', "*"):
            again = await bob.get(f"/pictures/{digest}", headers={"If-None-Match": tags})
            assert (again.status_code, again.content) == (304, b"")
        assert b"Camera" not in download.content
        assert Image.open(io.BytesIO(download.content)).size == (256, 256)
        for missing in (digest[:-1] + ("1" if digest[-1] == "0" else "0"), digest.upper(), "..%2f" + digest, "1"):
            answer = await bob.get(f"/pictures/{missing}")
            assert (answer.status_code, answer.text) == (404, (await bob.get("/nothing")).text)
        assert (await bob.post(page, data={"act": "no-picture", "token": "x"})).status_code == 404
        await take_back(site, ann, page, digest)


async def take_back(site: Site, ann: httpx.AsyncClient, page: str, digest: str) -> None:
    """The log and the versions hold the digest and no bytes; undoing and going back give a picture back."""
    query = "SELECT picture FROM personas WHERE name = 'Sage'"
    bytes_in_log = "SELECT max(length(audit_log::text)) < 2000 FROM audit_log"
    entry, action = (await site.parley.sql("SELECT id, action FROM admin.audit LIMIT 1"))[0]
    assert (action, await site.parley.value(bytes_in_log)) == ("update", True)
    assert "has its old values again" in (await post(ann, page, act="undo", entry=str(entry))).text
    assert await site.parley.value(query) is None
    assert (await ann.get(f"/pictures/{digest}", headers={"If-None-Match": f'"{digest}"'})).status_code == 404
    await post(ann, f"{page}/versions", act="roll-back", key="2")
    assert await site.parley.value(query) == digest
    assert (await ann.get(f"/pictures/{digest}")).status_code == 200
    assert "has no picture" in (await post(ann, page, act="no-picture")).text
    assert await site.parley.value(query) is None
    # What is no picture gets into the table by no function, and no persona names one that is not there.
    for statement in (
        "SELECT admin.set_picture('Sage', convert_to('<svg>', 'UTF8'))",
        "UPDATE personas SET picture = repeat('a', 64)",
    ):
        with pytest.raises(DBAPIError, match="picture"):
            await site.parley.sql(statement)


async def test_the_picture_stands_beside_answers_and_in_the_picker(site: Site, chromium: Browser) -> None:
    await make_person(site, "ann", "owner")
    await site.parley.sql(DEFINE, name="Sage")
    await site.parley.sql("SELECT admin.define_persona('Poet', 'You rhyme.', open_to => 'guest')")
    sage = await site.parley.value("SELECT min(id) FROM personas")
    async with admin_window(chromium, site, "ann", f"/admin/personas/{sage}") as window:
        page = window.page
        file = FilePayload(name="sage.png", mimeType="image/png", buffer=picture((300, 300)))
        await page.get_by_label("Upload one").set_input_files(file)
        await page.get_by_role("button", name="Upload", exact=True).click()
        await expect(page.locator("#result")).to_contain_text("has this picture")
        await expect(page.get_by_alt_text("The picture of Sage")).to_be_visible()
        assert await look(page, "portrait") == []
        await page.goto(f"{site.url}/admin/personas")
        assert await look(page, "portraits") == []
    async with open_window(chromium, site.link("ann")) as window:
        await see_the_picture(window)


async def see_the_picture(window: Window) -> None:
    """See it beside answers, live and read again, and in the picker while its persona is chosen."""
    page = window.page
    await window.says("hello")
    face = page.locator(".agent .face")
    await expect(face).to_be_visible()
    assert await face.evaluate("image => image.decode().then(() => image.naturalWidth)") == 256
    await expect(page.locator("#face")).to_be_visible()
    await window.says("/persona")
    await expect(page.locator(".agent[aria-busy=false]")).to_have_count(2)
    await page.reload()
    await expect(face).to_have_count(1)
    await expect(page.get_by_role("article", name="Sage")).to_have_count(1)
    await examine(page, "portrait")
    await page.set_viewport_size({"width": 360, "height": 780})
    await page.emulate_media(color_scheme="dark")
    await examine(page, "portrait-360")
    await take_picture(page, "portrait-360-dark")
    await page.set_viewport_size({"width": 1280, "height": 780})
    await page.get_by_label("Persona").select_option("Poet")
    await expect(page.locator("#face")).to_be_hidden()


async def test_an_answer_that_comes_before_the_page_knows_who_answers_has_its_face(
    site: Site, chromium: Browser
) -> None:
    await make_person(site, "ann", "admin")
    await site.parley.sql(DEFINE, name="Sage")
    sage = await site.parley.value("SELECT id FROM personas")
    async with site.browser("ann") as ann:
        assert (await upload(ann, f"/admin/personas/{sage}", picture((300, 300)))).status_code == 200
    is_answered = asyncio.Event()

    async def hold(route: Route) -> None:
        await is_answered.wait()
        await route.continue_()

    async with open_window(chromium, site.link("ann")) as window:
        await window.page.route("**/page/state", hold)
        await window.page.reload()
        await window.says("hello")
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        is_answered.set()

        await expect(window.page.get_by_role("article", name="Sage").locator(".face")).to_be_visible()
