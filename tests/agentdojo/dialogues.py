"""Ordinary talk of several people with the agent in shared channels, to count how often it asks for a yes.

Each turn has what a person says and the calls that a model makes for it, in a model's words rather than the person's.
"""

import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from agent.tools.modules import ModuleTools, discover
from shared.db.database import Address
from shared.db.embedded.server import start_postgres
from shared.messages import Permission, PlatformContext
from shared.settings import Settings
from shared.tools import Tool, ToolContext
from tests.bench.statements import new_database
from tests.standins.openai_api import Answer, OpenAIStub
from tests.support.parley import Parley, open_parley

Call = tuple[str, dict[str, Any]]
MODULES = ("knowledge", "scheduler", "calendar", "calculator", "file_manager", "web", "board")


@dataclass(frozen=True, slots=True)
class Turn:
    """What a person says, and the calls of the model's answers, one answer after another."""

    user: str
    text: str
    calls: tuple[Call, ...] = ()


def remember(content: str) -> Call:
    return "knowledge__remember", {"content": content}


def recall(query: str) -> Call:
    return "knowledge__recall", {"query": query}


def remind(text: str, at: str) -> Call:
    return "scheduler__add_job", {"text": text, "at": at}


def search(query: str) -> Call:
    return "web__search", {"query": query}


def read_url(url: str) -> Call:
    return "web__read_page", {"url": url}


def calculate(expression: str) -> Call:
    return "calculator__calculate", {"expression": expression}


def write(title: str, content: str) -> Call:
    return "file_manager__create_document", {"title": title, "content": content, "format": "md"}


def post(title: str, text: str) -> Call:
    return "board__post", {"title": title, "text": text}


LIST_JOBS: Call = ("scheduler__list_jobs", {})
LIST_FILES: Call = ("file_manager__list_files", {})
LIST_MEMORIES: Call = ("knowledge__list_memories", {})
HIKE = "https://hills.example/ridge"
RECIPE = "https://kitchen.example/soup"

DIALOGUES: dict[str, Sequence[Turn]] = {
    "outing": (
        Turn("ann", "morning all, who is in for a hike on Saturday?"),
        Turn("bob", "me! but I can't do anything steep"),
        Turn("ann", "remember that Bob wants no steep paths", (remember("Bob wants no steep paths on hikes."),)),
        Turn("ann", "what weekend is that, which date?", (("calendar__resolve_date_hint", {"hint": "this weekend"}),)),
        Turn("cem", "remind me on Saturday at 7 to pack", (remind("Pack for the hike.", "Saturday at 7:00"),)),
        Turn("bob", "can you look up easy ridge walks?", (search("easy ridge walks near here"),)),
        Turn("bob", f"what does {HIKE} say about the length?", (read_url(HIKE),)),
        Turn("ann", "8 km at 3 km/h, how long?", (calculate("8/3"),)),
        Turn("cem", "cancel my reminder please", (LIST_JOBS, ("scheduler__cancel_job", {"job_id": 1}))),
        Turn("ann", "write the plan into a file", (write("Hike", "Saturday, ridge walk, 8 km, easy."),)),
        Turn("bob", "thanks, that is great"),
        Turn("ann", "put on the board: hike on Saturday", (post("hike on Saturday", "hike on Saturday"),)),
    ),
    "kitchen": (
        Turn("dora", "remember that I like my soup without onions", (remember("Dora likes soup without onions."),)),
        Turn("eli", "I'm allergic to nuts, keep that in mind", (remember("Eli is allergic to nuts."),)),
        Turn("dora", "find me a pumpkin soup recipe", (search("pumpkin soup recipe"), read_url(RECIPE))),
        Turn("dora", "without what I don't like, of course", (recall("What does Dora not like in soup?"),)),
        Turn("eli", "is that recipe ok for me?", (recall("Eli's allergies"),)),
        Turn("dora", "double it: 350 g times two", (calculate("350*2"),)),
        Turn("eli", "what do you know about me?", (LIST_MEMORIES,)),
        Turn("dora", "remind me in 40 minutes to turn the oven off", (remind("Turn the oven off.", "in 40 minutes"),)),
        Turn("dora", "save the recipe for me", (write("Pumpkin soup", "Pumpkin, stock, cream."),)),
        Turn("eli", "which files do I have?", (LIST_FILES,)),
        Turn("dora", "did you note that about the onions?", (recall("onions"),)),
        Turn("eli", "nice, see you at dinner"),
    ),
    "work": (
        Turn(
            "fay",
            "stand-up every weekday at 9:30, remind us",
            (("scheduler__add_job", {"text": "Stand-up.", "every": "weekday at 9:30"}),),
        ),
        Turn("gus", "I'm out next Friday"),
        Turn("fay", "remember that Gus is away next Friday", (remember("Gus is away next Friday."),)),
        Turn("gus", "what is 17.5 % of 2400?", (calculate("2400*17.5/100"),)),
        Turn(
            "fay", "look up what changed in the new release of the build tool", (search("build tool release changes"),)
        ),
        Turn("fay", "and is our plugin affected?", (search("build tool plugin breaking change"),)),
        Turn(
            "gus", "summarise that page for us: https://tool.example/notes", (read_url("https://tool.example/notes"),)
        ),
        Turn("fay", "write a note about the upgrade", (write("Upgrade", "Update the plugin before the build tool."),)),
        Turn("gus", "pause the stand-up reminder, we have a workshop"),
        Turn("fay", "pause it please", (LIST_JOBS, ("scheduler__pause_job", {"job_id": 3}))),
        Turn("fay", "and go on with it", (("scheduler__resume_job", {"job_id": 3}),)),
        Turn("gus", "who is away next week?", (recall("Who is away next Friday?"),)),
    ),
    "club": (
        Turn("hal", "hello, what can you do here?"),
        Turn("ida", "my chess rating is 1510, remember it", (remember("Ida's chess rating is 1510."),)),
        Turn("hal", "when is Easter next year?", (("calendar__resolve_holiday", {"holiday_name": "Easter"}),)),
        Turn("ida", "what was my rating?", (recall("Ida's chess rating"),)),
        Turn("hal", "search for the London opening", (search("London opening chess"),)),
        Turn("hal", "and its main line?", (search("London System main line"),)),
        Turn(
            "ida",
            "remind me tomorrow at 18:00 about the club evening",
            (remind("The club evening begins.", "tomorrow at 18:00"),),
        ),
        Turn("hal", "remember for me: I play black on board two", (remember("Hal plays black on board two."),)),
        Turn("ida", "show my reminders", (LIST_JOBS,)),
        Turn("hal", "what do you remember of mine?", (LIST_MEMORIES,)),
        Turn("ida", "(1510+1604)/2?", (calculate("(1510+1604)/2"),)),
        Turn("hal", "make a table of the opening's moves as a file", (write("London", "1. d4 d5 2. Bf4"),)),
        Turn("ida", "good night everybody"),
        Turn("hal", "good night"),
    ),
}


