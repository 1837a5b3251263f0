"""Links, images and HTML: whatever a model writes, no program shows those of strangers."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adapters.discord.sending import reply as discord
from adapters.discord.sending.live import render_live
from adapters.slack.sending import render as slack
from agent.outflow.hosts import Hosts, hosts_in
from agent.outflow.links import MARKED, LinkFilter, LinkRules
from agent.outflow.reply import Secrets, TextStream
from tests.agent.outflow.readers import COMMONMARK, find_links, in_commonmark, in_discord

OWN = "http://127.0.0.1:8080/files/"
STRICT = LinkRules(OWN, Hosts({"good.example", "127.0.0.1"}))
OPEN = LinkRules(OWN)

MARKS = ["](", "![", "]: ", "[x](", "```", "````", "~~~", "``", "\n\n", "\n```\n", "```py\n", "    ", "> ", "- ", "1. "]
TAGS = ["<br>", "<b>", "</b>", "<div>", "<pre>", "<!--", "-->", "<!x ", "<?", "<![CDATA[", "<a href=", "<img src="]
STRANGERS = [
    "https://evil.example/x",
    "<https://evil.example",
    "www.evil.example",
    "evil.example/x",
    "//evil.example/x",
    "<https://evil.example/x|good>",
    "HTTPS:\\/\\/evil.example\u3002",
    "steam://3232235777/x",
]
FRIENDS = ["https://good.example/x", "https://good.example", OWN, f"![ours]({OWN}3?until=1&signature=ab)"]
PARTS = [
    "javascript:alert(1)",
    "data:text/html,x",
    "&#58;",
    "&#104;",
    "https:",
    "http",
    "\u200b",
    "\u3002",
    "word",
    "ok ",
]
TABLE = "| a | b |\n|---|---|\n"
PIECES = [*"[]()!<>`|\\\"'*_~:;@/?#&=-.0 \n", *MARKS, *TAGS, *STRANGERS, *FRIENDS, *PARTS, TABLE]
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=24).map("".join)


def filter_text(text: str, rules: LinkRules = STRICT) -> str:
    links = LinkFilter(rules)
    return links.feed(text) + links.finish()


def is_ours(link: str) -> bool:
    return link.partition(" ")[2].startswith(("https://good.example", "http://good.example", OWN, "image " + OWN))


@settings(max_examples=300)
@given(MARKDOWN)
@example("foo ``` bar\n\n```\nhttps://evil.example/x\n```\n")
@example("````\n```\nhttps://evil.example/x\n````\n")
@example("a ` b\n`[x](https://evil.example/x)`")
@example("| ` | [x](https://evil.example/x) ` |\n|---|---|\n| ` | [x](https://evil.example/x) ` |")
@example("<div>\n```\n<a href=https://evil.example/x>\n```\n")
@example("<br>\n```\n<a href=https://evil.example/x>\n```\n")
@example("<!x\n```\n>\n<a href=https://evil.example/x>\n```\n")
@example("[a `](https://evil.example/x)`")
@example("\\<img src=https://evil.example/x> \\\\<img src=https://evil.example/x>")
@example("```| a | b |\n|---|---|\n<div>")
@example("<!x> <img src=https://evil.example/x>")
@example("`a\\`<img src=https://evil.example/x>")
@example("https://good.example://3232235777/x")
@example("https://good.example*@evil.example/x https://good.example\\@evil.example/")
@example("[x](&#104;ttps://evil.example/x) [y](https\\://evil.example) [z](\\\\evil.example)")
def test_no_program_shows_a_link_of_strangers(text: str) -> None:
    leaks = [link for link in find_links(filter_text(text)) if not is_ours(link)]

    assert leaks == [], filter_text(text)


@settings(max_examples=100)
@given(MARKDOWN)
@example("```py\n\n```\n\n```\nhttps://evil.example/x\n```")
@example("x" * 1985 + "\n```\ncode" + "\n" * 8 + "```\n\n```\nhttps://evil.example/x\n```")
@example("x" * 2000 + "www.evil.example/x")
@example("| a | b |\n|---|---|\n``` | x |\nhttps://evil.example/x\n```")
def test_no_message_of_a_platform_shows_a_link_of_strangers(text: str) -> None:
    safe = filter_text(text)
    leaks = [link for part in (*discord.render(safe).parts, render_live(safe)) for link in in_discord(part)]
    leaks += [link for part in slack.render(safe).parts for link in in_commonmark(COMMONMARK.parse(part))]

    assert [link for link in leaks if "evil" in link and not is_ours(f"link {link}")] == [], safe


@settings(max_examples=200)
@given(MARKDOWN)
@example("](<div>")
def test_no_program_loads_an_image_of_others_or_html_in_any_turn(text: str) -> None:
    links = find_links(filter_text(text, OPEN))
    leaks = [link for link in links if link.startswith(("link image", "link tag", "link javascript:", "link data:"))]

    assert [link for link in leaks if not is_ours(link)] == [], filter_text(text, OPEN)


@settings(max_examples=200)
@given(MARKDOWN, st.sampled_from([STRICT, OPEN]), st.data())
def test_a_stream_gives_the_same_text_however_it_is_cut(text: str, rules: LinkRules, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[first:last] for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    for links in (LinkFilter(rules), TextStream(Secrets(), rules)):
        parts = [links.feed(piece) for piece in pieces]

        assert "".join([*parts, links.finish()]) == filter_text(text, rules)


@pytest.mark.parametrize(
    "text",
    [
        "```py\nhttps://evil.example/x and <a ```\n[x](https://evil.example/x)",
        "www.evil.example\u3002eve@evil.example www.evil.example__\u3002eve@evil.example: x",
        "https://evil.example\u3002a.b.example x",
    ],
)
def test_a_stream_that_comes_by_letters_gives_the_same_text(text: str) -> None:
    for links in (LinkFilter(STRICT), TextStream(Secrets(), STRICT)):
        assert "".join([*map(links.feed, text), links.finish()]) == filter_text(text)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(PIECES) | st.text(alphabet="a.W:/~\u0661\u3002\u00e9-? \n", max_size=4), max_size=6).map(
        "".join
    )
)
@example("www.example")
@example("evil.example/x")
@example("a.b.cloud")
@example("\u0661.2.com:8")
@example("x" * 64 + ".evil")
@example("~~~\nopen")
def test_what_the_filter_would_change_is_never_passed_by_it(text: str) -> None:
    for rules in (STRICT, OPEN):
        assert filter_text(text, rules) == text or MARKED.search(text)


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("See https://evil.example/?q=1.", "See evil[.]example/?q=1."),
        ("[x](https://evil.example/?q=1)", "[x] (evil[.]example/?q=1)"),
        ("![x](https://evil.example/?q=1)", "[x] (evil[.]example/?q=1)"),
        ("4200.data.evil.com", "4200[.]data[.]evil[.]com"),
        ("a.b.c.d.e.f.g.h.i.evil.com/1", "a[.]b[.]c[.]d[.]e[.]f[.]g[.]h[.]i[.]evil[.]com/1"),
        ("os.path.join, report.txt and Node.js 1.5/2", "os.path.join, report.txt and Node.js 1.5/2"),
        ("`x = List<int>` and `a | b`", "`x = List<int>` and `a | b`"),
        ("```\ncurl https://evil.example\n```", "```\ncurl https://evil.example\n```"),
        (
            "**https://good.example/x**, [y](https://www.good.example)",
            "**https://good.example/x**, [y](https://www.good.example)",
        ),
        ("```\nopen", "```\nopen\n```"),
        ("Use a <details> and </details> there.", "Use a \\<details> and \\</details> there."),
        (r"\<div> \\<div> \\\<div>", r"\<div> \\\<div> \\\<div>"),
        ("a <!here> b\n<!here>", "a <!here> b\n\\<!here>"),
    ],
)
def test_the_rest_of_the_text_stays_readable(text: str, output: str) -> None:
    assert filter_text(text) == output


def test_in_an_ordinary_turn_links_stay_and_images_become_links() -> None:
    assert filter_text("[x](https://evil.example) https://evil.example ![y](https://evil.example/y.png)", OPEN) == (
        "[x](https://evil.example) https://evil.example [y](https://evil.example/y.png)"
    )


def test_punycode_and_letters_are_the_same_host_and_look_alikes_are_not() -> None:
    rules = LinkRules(OWN, Hosts({"bücher.example"}))

    assert filter_text("https://xn--bcher-kva.example/", rules) == "https://xn--bcher-kva.example/"
    assert filter_text("https://büсher.example/", rules) == "büсher[.]example/"  # noqa: RUF001  # a Cyrillic letter
    assert "://" not in filter_text("https://good\u200b.example/ https://good.example\u3002evil.example/")


@pytest.mark.parametrize(
    ("trusted", "other"), [("strasse.example", "stra\u00dfe.example"), ("\u03a3\u03a3.example", "\u03c3\u03c2.example")]
)
def test_letters_that_browsers_tell_apart_are_another_host(trusted: str, other: str) -> None:
    rules = LinkRules(OWN, Hosts({trusted}))

    assert filter_text(f"https://{trusted}/x", rules) == f"https://{trusted}/x"
    assert "://" not in filter_text(f"https://{other}/x", rules)
    assert filter_text(f"https://{other}/x", LinkRules(OWN, Hosts({other}))) == f"https://{other}/x"


class Counting(LinkFilter):
    """Counts the characters among which a place to cut the stream is looked for."""

    read = 0

    def _find_cut(self) -> int:
        self.read += len(self._pending)
        return super()._find_cut()


@pytest.mark.parametrize("unit", ["[a]: `", "]( ", "[x]( ", "![a]( ", "<a ", "word "])
def test_the_work_for_a_stream_grows_only_with_its_length(unit: str) -> None:
    text = unit * (20_000 // len(unit))
    links = Counting(STRICT)

    output = "".join([*(links.feed(text[at : at + 40]) for at in range(0, len(text), 40)), links.finish()])

    assert links.read <= 10 * len(text)
    assert output == filter_text(text)


def test_a_word_of_many_letters_is_no_host_and_is_not_encoded_as_one() -> None:
    # As a host it would take longer than a test may.
    word = "".join(map(chr, range(0x4E00, 0x9E00)))

    assert hosts_in(f"See {word}.com and bücher.example") == {f"{word}.com", "xn--bcher-kva.example"}
    assert not Hosts(["a.example"]).allow(f"{word}.com")


def test_ordinary_words_are_sent_as_they_come() -> None:
    for links in (LinkFilter(STRICT), TextStream(Secrets(), STRICT)):
        assert [links.feed(f"word{number} ") for number in range(300)] == [f"word{number} " for number in range(300)]
