"""Text of people, models and servers is read in time that grows with its length only, whatever it is made of."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from adapters.chat.parts import split_text
from adapters.discord.sending import reply as discord
from adapters.discord.sending.live import render_live
from adapters.discord.sending.tables import tables_to_blocks
from adapters.slack.events.incoming import to_text
from adapters.slack.sending import render as slack
from adapters.web.api.bodies import FILE_CONTENT, STRING
from adapters.web.api.openai.files import CONTENT_ADDRESS
from agent.commands import COMMAND_LINE
from agent.journal.quotes import CONTEXT_TAGS, LINE_ENDS
from agent.llm.offline.intents import understand, without_speaker
from agent.llm.offline.model import _to_exchange
from agent.llm.protocols.plain_text import without_results
from agent.llm.protocols.protocol import _to_call
from agent.llm.protocols.scanner import Block, Scanner
from agent.llm.providers.errors import COUNTED, IMAGES_REFUSED, TOO_LONG, WINDOW
from agent.memory.summaries.validation import find_invented_names
from agent.outflow.hosts import hosts_in
from agent.outflow.reply import Outflow, OutflowRules, Secrets
from agent.tools.mcp.remote_tools import to_description
from agent.tools.mcp.transports import REQUEST_ID
from agent.turn.confirmations.decisions import TYPED
from agent.turn.planner.plan import REFERENCE
from agent.turn.policies.calls import NUMBER, QUOTED
from modules.calendar.holidays import find_holiday
from shared.arithmetic import NoSum, find_sum, work_out
from shared.dates.hints import resolve
from shared.errors import ToolError
from shared.files.filenames import clean_filename
from shared.memory.tokenizer import split_words
from shared.redaction import redact_text
from shared.text import INVISIBLE, clean, cut, harmless

CHARS = 100_000
# Processor time: what grows with the length takes a tenth of it, what grows with the square takes longer.
MOST_SECONDS = 3.0
NOW = datetime(2026, 5, 1, tzinfo=UTC)
KINDS = frozenset({"tool", "tool_call", "delegate"})


def scan(text: str, chunk: int) -> None:
    """Read a model's answer in chunks, and the blocks that were found."""
    scanner = Scanner(KINDS)
    for start in range(0, len(text), chunk):
        scanner.feed(text[start : start + chunk])
    scanner.close()
    for block in scanner.blocks[:100]:
        _to_call(block)


def as_bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def send(text: str, *hosts: str, chunk: int = CHARS) -> str:
    """Filter a reply in chunks; with hosts, strictly."""
    outflow = Outflow(OutflowRules(secrets=Secrets(["a1b2c3d4" * 8])))
    if hosts:
        outflow.restrict(hosts)
    pieces = [outflow.feed(text[start : start + chunk]) for start in range(0, len(text), chunk)]
    return "".join([*pieces, outflow.finish()])


