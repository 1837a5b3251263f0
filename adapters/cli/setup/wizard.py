"""`parley setup`: asks for models, places, budget and database, tries each, and writes `.env` at the end."""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from adapters.cli.console import complain, name_command, say, shorten
from adapters.cli.opening import in_transaction, read_settings, silence_log
from adapters.cli.restart import become_run, find_running, list_parts
from adapters.cli.setup.budget import ask_for_budget
from adapters.cli.setup.env_file import write_env
from adapters.cli.setup.interview import Interview
from adapters.cli.setup.models import BASE_URL, MODELS, ask_for_models
from adapters.cli.setup.places import (
    ask_for_address,
    ask_for_database,
    ask_for_owner,
    ask_for_platform,
    choose_places,
)
from adapters.cli.users import find_user, set_permission
from shared.clock import SystemClock
from shared.errors import ParleyError, Refusal
from shared.messages import Permission
from shared.settings import copy_environment, find_env_file, read_env_file, try_values

if TYPE_CHECKING:
    from shared.db.driver import Session
    from shared.settings import Settings

app = typer.Typer()


@app.command("setup")
def set_up(
    models: str | None = typer.Option(None, "--model", metavar="NAMES", help="litellm names, in order of fallback."),
    base_url: str | None = typer.Option(
        None, "--base-url", metavar="URL", help="With --model: a server that speaks OpenAI's protocol."
    ),
    has_key: bool = typer.Option(False, "--key-stdin", help="With --model: its key is the first line of the input."),
    places: list[str] | None = typer.Option(None, "--place", metavar="PLACE", help="Such as matrix, or web."),
    owners: list[str] | None = typer.Option(None, "--owner", metavar="PLATFORM:ID", help="Who is its owner there."),
    answers: int | None = typer.Option(None, "--guest-answers", min=0, help="A month, for each stranger; about."),
    public_url: str | None = typer.Option(None, "--public-url", metavar="URL", help="Where people reach the page."),
    database: str | None = typer.Option(None, "--database", metavar="URL", help="A Postgres of your own."),
    takes_defaults: bool = typer.Option(False, "--yes", help="Ask nothing: what no option says stays as it is."),
) -> None:
    """Ask for model, platforms, owners, budget and database; try each as it is typed, and write .env at the end."""
    # As it is without what is read from .env and tried here.
    environment = copy_environment()
    settings, path = read_settings(quiet=True), find_env_file().absolute()
    silence_log(settings)
    interview = Interview(takes_defaults=takes_defaults)
    if not takes_defaults:
        interview.tell(
            "Each thing is tried as you type it, and nothing is written before the end. Enter takes what is in []."
        )
    options = {} if models is None else {MODELS: models} | ({BASE_URL: base_url} if base_url else {})
    values = ask_for_models(interview, settings, options, key=sys.stdin.readline().strip() if has_key else None)
    _refuse_what_loses(values if has_key else {}, environment, path)
    names, accounts = choose_places(interview, places), list(owners or ())
    for name in names:
        if name == "web":
            values |= {} if public_url else ask_for_address(interview)
            continue
        values |= ask_for_platform(interview, settings, name, folder=path.parent)
        if not owners and (account := ask_for_owner(interview, name)):
            accounts.append(account)
    values |= ask_for_address(interview, public_url) if public_url else {}
    values |= ask_for_budget(interview, try_values(values), answers)
    values |= ask_for_database(interview, settings, database)
    if not values and not accounts:
        say("\nNothing was typed, and nothing is changed.")
        return
    if values:
        write_env(path, values)
        interview.tell(f"\n{shorten(path)} has {', '.join(values)} now, and can be read by you alone.")
    _end(interview, settings.parley_home, environment, has_values=bool(values), is_running=_finish(accounts))


def _end(
    interview: Interview, home: Path, environment: Mapping[str, str], *, has_values: bool, is_running: bool
) -> None:
    """Start Parley, or start again what runs, or say what to type for it."""
    if (pid := find_running(home)) is not None:
        _restart(interview, home, pid, has_values=has_values)
    else:
        _start(interview, environment, is_running=is_running)
    if has_values and (parts := list_parts()):
        say("These run with the settings of before. Stop each where it runs, and type there again:")
        for part in parts:
            say(f"  {name_command(part)}")


def _refuse_what_loses(values: Mapping[str, str], environment: Mapping[str, str], path: Path) -> None:
    """Raise `Refusal` for a value that would not count in .env: Parley would send the old key to the new server."""
    # What Parley itself has read from .env stands in the environment of its commands, too.
    own = read_env_file(path)
    names = [name for name in values if environment.get(name) not in ("", None, own.get(name), values[name])]
    if names:
        raise Refusal(f"{' and '.join(names)} of the environment wins over .env; change it where Parley is started.")


def _finish(accounts: Sequence[str]) -> bool:
    """Make these accounts owners; return whether a Parley runs on this database."""

    async def work(session: "Session", _settings: "Settings") -> bool:
        from agent.queue.heartbeats import LiveWorkers

        for account in accounts:
            user_id = await find_user(session, account, is_new=True)
            await set_permission(session, user_id, Permission.OWNER)
            say(f"{account} is an owner.")
        return bool(await LiveWorkers().count(session, SystemClock().monotonic()))

    try:
        return in_transaction(work)
    except ParleyError as error:
        complain(str(error))
        for account in accounts:
            complain(f"this is still to be done: {name_command(f'grant add {account} owner --new')}")
        return False


def _start(interview: Interview, environment: Mapping[str, str], *, is_running: bool) -> None:
    """Become a `parley run` if the person wants it, or say what to type."""
    if is_running:
        interview.tell(
            "Parley runs with the settings of before, where this command can't reach it: stop it there (Ctrl+C, or the "
            f"service that started it), then type there again what it was: {name_command('run')}, or worker or adapter"
        )
    elif interview.is_at_keyboard and interview.confirm("Start it now?", default=True):
        become_run(environment)
    else:
        say(f"Start it: {name_command('run')}")


def _restart(interview: Interview, home: Path, pid: int, *, has_values: bool) -> None:
    """Let the Parley that runs begin again if the person wants it, or say what to type."""
    if not has_values:
        say("Parley runs, and knows its owners at once.")
    elif interview.confirm("Parley runs. Start it again with these settings now?", default=True):
        # While the person read the question it may have ended, and its number may be another program's.
        if find_running(home) != pid:
            say(f"It has ended meanwhile. Start it: {name_command('run')}")
            return
        os.kill(pid, signal.SIGUSR1)
        interview.tell("It finishes the answers that it works on, and starts again; see where it runs.")
    else:
        interview.tell(f"It goes on with the settings of before, until you type: kill -USR1 {pid}")
