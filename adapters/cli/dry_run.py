"""`parley persona dry-run`: a changed persona answers recorded turns again, and both answers are shown side by side."""

import asyncio
import json
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import is_json, progress, say, show_json, show_table
from adapters.cli.opening import find_database, opened_connection, read_settings
from adapters.cli.owner import make_owner
from adapters.cli.users import find_user, read_user
from adapters.terminal.person import terminal_sender
from agent.queue.heartbeats import LiveWorkers
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.messages import Permission

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from shared.db.database import Address
    from shared.db.driver import Session
    from shared.db.single import SmallDatabase
    from shared.settings import Settings

    Play = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]

statements = load_statements(__file__)

app = typer.Typer()
MOST_TURNS = 200
# Between two looks for what a worker beside this process has come to.
POLL_SECONDS = 0.1


@app.command("dry-run")
def dry_run(
    name: str = typer.Argument(help="The persona."),
    prompt_file: Path | None = typer.Option(
        None, exists=True, dir_okay=False, help="Try these instructions instead of the persona's."
    ),
    model: str | None = typer.Option(None, help="Try this model, a litellm name."),
    version: int | None = typer.Option(None, min=1, help="Try this version, as `parley persona history` shows it."),
    turns: str | None = typer.Option(None, help="The turns to answer again, comma-separated."),
    last: int = typer.Option(5, min=1, max=MOST_TURNS, help="Without --turns: so many of its last turns."),
    payer: str | None = typer.Option(
        None, "--as", metavar="WHO", help="The admin who pays: platform:ID, name or number."
    ),
    yes: bool = typer.Option(False, "--yes", help="Don't ask before it costs anything."),
) -> None:
    """Let a changed persona answer recorded turns again; nothing is sent or stored with people, and no tool runs."""
    numbers = [part.strip() for part in (turns or "").split(",") if part.strip()]
    if (
        not all(number.isascii() and number.isdecimal() and len(number) < 19 for number in numbers)
        or len(numbers) > MOST_TURNS
    ):
        raise typer.BadParameter(f"--turns takes at most {MOST_TURNS} numbers of turns, comma-separated.")
    prompt = prompt_file.read_text(encoding="utf-8", errors="replace").strip() if prompt_file else None
    if prompt == "":
        raise typer.BadParameter("The instructions are empty.")
    if is_json() and not yes:
        raise typer.BadParameter("--json asks nothing: add --yes.")
    trial = {
        "persona": name,
        "prompt": prompt,
        "model": model,
        "version": version,
        "turns": list(map(int, numbers)),
        "last": last,
    }
    turns_again = asyncio.run(_run(read_settings(quiet=True), trial, payer=payer, yes=yes))
    _show(turns_again)
    if any(turn["error"] for turn in turns_again):
        raise typer.Exit(1)


async def _run(settings: "Settings", trial: dict[str, Any], *, payer: str | None, yes: bool) -> list[dict[str, Any]]:
    address = await asyncio.to_thread(find_database, settings)
    async with opened_connection(settings, address) as database:
        async with database.transaction() as session:
            request = {"trial": trial, "payer_id": await _find_payer(session, payer)}
            workers = await LiveWorkers().count(session, asyncio.get_running_loop().time())
        beside = nullcontext(partial(_play_beside, database))
        async with beside if workers else _here(settings, address) as play:
            return await _play_turns(play, request, yes=yes)


async def _play_turns(play: "Play", request: dict[str, Any], *, yes: bool) -> list[dict[str, Any]]:
    """Have the turns answered again one by one, once the person has seen what that costs; raises `Refusal`."""
    plans = _to_turns(await play(request | {"is_estimate": True}))
    if not yes:
        _confirm(plans)
    turns: list[dict[str, Any]] = []
    for number, plan in enumerate(plans, start=1):
        trial = request["trial"] | {"turns": [plan["turn"]]}
        with progress(f"answering turn {plan['turn']} ({number} of {len(plans)})"):
            again = _to_turns(await play(request | {"trial": trial, "is_estimate": False}))
        turns += [{"who": plan["who"]} | turn for turn in again]
    return turns


