"""What a model writes, told apart: text, thinking, calls; and the same whatever pieces it comes in."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.llm.completions import Cause, Completion, RouteFailed
from agent.llm.protocols.patterns import BEGINS
from agent.llm.protocols.protocol import NATIVE
from agent.llm.protocols.scanner import Scanner
from agent.llm.registry import build_protocols
from shared.messages import Usage

PROTOCOLS = build_protocols({"tags": "tool_tag", "fences": "fenced", "openai/local": "fenced", "native": "native"})
ALL = frozenset({"tool", "tool_call", "delegate"})
MARKS = [
    *(
        "<tool>",
        "</tool>",
        "<think>",
        "</think>",
        "<reasoning>",
        "</reasoning>",
        "<TOOL>",
        "</THINK>",
        "<to",
        "</",
        "<",
    ),
    *("`", "```", "~~~", "```tool_call\n", "```delegate{", "```python\n", "\n```\n", "```to", "tool_call"),
    *("{}", '{"tool":"a.b","arguments":{}}', '"', '\\"', "\\", " ", "\n", "\n\n", "Hi"),
]


def decoded(text: str, route: str = "tags", **fields: Any) -> Completion:
    return PROTOCOLS[route].decode(Completion(text, (), fields.pop("stop", "end_turn"), Usage(), route, **fields))


def calls(answer: Completion) -> list[tuple[str, Any]]:
    return [(call.name, json.loads(call.arguments)) for call in answer.tool_calls]


def tag(tool: str, **arguments: Any) -> str:
    return f"<tool>{json.dumps({'server_name': 'dice', 'tool_name': tool, 'arguments': arguments})}</tool>"


@given(st.lists(st.sampled_from(MARKS) | st.text(max_size=3), max_size=30), st.data())
def test_any_cut_of_a_stream_gives_what_the_whole_gives(parts: list[str], cuts: st.DataObject) -> None:
    text = "".join(parts)
    whole = Scanner(ALL)
    whole.feed(text)
    whole.close()
    result: list[str] = []
    # What comes before the first piece with a mark may have been passed on without a scanner.
    first_mark = BEGINS.search(text)
    passed = text[: cuts.draw(st.integers(0, len(text) if first_mark is None else first_mark.start()))]
    result += [passed] if passed else []
    text = text.removeprefix(passed)
    stream = Scanner(ALL, result.append, result.clear, passed=passed)
    while text:
        length = cuts.draw(st.integers(1, 12))
        stream.feed(text[:length])
        text = text[length:]
    stream.close()

    assert (stream.text, stream.thinking, stream.blocks) == (whole.text, whole.thinking, whole.blocks)
    assert stream.is_cut == whole.is_cut
    assert "".join(result) == whole.text


@given(st.text(alphabet=st.characters(exclude_characters="<`~"), max_size=200))
def test_text_without_marks_is_told_at_once_and_unchanged(text: str) -> None:
    result: list[str] = []
    stream = Scanner(ALL, result.append)
    for index, letter in enumerate(text):
        stream.feed(letter)
        assert "".join(result) == text[: index + 1]


def test_no_more_is_held_back_than_a_mark_may_take() -> None:
    text = "if a <thick b, or `c` </d> ~~ < e ``` tool_cat\n\n<to be> continued"
    result: list[str] = []
    stream = Scanner(ALL, result.append)
    for index, letter in enumerate(text):
        stream.feed(letter)
        assert index + 1 - len("".join(result)) < len("``` tool_call ")
    stream.close()

    assert "".join(result) == text


def test_calls_stand_between_texts_in_any_number() -> None:
    answer = decoded(f"First.\n\n{tag('roll', sides=6)}\n{tag('roll', sides=20)}\n\nThen {tag('count')} more.")

    assert calls(answer) == [("dice__roll", {"sides": 6}), ("dice__roll", {"sides": 20}), ("dice__count", {})]
    assert answer.text == "First.\n\nThen more."
    assert answer.stop == "tool_use"
    assert len({call.id for call in answer.tool_calls}) == 3


@pytest.mark.parametrize(
    ("block", "name"),
    [
        ({"server_name": "dice", "tool_name": "roll", "arguments": {}}, "dice__roll"),
        ({"tool": "dice.roll", "arguments": {}}, "dice.roll"),
        ({"name": "dice__roll", "arguments": None}, "dice__roll"),
        ({"tool_name": " roll "}, "roll"),
        ({"server": "dice", "tool": "dice__roll", "args": {}}, "dice__roll"),
        ({"module": "", "name": "roll", "parameters": "{}", "id": "call_7"}, "roll"),
    ],
)
def test_a_tool_may_be_named_in_full_in_parts_or_bare(block: dict[str, Any], name: str) -> None:
    assert calls(decoded(f"```tool_call\n{json.dumps(block)}\n```", "fences")) == [(name, {})]
    assert calls(decoded(f"<tool>\n{json.dumps(block, indent=1)}\n</tool>")) == [(name, {})]


@pytest.mark.parametrize("route", ["tags", "fences"])
def test_a_delegate_block_calls_the_tool_of_that_name(route: str) -> None:
    task = {"agent": "clerk", "task": "Count to ``` and </tool>."}
    answer = decoded(f"Asking.\n\n```delegate\n{json.dumps(task)}\n```\n", route)

    assert (calls(answer), answer.text) == ([("delegate", task)], "Asking.")


@pytest.mark.parametrize(
    ("text", "route"),
    [
        ("```\n{}\n```", "tags"),
        ("````markdown\n```\n{}\n```\n````\nSo.", "tags"),
        ("~~~xml\n{}\n~~~", "tags"),
        ("  ```json\n  {}\n  ```\n", "tags"),
        ("Write `{}` for it.", "tags"),
        ("Write ``a ` {}`` for it.", "tags"),
        ("```python\n{}\nand it never ends", "tags"),
        ('```md\n```tool_call\n{"tool": "roll"}\n```\n', "fences"),
        ('````\n```tool_call\n{"tool": "roll"}\n```\n````\n', "fences"),
        ("{}", "native"),
        ('```tool_call\n{"tool": "roll"}\n```', "native"),
        ('```tool_calls\n{"tool": "roll"}\n```', "fences"),
    ],
)
def test_a_block_that_is_only_shown_never_runs(text: str, route: str) -> None:
    example = text.replace("{}", tag("roll"))
    answer = decoded(example, route)

    assert (answer.text, answer.tool_calls, answer.stop) == (example, (), "end_turn")


def test_code_that_has_ended_hides_nothing_after_it() -> None:
    example = "```python\nprint('<tool>')\n```\n``` is a fence, `<think>` a tag.\n"
    answer = decoded(f"{example}{tag('roll')}")

    assert (answer.text, calls(answer)) == (example.strip(), [("dice__roll", {})])


@pytest.mark.parametrize(
    "cut",
    [
        tag("roll")[:-3],
        tag("roll") + '\n<tool>{"tool',
        "<tool>" * 1000,
        '```tool_call\n{"tool": "roll"}\n',
        '```delegate\n{"agent": "clerk", "task": "``',
    ],
)
def test_an_answer_with_a_block_that_has_no_end_runs_nothing(cut: str) -> None:
    answer = decoded(f"Rolling. {cut}", "tags" if "<" in cut else "fences")

    assert (answer.text, answer.tool_calls, answer.stop) == ("Rolling.", (), "max_tokens")


def test_an_answer_that_was_cut_at_its_limit_runs_nothing() -> None:
    answer = decoded(f"Rolling. {tag('roll')} {tag('roll')[:20]}", stop="max_tokens")

    assert (answer.text, answer.tool_calls, answer.stop) == ("Rolling.", (), "max_tokens")


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"server_name": "dice", "tool_name": "roll", "arguments": {"sides": 6,}}', "dice__roll"),
        ("{'tool_name': 'dice.roll', 'arguments': {'sides': 6}}", "dice.roll"),
        ('{"tool": "roll", "arguments": {"sides": "6}}', "roll"),
        ('{"tool": "roll", "sides": 6}', "roll"),
        ('{"tool": "roll", "arguments": {"sides": 6}} and more', "roll"),
        ("{tool: roll, arguments: {}}", "roll"),
        ('[{"tool": "roll"}]', "roll"),
        ('{"tool": 7}', "7"),
        ("roll the dice", "tool"),
        ("", "tool"),
        ('{"tool": "roll", "arguments": {"deep": ' + "[" * 100_000 + "]" * 100_000 + "}}", "roll"),
        ('{"tool": "roll", "arguments": {"huge": ' + "9" * 10_000 + "}}", "roll"),
    ],
)
def test_a_malformed_block_is_a_call_that_can_only_fail(body: str, name: str) -> None:
    answer = decoded(f"So: <tool>{body}</tool> And on.")

    [call] = answer.tool_calls
    assert (call.name, call.arguments, answer.text) == (name, f"<tool>{body}</tool>", "So: And on.")


def test_deep_arguments_are_left_to_the_toolbox() -> None:
    deep = "[" * 800 + "]" * 800
    [call] = decoded(f'<tool>{{"tool": "roll", "arguments": {deep}}}</tool>').tool_calls

    assert call.arguments == deep


def test_end_marks_within_strings_are_no_end() -> None:
    inner = f'see </tool> and ``` and {tag("forget")} \\ " here'
    assert calls(decoded(tag("note", text=inner))) == [("dice__note", {"text": inner})]
    fenced = json.dumps({"tool": "note", "arguments": {"text": inner}})
    assert calls(decoded(f"```tool_call\n{fenced}\n```", "fences")) == [("note", {"text": inner})]


def test_a_line_break_within_a_string_is_taken_as_it_is() -> None:
    body = '{"tool": "note", "arguments": {"text": "one\ntwo"}}'
    assert calls(decoded(f"<tool>{body}</tool>")) == [("note", {"text": "one\ntwo"})]


def test_after_a_missing_quote_the_next_block_still_counts() -> None:
    answer = decoded(f'<tool>{{"tool": "note", "arguments": {{"text": "x}}}}</tool> Now {tag("roll")} and "so" on')

    assert [call.name for call in answer.tool_calls] == ["note", "dice__roll"]
    assert answer.text == 'Now and "so" on'


def test_a_block_in_a_block_never_runs() -> None:
    inner = tag("forget")
    for text in (f"<tool>{inner}</tool>", f'<tool>{{"tool": "note", "arguments": {{"text": "{inner}"}}}}</tool>'):
        for call in decoded(text).tool_calls:
            with pytest.raises(ValueError, match="Expecting"):
                json.loads(call.arguments)


@pytest.mark.parametrize("route", ["native", "tags", "fences"])
@pytest.mark.parametrize("name", ["think", "thinking", "reasoning", "THINK"])
def test_thinking_is_kept_apart_from_the_text(route: str, name: str) -> None:
    answer = decoded(f"<{name}>Say {tag('roll')}?</{name}>\n\nHello <{name}>or not</{name}>there.", route)

    assert (answer.text, answer.tool_calls) == ("Hello there.", ())
    assert answer.thinking == f"Say {tag('roll')}?\nor not"


def test_what_the_provider_tells_apart_stands_first() -> None:
    assert decoded("<think>Two.</think>Hi.", thinking="One.").thinking == "One.\n\nTwo."


def test_thinking_that_began_without_a_tag_is_taken_back() -> None:
    result: list[str] = []
    stream = Scanner(ALL, result.append, result.clear)
    for piece in ("Let me see.", f" {tag('roll')}", "\n</think>\n", "\nHello."):
        stream.feed(piece)
    stream.close()

    assert (result, stream.text, stream.blocks) == (["Hello."], "Hello.", [])
    assert decoded("Mind the </think> tag.").text == "Mind the </think> tag."


def test_nothing_but_thinking_is_no_answer_and_was_paid() -> None:
    with pytest.raises(RouteFailed) as excinfo:
        decoded("<think>So much to say")

    assert (excinfo.value.cause, excinfo.value.usage) == (Cause.EMPTY, Usage())


def test_thinking_has_a_bearable_length() -> None:
    assert len(decoded(f"<think>{'hm ' * 100_000}</think>Hi.").thinking) <= 20_000


@pytest.mark.parametrize("size", [7, 1_000_000])
@pytest.mark.parametrize(
    "text",
    [
        "lorem ipsum " * 25_000,
        "<" * 300_000,
        "`" * 300_000,
        "`\n" * 150_000,
        "<tool>" + '"' * 300_000,
        '<tool>"' + "\\" * 300_000,
        '<tool>{"a": "' + "</tool>" * 43_000,
        '<tool>{"</tool>' + '<tool>{\\"</tool>' * 10_000,
        tag("roll") * 10_000,
        "<think>a</think>" * 20_000,
        "</think>\n" * 33_000,
        "```\n" + "\n" * 300_000,
        "```" + " " * 300_000 + "tool_call",
    ],
    ids=lambda text: repr(text[:16]),
)
def test_large_and_hostile_texts_take_time_in_proportion(text: str, size: int) -> None:
    start_time = time.process_time()
    scanner = Scanner(ALL)
    for start in range(0, len(text), size):
        scanner.feed(text[start : start + size])
    scanner.close()

    # Anything that grows with the square of the text would take a minute.
    assert time.process_time() - start_time < 3


def test_a_route_is_named_with_or_without_its_provider() -> None:
    assert PROTOCOLS["local"] is PROTOCOLS["openai/local"] is PROTOCOLS["fences"]
    assert PROTOCOLS["native"] is NATIVE