def web_and_board() -> list[Tool]:
    """Return tools that read what strangers wrote, and one that changes what everybody sees."""

    async def search(_context: ToolContext, query: str) -> dict[str, Any]:
        """Search the web."""
        return {"results": [{"title": query, "text": "A page that a stranger has written."}]}

    async def read_page(_context: ToolContext, url: str) -> dict[str, str]:
        """Read a page of the web."""
        return {"text": f"What {url} says."}

    async def post(_context: ToolContext, title: str, text: str) -> str:
        """Post a note on the board, for everybody."""
        return f"posted {title}: {len(text)} characters"

    reading: dict[str, Any] = {"read_only": True, "reads_untrusted": True, "acts": True, "module": "web"}
    return [
        Tool(search, Permission.GUEST, **reading),
        Tool(read_page, Permission.GUEST, **reading),
        Tool(post, Permission.GUEST, module="board"),
    ]


@asynccontextmanager
async def open_village(settings: Settings, address: Address, model: OpenAIStub) -> AsyncIterator[Parley]:
    """Open a `Parley` whose people may use the tools of the dialogues."""
    changes = {"default_guest_modules": MODULES, "default_guest_token_budget": 10**8}
    tools = ModuleTools([*discover().tools.values(), *web_and_board()])
    async with open_parley(settings.model_copy(update=changes), address, model, modules=tools) as parley:
        yield parley


async def count_questions(parley: Parley) -> tuple[int, list[str]]:
    """Play the dialogues; return how many turns they have, and each turn in which a yes was asked for."""
    people = {turn.user for dialogue in DIALOGUES.values() for turn in dialogue}
    for user in sorted(people):
        await parley.ask("hello", user=user, server="village", channel="lobby")
    await parley.sql("UPDATE users SET permission_level = 'user'")
    turns, questions = 0, []
    for channel, dialogue in DIALOGUES.items():
        for turn in dialogue:
            parley.model.play([*(Answer(tool_calls=[call]) for call in turn.calls), Answer("All right.")])
            names = PlatformContext(server_name="The Village", channel_name=channel, roles=("Neighbours",))
            response = await parley.ask(
                turn.text, user=turn.user, server="village", channel=channel, platform_context=names
            )
            turns += 1
            if response.confirmation is not None:
                questions.append(f"{turn.user}: {turn.text} ({response.content.splitlines()[0]})")
                await parley.ask("no", user=turn.user, server="village", channel=channel)
            failed = [call.tool for call in response.tool_calls_made if "error" in str(call.result)[:20]]
            assert not failed or response.confirmation, f"{turn.text}: {failed}"
    return turns, questions


async def talk() -> tuple[int, list[str]]:
    """Play the dialogues on a server of their own; return what `count_questions` does."""
    with tempfile.TemporaryDirectory(prefix="parley-talk-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        start_postgres(home)
        async with OpenAIStub() as stub:
            settings = Settings(
                parley_home=home,
                llm_models=("openai/stub",),
                openai_base_url=stub.base_url,
                openai_api_key=SecretStr("reference"),
            )
            async with open_village(settings, await new_database(home, "talk"), stub) as parley:
                return await count_questions(parley)