def _to_turns(reply: dict[str, Any]) -> list[dict[str, Any]]:
    if "refusal" in reply:
        raise Refusal(reply["refusal"])
    return list(reply["turns"])


async def _find_payer(session: "Session", payer: str | None) -> int:
    """Return the id of the user who pays; raises `Refusal` for one who is no admin."""
    if payer is None:
        await make_owner(session)
        sender = terminal_sender()
        payer = f"{sender.platform}:{sender.platform_user_id}"
    user_id = await find_user(session, payer)
    if Permission.from_label((await read_user(session, user_id)).permission_level) < Permission.ADMIN:
        raise Refusal("A dry run is paid by an admin: name one with --as platform:ID.")
    return user_id


async def _play_beside(database: "SmallDatabase", request: dict[str, Any]) -> dict[str, Any]:
    """Have a worker that runs beside this process play a dry run."""
    workers, loop = LiveWorkers(), asyncio.get_running_loop()
    async with database.statement() as session:
        id_ = (await session.execute(statements.request_dry_run, {"request": json.dumps(request)})).one().id
    try:
        while True:
            async with database.statement() as session:
                row = (await session.execute(statements.look_at_dry_run, {"id": id_})).one_or_none()
                has_workers = await workers.count(session, loop.time())
            if row is not None and row.reply is not None:
                return dict(json.loads(row.reply))
            if row is None or row.is_lost or not has_workers:
                raise Refusal("The dry run has ended with its worker, or a person in it was erased; try again.")
            await asyncio.sleep(POLL_SECONDS)
    finally:
        async with database.statement() as session:
            await session.execute(statements.remove_dry_run, {"id": id_})


@asynccontextmanager
async def _here(settings: "Settings", address: "Address") -> "AsyncIterator[Play]":
    """Give what plays a dry run in this process, where no worker lives."""
    # Imported here: it takes a second, and beside a running Parley none of it is needed.
    from adapters.cli.compose import open_app
    from agent.commands.dry_run.requests import play

    async with open_app(settings, address) as app:
        with progress("starting"):
            await app.models.router.warm()
        yield partial(play, app)


def _confirm(plans: list[dict[str, Any]]) -> None:
    rows = [
        (plan["turn"], plan["who"], plan["message"][:60], plan["tokens"], _dollars(plan["dollars"])) for plan in plans
    ]
    show_table(("turn", "who", "message", "about tokens", "at most $"), rows)
    say(f"{len(plans)} turns, about {_tokens(plans)} tokens, at most {_sum(plans)} $")
    typer.confirm("Answer them again?", abort=True)


def _show(turns: list[dict[str, Any]]) -> None:
    if is_json():
        show_json(turns)
        return
    for turn in turns:
        say(f"\nturn {turn['turn']}, {turn['who']}: {turn['message']}")
        calls = "".join(f"\ncalled {call}" for call in turn["called"])
        would = "".join(f"\nwould call {call}" for call in turn["would_call"])
        then, now = turn["then"], turn["now"]
        show_table(
            (f"then ({then['model'] or 'no model'})", f"now ({now['model'] or 'no model'})"),
            [(then["text"], f"{now['text']}{calls}{would}".strip())],
        )
    say(f"\n{len(turns)} turns, {_tokens(turns)} tokens, {_sum(turns)} $, on your ledger as dry_run")


def _tokens(turns: list[dict[str, Any]]) -> str:
    return f"{sum(turn['tokens'] for turn in turns):,}"


def _sum(turns: list[dict[str, Any]]) -> str:
    # What a turn that was refused has cost is nothing, not unknown.
    prices = [turn["dollars"] for turn in turns if turn["tokens"]]
    return _dollars(None if None in prices else sum(prices))


def _dollars(dollars: float | None) -> str:
    return "unknown" if dollars is None else f"{dollars:.6f}"
