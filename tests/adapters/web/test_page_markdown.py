"""How answers look on the page: Markdown in a real browser."""

import asyncio
from typing import Any

from playwright.async_api import expect

from tests.adapters.web.browser import Window
from tests.adapters.web.conftest import Site
from tests.adapters.web.test_page_chats import examine
from tests.standins.openai_api import Answer

DOCUMENT = """# Title

| left | right | centre |
|:-----|------:|:------:|
| a    | 1     | *x*    |

- [x] done
- [ ] to do
  - nested
    1. deeper

A note[^1], a [link](https://example.org/a?b=c) and https://example.org.

[^1]: The note itself.

שלום עולם

```python
def f(x):
    return "<b>" + x  # comment
```

```nosuchlanguage
plain
```

```java
int x = 1; // LONG
```
""".replace("LONG", "a" * 400)
ATTACKS = """[a](JaVaScRiPt:alert(1)) [b](vbscript:x) [c](//evil.example/c) [g](#hash) [h](/chat/stop)
![d](data:image/svg+xml,<svg/onload=alert(1)>) ![f](https://evil.example/files/1?until=9&signature=x)
<form action=/chat/stop><input name=x></form> <style>*{display:none}</style> <a id="log" name="text">clobber</a>
<svg><a xlink:href="javascript:alert(1)">x</a></svg> ![e](/files/1?until=9&signature=x "t")

[^x<img src=x onerror=alert(1)>]: y

```x" onmouseover="alert(1)
code
```

[ref]: javascript:alert(1)
[ref] <math><mtext></form><form><mglyph><style></math><img src onerror=alert(1)>"""
UNWANTED = "form, input, style, svg svg, math, script, iframe, [onerror], [onmouseover], [name], [id]"


async def test_an_answer_has_what_markdown_has(window: Window, site: Site) -> None:
    site.parley.model.play([Answer(DOCUMENT)])
    await window.says("show me")
    text = window.answer().locator(".text")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")

    await expect(text.locator("h2")).to_have_text("Title")
    aligned = await text.locator("td").evaluate_all("all => all.map(each => getComputedStyle(each).textAlign)")
    assert aligned == ["start", "right", "center"]
    boxes = text.locator("li.task > input")
    assert await boxes.evaluate_all("all => all.map(each => [each.checked, each.disabled])") == [
        [True, True],
        [False, True],
    ]
    await expect(text.locator("ul ul ol li")).to_have_text("deeper")
    await expect(text.locator("sup")).to_have_text("1")
    await expect(text.locator("section.notes li")).to_have_text("The note itself.")
    assert (
        await text.locator("a").evaluate_all("all => all.map(each => each.rel)") == ["noopener noreferrer nofollow"] * 2
    )
    assert await text.get_by_text("שלום עולם").evaluate("each => getComputedStyle(each).direction") == "rtl"
    code = text.locator(".code").first
    await expect(code.locator(".hljs-keyword").first).to_have_text("def")
    await expect(code.locator("code")).to_have_text('def f(x):\n    return "<b>" + x  # comment')
    await expect(code.locator(".code-head span")).to_have_text("python")
    await expect(text.locator(".code").nth(1).locator("code")).to_have_text("plain")
    # Grammars are slow with long lines.
    await expect(text.locator(".code").nth(2).locator("code span")).to_have_count(0)
    await window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await code.get_by_role("button", name="Copy").click()
    assert (await window.page.evaluate("navigator.clipboard.readText()")).startswith("def f(x):")


async def test_while_a_text_grows_only_its_last_block_is_drawn_again(window: Window, site: Site) -> None:
    go_on = asyncio.Event()
    site.parley.model.play([Answer("First block.\n\nSecond **block**", chunk_chars=4, end=go_on)])
    await window.says("grow")
    blocks = window.answer().locator(".text > p")
    await expect(blocks).to_have_count(2)
    await expect(blocks.last).to_contain_text("Second")
    first: Any = await blocks.first.element_handle()
    go_on.set()
    await expect(window.answer().locator("strong")).to_have_text("block")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")

    assert await first.evaluate("block => block.isConnected")


async def test_nothing_that_markdown_can_carry_runs_or_is_loaded(window: Window, site: Site) -> None:
    window.expected_complaint = "404 (Not Found)"
    own_files = f"{site.parley.app.files.storage.base_url}/files"
    site.parley.model.play([Answer(f"{ATTACKS}\n\n![own]({own_files}/1?until=9&signature=x)")])
    await window.says(ATTACKS)
    await expect(window.answer()).to_have_attribute("aria-busy", "false")

    log = window.page.locator("#log")
    await expect(
        log.locator("form, input, style, svg svg, math, script, iframe, [onerror], [onmouseover], [name], [id]")
    ).to_have_count(0)
    links = await log.locator("a").evaluate_all("all => all.map(each => each.href)")
    # Of a model's pictures the filter has made links already.
    ours = f"{site.url}/files/1?until=9&signature=x"
    images = await log.locator("img").evaluate_all("all => all.map(each => each.src)")
    assert images == [ours]
    assert links == ["https://evil.example/files/1?until=9&signature=x", ours]
    assert not any("evil.example" in request for request in window.requests)
    # The file's link is not signed.


MATHS = r"""It costs $5 or $6, and $x^2 \le y$ holds; \(a_b\) too.

$$
\frac{a}{b} = \sqrt{2}
$$

\[ \href{javascript:alert(1)}{x} \]

$\nonsense{$ and $a<img src=x onerror=alert(1)>b$ `$code$`
"""


# A formula of millions of letters, two that no browser ever lays out, openings without an end; then one that is drawn.
BOMBS = "\n\n".join(
    [
        r"$\def\a{" + "x" * 3000 + "}" + r"\a" * 190 + "$",
        "$" + r"\left(" * 250 + "x" + r"\right)" * 250 + "$",
        "$" + r"\cancel{" * 400 + "x" + "}" * 400 + "$",
        "\\[x\n" * 5000,
        "- $$x\n- y$$",
        r"\(x" * 10_000,
        "$x$",
    ]
)


async def test_maths_is_drawn_by_the_browser_and_runs_nothing(window: Window, site: Site) -> None:
    site.parley.model.play([Answer("Plain."), Answer(MATHS)])
    await window.says("hello")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    assert not any("katex" in request for request in window.requests)
    await window.says("maths")
    await expect(window.answer().locator(".formula mfrac")).to_have_count(1)
    text = window.answer().locator(".text")
    await expect(text.locator("math")).to_have_count(4)
    await expect(text.locator("msup")).to_have_count(1)
    await expect(text).to_contain_text("It costs $5 or $6, and")
    await expect(text.locator("img, script, a, annotation")).to_have_count(0)
    await expect(text.locator("code")).to_have_count(3)
    await examine(window.page, "maths-1280-light")
    site.parley.model.play([Answer(BOMBS)])
    await window.says("bombs")
    await expect(window.answer()).to_have_attribute("aria-busy", "false")
    await expect(window.answer().locator("math")).to_have_count(1)
    await expect(window.answer().locator("code")).to_have_count(3)
    await expect(window.answer().locator("li")).to_have_text(["$$x", "y$$"])
