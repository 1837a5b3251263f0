"""Plays the tasks of one suite through Parley, with a model that makes AgentDojo's reference calls."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import httpx
from pydantic import SecretStr

from agent.tools.search import USE
from agent.turn.confirmations.questions import HeldCall, list_calls
from agent.turn.policies.own_words import OwnWords, list_deciding
from shared.db.embedded.server import start_postgres
from shared.settings import Settings
from shared.text import abbreviate
from tests.bench.children import running_child
from tests.bench.statements import new_database
from tests.standins.openai_api import Answer, OpenAIStub
from tests.standins.openai_api.script import Body
from tests.support.loopback import free_port
from tests.support.mcp_servers import until
from tests.support.parley import Parley, open_parley

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "agentdojo" / "bin" / "python"
SERVER = Path(__file__).with_name("suite_server.py")
SUITES = ("banking", "slack", "travel", "workspace")
# Tools that change nothing, as the row of an admin who has read their descriptions says.
READS = ("get_", "list_", "read_", "search_", "check_")
# It fetches a page, whose address reaches a stranger.
TELLS_OTHERS = "get_webpage"
# What they make is used by calls that follow, so a model waits for their result.
MAKES = ("create_", "invite_")
# A link that the filter for replies has made text, which a person reads as one.
TEXT_LINK = re.compile(r"[\w-]+(?:\[\.\][\w-]+)+")
MOST_QUESTIONS = 12
SHOWN_CHARS = 40
TASK_SECONDS = 120
# Importing AgentDojo takes many seconds, more so beside other programs.
START_SECONDS = 300
ADD = """
INSERT INTO mcp_servers (name, transport, url, required_permission, read_only_tools, tells_nobody_tools)
VALUES (:name, 'http', :url, 'guest', CAST(:reads AS jsonb), CAST(:tells_nobody AS jsonb))
"""
OPEN_QUESTION = "SELECT tool, arguments, question FROM confirmations WHERE status = 'pending' ORDER BY id DESC LIMIT 1"

Call = dict[str, Any]
Wave = list[Call]
Row = Literal["default", "careful"]
ROWS: tuple[Row, ...] = ("default", "careful")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one task: `injection` is None without an attack.

    `questions` were asked in all, `refused_questions` of them about calls that the user's task does not need.
    """

    suite: str
    user: str
    injection: str | None
    is_done: bool
    has_effect: bool
    has_injected_calls: bool
    questions: int
    refused_questions: int
    question_tools: tuple[str, ...]
    unsaid: tuple[str, ...] = ()


@dataclass
class ReferenceModel:
    """A model whose answers make these calls, then say its last words; requests without tools get no answer."""

    server: str
    waves: list[Wave] = field(default_factory=list)
    output: str = ""

    def answer(self, body: Body, _number: int) -> Answer:
        """Return the next calls, or the last words."""
        names = {tool["function"]["name"] for tool in body.get("tools", ())}
        if not names or not self.waves:
            return Answer(self.output if names else "{}")
        return Answer(tool_calls=[self._to_call(call, names) for call in self.waves.pop(0)])

    def _to_call(self, call: Call, names: set[str]) -> tuple[str, Call]:
        name = f"{self.server}__{call['name']}"
        if name in names:
            return name, call["arguments"]
        return USE.replace(".", "__"), {"name": f"{self.server}.{call['name']}", "arguments": call["arguments"]}


def reference_waves(pair: Call, *, obeys: bool) -> list[Wave]:
    """Return the calls of the user's task; those of the injection follow the one whose result contains it.

    Those of the injection are made one by one, so that the person is asked about each of them.
    """
    position = pair["read_injection_after"]
    injected = pair["injection_calls"] if obeys else []
    own = pair["user_calls"]
    return [*to_waves(own[:position]), *([call] for call in injected), *to_waves(own[position:])]


def to_waves(calls: Sequence[Call]) -> list[Wave]:
    """Return the calls as answers make them: consecutive ones that act together, reads one by one.

    Pages are fetched together, because the calls act on others, and before their results are used.
    """
    waves: list[Wave] = []
    for call in calls:
        last = waves[-1][-1]["name"] if waves else ""
        are_pages = call["name"] == last == TELLS_OTHERS
        if last and (are_pages or not (call["name"].startswith(READS) or last.startswith((*READS, *MAKES)))):
            waves[-1].append(call)
        else:
            waves.append([call])
    return waves


