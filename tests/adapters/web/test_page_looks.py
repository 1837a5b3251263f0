"""How the page looks with what does not fit: on a phone, on paper, from the right to the left."""

from pathlib import Path

from playwright.async_api import Browser, expect

from tests.adapters.web.browser import Window, open_window
from tests.adapters.web.conftest import Site
from tests.standins.openai_api import Answer

ARABIC = "- عنصر أول\n- عنصر ثان\n\n> اقتباس\n\n| اسم | عدد |\n|---|---|\n| شاي | ثلاثة |"
WIDE = f"| a | b |\n|---|---|\n| {'word ' * 9} | {'x' * 120} |\n\n```\n{'long line ' * 40}\n```"


async def test_a_text_from_the_right_has_its_marks_and_its_first_column_there(site: Site, window: Window) -> None:
    site.parley.model.play([Answer(ARABIC)])
    await window.says("in Arabic, please")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    edges = await window.answer().evaluate(
        """answer => {
            const right = (part) => answer.querySelector(part).getBoundingClientRect().right;
            const { borderRightWidth } = getComputedStyle(answer.querySelector("blockquote"));
            return [right("ul") - right("li") > 20, borderRightWidth, right("th") > right("th:last-child")];
        }"""
    )
    assert edges == [True, "3px", True]


async def test_on_paper_nothing_is_cut_off(site: Site, window: Window) -> None:
    site.parley.model.play([Answer(WIDE)])
    await window.says("a wide table, please")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await window.page.set_viewport_size({"width": 700, "height": 900})
    await window.page.emulate_media(media="print")
    for part in (window.answer().locator("pre"), window.answer().locator(".table")):
        assert await part.evaluate("part => part.scrollWidth <= part.clientWidth")
    for control in ("#menu", "#open-chat-menu"):
        await expect(window.page.locator(control)).to_be_hidden()


async def test_a_file_with_a_long_name_leaves_the_send_button_in_sight(
    site: Site, chromium: Browser, tmp_path: Path
) -> None:
    file = tmp_path / f"{'a long name ' * 12}.txt"
    file.write_text("oolong")
    async with open_window(chromium, site.link("ann"), viewport={"width": 360, "height": 700}) as window:
        await window.page.set_input_files("#files", file)
        await expect(window.page.locator("#send")).to_be_in_viewport(ratio=1)
        await expect(window.page.locator("#picked .remove")).to_be_in_viewport(ratio=1)
        await window.page.locator("#send").click()
        await expect(window.answer()).to_have_attribute("aria-busy", "false")
        await expect(window.page.locator(".person .chip")).to_be_in_viewport(ratio=1)
