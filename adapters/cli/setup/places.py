"""Where Parley lives: platforms with their tokens and owners, the page, and the database."""

import asyncio
import re
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints

from pydantic import SecretStr

from adapters.cli.console import complain
from adapters.cli.findings import Finding
from adapters.cli.platforms import build_accounts, examine
from adapters.cli.setup.interview import Interview, Values
from adapters.cli.setup.trials import ask_until_it_works, run_trial
from adapters.folders import find_settings_class, list_folders
from shared.db.database import check, locate
from shared.errors import ParleyError, Refusal, Unavailable
from shared.settings import Settings, try_values

DATABASE, PUBLIC_URL = "DATABASE_URL", "PUBLIC_URL"
PAGE = "Chat page, for people elsewhere"
WEB_ADDRESS = re.compile(r"https?://[^\s/?#]+[^\s?#]*")


def list_platforms() -> dict[str, Any]:
    """Return what the setup of each platform says, by name."""
    folders = [name for name, folder in list_folders().items() if (folder / "setup.py").is_file()]
    return {name: import_module(f"adapters.{name}.setup") for name in folders}


def choose_places(interview: Interview, names: Sequence[str] | None) -> list[str]:
    """Return the platforms, and `web` for the page; `names` are those of the options."""
    platforms = list_platforms()
    known = [*platforms, "web"]
    if names:
        if unknown := sorted(set(names) - set(known)):
            raise Refusal(f"There is no place {', '.join(unknown)}; there are: {', '.join(known)}.")
        return list(names)
    titles = [*(own.TITLE for own in platforms.values()), PAGE]
    question = "Where should it live? Terminal, API and a page for this machine are there in any case."
    return [known[place] for place in interview.choose_several(question, titles)]


def ask_for_platform(interview: Interview, settings: Settings, name: str, folder: Path) -> Values:
    """Return the tokens of a platform, which were tried."""
    own = list_platforms()[name]
    # Where it takes more than a text, as the manifest of an app, there is a function.
    introduction = own.introduce(settings, folder) if hasattr(own, "introduce") else own.INTRODUCTION
    interview.tell(f"\n{introduction}", "  ")

    # What is none of the settings is a password.
    hints = {variable: _find_hint(name, variable) or SecretStr for variable in own.QUESTIONS}
    secrets = {variable for variable, hint in hints.items() if SecretStr in (hint, *get_args(hint))}

    def ask() -> Values:
        values: Values = {}
        for variable, text in own.QUESTIONS.items():
            # One that is needed only where another was not answered.
            if getattr(own, "INSTEAD", {}).get(variable) not in values:
                line = interview.ask(f"{variable}, {text}", is_secret=variable in secrets)
                if line:
                    values[variable] = line
        return values

    return ask_until_it_works(interview, ask, lambda values: _try_platform(name, values))


def _find_hint(name: str, variable: str) -> Any:
    """Return the type of the setting that an answer is; None if it is none."""
    return get_type_hints(find_settings_class(name)).get(variable.lower().removeprefix(f"{name}_"))


def _try_platform(name: str, answers: Values) -> tuple[Values, Sequence[Finding]]:
    """Return the settings that the answers give, without what is none, and what comes of them."""
    own, failures = list_platforms()[name], list[Finding]()
    if hasattr(own, "exchange"):
        try:
            answers = asyncio.run(own.exchange(answers))
        except ParleyError as error:
            failures = [Finding("fail", name, str(error), is_outage=isinstance(error, Unavailable))]
    values = {variable: answers[variable] for variable in answers if _find_hint(name, variable)}

    async def work() -> list[Finding]:
        settings = try_values(values)
        return [
            Finding(finding.level, name, finding.text, is_outage=finding.is_outage)
            for platform in build_accounts(name, settings)
            async for finding in examine(platform, settings)
        ]

    return values, failures or run_trial(name, work())


def ask_for_owner(interview: Interview, name: str) -> str | None:
    """Return the account of a platform's owner; None if nobody is named."""
    own = list_platforms()[name]
    while answer := interview.ask("Your id", about=own.OWNER):
        if own.OWNER_ID.fullmatch(answer):
            return f"{name}:{answer}"
        complain(f"{answer!r} is no id there; it looks like {own.EXAMPLE_ID}")
        if not interview.is_at_keyboard:
            raise Refusal("This does not work, and nothing was written.")
    return None


def ask_for_address(interview: Interview, address: str | None = None) -> Values:
    """Return the public address, if there is one."""
    about = "\nUnder which address, https://…, do people reach the page? Enter for this machine alone."
    while answer := address or interview.ask("Address", about=about):
        if WEB_ADDRESS.fullmatch(answer):
            return {PUBLIC_URL: answer}
        complain(f"{answer!r} is no address; it begins with https://")
        if address or not interview.is_at_keyboard:
            raise Refusal("This does not work, and nothing was written.")
    return {}


def ask_for_database(interview: Interview, settings: Settings, url: str | None) -> Values:
    """Return the address of a Postgres, if it is not to be the embedded one."""
    if url is not None:
        return ask_until_it_works(interview, lambda: {DATABASE: url}, _try_database)
    options = (
        f"Here, in {settings.parley_home}: Parley brings a Postgres of its own",
        "In a Postgres of mine (15 or newer, with pgvector)",
    )
    is_own = settings.database_url is not None
    if interview.choose("Where are its data kept?", options, int(is_own)) == 0:
        return {DATABASE: ""} if is_own else {}

    def ask() -> Values:
        keep = "; Enter keeps the one that is set" if is_own else ""
        about = f"postgresql://user:password@host/database{keep}"
        line = interview.ask("Its address", about=about, is_secret=True)
        return {DATABASE: line} if line else {}

    return ask_until_it_works(interview, ask, _try_database)


def _try_database(values: Values) -> tuple[Values, Sequence[Finding]]:
    async def work() -> list[Finding]:
        await check(locate(try_values(values)))
        return [Finding("ok", "database", "it answers")]

    return values, run_trial("database", work())