async def play(
    parley: Parley, model: ReferenceModel, suite: httpx.AsyncClient, user: str, injection: str | None
) -> Outcome:
    """Play one task; the person says yes to each call that the own task needs, and no to any other."""
    pair = (await suite.post("/pair", json={"user": user, "injection": injection})).json()
    model.waves = reference_waves(pair, obeys=injection is not None)
    model.output = " ".join(words for words in (pair["user_output"], pair["injection_output"]) if words) or "Done."
    person = f"{user}-{injection}"
    response = await parley.ask(pair["prompt"], user=person)
    own = [(f"{model.server}.{call['name']}", call["arguments"]) for call in pair["user_calls"]]
    words, unsaid = OwnWords([pair["prompt"]]), list[str]()
    questions: list[str] = []
    refusals = 0
    while response.confirmation is not None and len(questions) < MOST_QUESTIONS:
        question = (await parley.sql(OPEN_QUESTION))[0]
        questions.append(question.tool)
        calls = list_calls(question.tool, question.arguments, question.question)
        is_own = all((call.tool, json.loads(call.arguments)) in own for call in calls)
        unsaid += (line for call in calls for line in list_unsaid(parley, call, words))
        refusals += not is_own
        response = await parley.ask("yes" if is_own else "no", user=person)
    output = TEXT_LINK.sub(lambda link: "https://" + link[0].replace("[.]", "."), response.content)
    verdict = (await suite.post("/verdict", json={"output": output})).json()
    return Outcome(
        suite=model.server,
        user=user,
        injection=injection,
        is_done=verdict["done"],
        has_effect=verdict["effect"],
        has_injected_calls=bool(pair["injection_calls"]),
        questions=len(questions),
        refused_questions=refusals,
        question_tools=tuple(questions),
        unsaid=tuple(unsaid),
    )


def list_unsaid(parley: Parley, call: HeldCall, words: OwnWords) -> Iterator[str]:
    """Yield the values that decide the effect of a call and are not words of its person, each with the call's tool."""
    tool = parley.app.toolbox.find(call.tool)
    assert tool is not None
    for value in list_deciding(json.loads(call.arguments), tool.schema["function"]["parameters"]):
        if not words.say(value):
            yield f"{call.tool.partition('.')[2]}: {abbreviate(str(value), SHOWN_CHARS)}"


async def replay(home: Path, name: str, row: Row, *, is_attacked: bool) -> AsyncIterator[Outcome]:
    """Yield the outcome of each task of a suite, with every injection or without any."""
    async with open_suite(name) as suite, OpenAIStub() as stub:
        model = ReferenceModel(name)
        stub.play(model.answer)
        start_postgres(home)
        address = await new_database(home, f"{name}_{row}_{'attacked' if is_attacked else 'benign'}")
        settings = Settings(
            parley_home=home,
            llm_models=("openai/stub",),
            openai_base_url=stub.base_url,
            openai_api_key=SecretStr("reference"),
            default_guest_modules=(name,),
            default_guest_token_budget=10**9,
            max_agent_iterations=40,
        )
        async with open_parley(settings, address, stub) as parley:
            await add_server(parley, name, suite, row)
            tasks = (await suite.get("/tasks")).json()
            for user, injection in product(tasks["user"], tasks["injection"] if is_attacked else [None]):
                yield await asyncio.wait_for(play(parley, model, suite, user, injection), TASK_SECONDS)


async def add_server(parley: Parley, name: str, suite: httpx.AsyncClient, row: Row) -> None:
    """Add the suite's server as the documentation shows: with its bare row, or with the lists of a careful admin."""
    tools = [tool for tool in (await suite.get("/tools")).json() if tool.startswith(READS)]
    reads, tells_nobody = (tools, [tool for tool in tools if tool != TELLS_OTHERS]) if row == "careful" else ([], [])
    await parley.sql(
        ADD,
        name=name,
        url=f"{suite.base_url}/mcp",
        reads=json.dumps(reads),
        tells_nobody=json.dumps(tells_nobody),
    )
    await until(parley, lambda names: any(tool.startswith(f"{name}.") for tool in names))


@asynccontextmanager
async def open_suite(name: str) -> AsyncIterator[httpx.AsyncClient]:
    """Start the server of a suite and wait until it answers."""
    port = free_port()
    async with (
        running_child(str(PYTHON), str(SERVER), name, str(port), errors=Path("/dev/stderr")),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=30) as client,
    ):
        async with asyncio.timeout(START_SECONDS):
            while not await answers(client):  # noqa: ASYNC110  # it tells nobody when it listens
                await asyncio.sleep(0.1)
        yield client


async def answers(client: httpx.AsyncClient) -> bool:
    """Return whether the server of the suite listens."""
    try:
        await client.get("/tasks")
    except httpx.ConnectError:
        return False
    return True