READERS: dict[str, Callable[[str], object]] = {
    "parts of 2000": lambda text: split_text(text, 2000),
    "parts of 20": lambda text: split_text(text, 20),
    "Discord's answer": lambda text: discord.render(clean(text)),
    "Discord's live text": render_live,
    "Slack's answer": slack.render,
    "Slack's notice": slack.to_notice,
    "Slack's message": lambda text: to_text({"text": text}, "U1", {}),
    "the terminal": harmless,
    "a reply": send,
    "a reply with few links": lambda text: send(text, "example.org"),
    "a streamed reply with few links": lambda text: send(text, "example.org", chunk=29),
    "hosts that are trusted": hosts_in,
    "a summary": lambda text: find_invented_names(text[:4000], ["", text]),
    "an answer": lambda text: scan(text, len(text)),
    "a streamed answer": lambda text: scan(text, 29),
    "an invalid block": lambda text: _to_call(Block("tool", text)),
    "a message without results": without_results,
    "a request to the offline model": lambda text: (understand(text), without_speaker(text)),
    "a message to the offline model": lambda text: _to_exchange([{"role": "user", "content": text}]),
    "a sum": lambda text: (find_sum(text), work_out(text)),
    "a reference in a plan": lambda text: list(REFERENCE.finditer(text)),
    "an error of a tool": lambda text: NUMBER.sub("", QUOTED.sub("", text)),
    "an error of a provider": lambda text: [
        pattern.search(text) for pattern in (TOO_LONG, IMAGES_REFUSED, WINDOW, COUNTED)
    ],
    "a call to approve": lambda text: INVISIBLE.sub("", text),
    "a command": COMMAND_LINE.fullmatch,
    "a yes or no": TYPED.fullmatch,
    "a person's message": lambda text: LINE_ENDS.sub("\n", CONTEXT_TAGS.sub("", text)),
    "a line of the log": redact_text,
    "a file's name": clean_filename,
    "words to remember": split_words,
    "a date": lambda text: resolve(text[:120], NOW),
    "a holiday": lambda text: find_holiday(text, None, NOW.date()),
    "a body of HTTP": lambda text: (STRING.sub(b"", as_bytes(text)), list(FILE_CONTENT.finditer(as_bytes(text)))),
    "an address with content": lambda text: CONTENT_ADDRESS.match(f"data:a/b{text[:1000]}"),
    "a message of an MCP server": lambda text: REQUEST_ID.findall(as_bytes(text)),
    "a description of an MCP server": to_description,
    "clean text": lambda text: cut(clean(text), 8000),
}
# fmt: off
UNITS = [
    "a",
    " ",
    "\n",
    "\t",
    "\r",
    "`",
    "``` ",
    "```\n",
    "~",
    "<",
    "<@U1|",
    "<!",
    "<@",
    "&",
    "&amp;",
    "|",
    "|-",
    "|\n|-|\n",
    "|a|b|\n",
    "\\",
    '"',
    "'",
    '\\"',
    "[",
    "](",
    "![",
    "(",
    "!",
    "*",
    "_",
    "a-",
    "]:",
    "a*",
    "> ",
    "- ",
    "#",
    "{",
    '{"a":',
    "}",
    "$",
    "$a.",
    "${a",
    "<tool>",
    "</tool>",
    '</tool>"',
    "<think>",
    "</think>",
    "```tool_call\n",
    "<context>\n",
    "</context>",
    "<tool_result",
    "please ",
    "a: ",
    "1",
    "1,",
    "1 ",
    "1.",
    "+",
    "0",
    "=",
    "=?",
    "://",
    "https://a",
    "://a:",
    "token=",
    "Bearer ",
    "in 2 days ",
    "4. - ",
    "4.-",
    "mon - ",
    "first ",
    "<a ",
    "<!--",
    "\N{COMBINING ACUTE ACCENT}",
    "é",
    "😀",
    "\ud800",
    "漢",
    "\x00",
    "\u202e",
    ";a",
    "a=;",
    "/",
    ":",
    '"id":',
    "limit is ",
    "context limit:",
]
# fmt: on
WRAPS = ["{}", "x{}", "{}x", "```\n{}", "|{}|\n|-|\n|{}|", '"{}', '<tool>{"a": "{}', "remember {}!", "{}</context>"]


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Fail when the block takes more processor time."""

    def fail(_signal: int, _frame: FrameType | None) -> None:
        pytest.fail(f"it takes longer than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def run_reader(reader: str, text: str) -> Any:
    """Read the text; a refusal of it is an answer, too."""
    with at_most(MOST_SECONDS):
        try:
            return READERS[reader](text)
        except (ToolError, NoSum) as error:
            return error


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@example("<@U1|", "{}")
@example("\n", "x{}")
@example("1,", "{}")
@example("://a:", "{}")
@example("\r", "{}x")
@example(" \t", "{}")
@given(st.sampled_from(UNITS), st.sampled_from(WRAPS))
def test_a_long_text_that_repeats_itself_is_read_quickly(reader: str, unit: str, wrap: str) -> None:
    run_reader(reader, wrap.replace("{}", unit * (CHARS // len(unit))))


@pytest.mark.parametrize("reader", READERS)
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(st.lists(st.sampled_from(UNITS), min_size=1, max_size=6), st.text(max_size=20))
def test_a_long_text_of_any_marks_is_read_quickly(reader: str, marks: list[str], end: str) -> None:
    unit = "".join(marks)
    run_reader(reader, unit * (CHARS // len(unit)) + end)


@pytest.mark.parametrize(
    ("reader", "text"),
    [
        ("hosts that are trusted", "a-" * (CHARS // 2)),
        ("a reply with few links", "!" * CHARS + "<x"),
        ("a reply with few links", "www." + "_" * CHARS + "%"),
        ("a reply with few links", " " * (CHARS // 2) + "]:" * (CHARS // 4)),
        ("a reply with few links", " " * (CHARS // 2) + "<b>" * (CHARS // 6)),
        ("a summary", "\n" * 2000 + "Xa " * 600),
    ],
    ids=["words", "exclamation marks", "a long host", "brackets", "tags", "empty lines"],
)
def test_a_long_run_before_marks_is_read_quickly(reader: str, text: str) -> None:
    run_reader(reader, text)


def test_a_table_of_many_columns_and_rows_is_shown_as_it_was_written() -> None:
    rows = ["|" * 30_000, "|-|", *["|x"] * 10_000]

    with at_most(MOST_SECONDS):
        blocks = tables_to_blocks("\n".join(rows))

    assert len(blocks) < 2 * sum(map(len, rows))
    assert blocks.startswith("```\n||")
    assert blocks.endswith("|x\n```")


def test_a_table_is_aligned_and_one_without_a_rule_is_not() -> None:
    table = "| a | b |\n|:--|--:|\n| 1 | long |"

    assert tables_to_blocks(table) == "```\na  b\n-  ----\n1  long\n```"
    assert tables_to_blocks("a | b\nc | d") == "a | b\nc | d"
    assert tables_to_blocks("a | b\n---") == "a | b\n---"


def test_live_text_of_a_long_answer_is_its_end_in_its_code_block() -> None:
    text = "So:\n```python\n" + "\n".join(f"line {number}" for number in range(5000))

    live_text = render_live(text)

    assert live_text.startswith("…\n```python\n")
    assert live_text.endswith("line 4999\n```")
    assert len(live_text) <= discord.MESSAGE_LIMIT
