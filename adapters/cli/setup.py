"""`parley setup`: asks for database, models and platforms, tries each as it is typed, and writes `.env` at the end."""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from importlib import import_module
from typing import Any

import typer
from prompt_toolkit import prompt

from adapters.cli.check_models import call_model
from adapters.cli.console import complain, progress, say
from adapters.cli.env_file import write_env
from adapters.cli.findings import Finding
from adapters.cli.opening import read_settings
from adapters.cli.platforms import build_platform
from adapters.folders import list_folders
from agent.llm.router import Router
from shared.clock import SystemClock
from shared.db.database import check, locate
from shared.errors import ParleyError, Refusal
from shared.settings import Settings, find_env_file, try_values

app = typer.Typer()

Values = dict[str, str]
MODELS, BASE_URL, OPENAI_KEY, DATABASE = "LLM_MODELS", "OPENAI_BASE_URL", "OPENAI_API_KEY", "DATABASE_URL"


@app.command("setup")
def set_up() -> None:
    """Ask for database, models and platforms; try each as it is typed, and write .env at the end."""
    settings = read_settings(quiet=True)
    path = find_env_file()
    say(f"Each thing is tried as you type it, and written to {path.absolute()} at the end. Enter leaves it as it is.")
    new_values: Values = {}
    try:
        new_values |= _ask_for(
            {DATABASE: "the address of a Postgres of your own; without it, one is embedded"}, _try_database
        )
        new_values |= _ask_for({MODELS: "models in order of fallback, as litellm names them"}, _try_models)
        for name in list_folders():
            new_values |= _ask_for_platform(name, settings)
    except EOFError:
        raise typer.Abort from None
    if not new_values:
        say("Nothing was typed, and nothing is changed.")
        return
    write_env(path, new_values)
    say(f"{path.absolute()} has {', '.join(new_values)} now, and can be read by you alone. Start: parley run")


def _ask_for(questions: Mapping[str, str], attempt: Callable[[Values], Sequence[Finding]]) -> Values:
    """Return what is typed once it works; nothing if the person leaves it out."""
    while True:
        values = {name: answer for name, question in questions.items() if (answer := _ask(name, question))}
        if not values:
            return {}
        for finding in (findings := attempt(values)):
            say(f"  {finding.level:4}  {finding.text}")
        if all(outcome.level != "fail" for outcome in findings):
            return values
        if not sys.stdin.isatty():
            raise Refusal("This does not work, and nothing was written.")
        complain("try again, or press Enter to leave it out")


def _ask_for_platform(name: str, settings: Settings) -> Values:
    if not (list_folders()[name] / "setup.py").is_file():
        return {}
    own = import_module(f"adapters.{name}.setup")
    say(f"\n{own.introduce(settings)}")

    async def examine(values: Values) -> Sequence[Finding]:
        new_settings = try_values(values)
        return [
            Finding(finding.level, name, finding.text)
            async for finding in build_platform(name, new_settings).examine(new_settings)
        ]

    def attempt(values: Values) -> Sequence[Finding]:
        return _try(name, examine(values))

    return _ask_for(own.QUESTIONS, attempt)


def _ask(name: str, question: str) -> str:
    """Return what is typed, or the next line of a pipe; at its end nothing more is typed."""
    text = f"{name} ({question}): "
    if sys.stdin.isatty():
        return prompt(text, is_password=name.endswith(("TOKEN", "KEY", "URL")) and name != BASE_URL).strip()
    say(text)
    return sys.stdin.readline().strip()


def _try(subject: str, attempt: Coroutine[Any, Any, Sequence[Finding]]) -> Sequence[Finding]:
    try:
        with progress("trying it"):
            return asyncio.run(attempt)
    except ParleyError as error:
        return [Finding("fail", subject, str(error))]


def _try_database(values: Values) -> Sequence[Finding]:
    async def work() -> Sequence[Finding]:
        await check(locate(try_values(values)))
        return [Finding("ok", "database", "it answers")]

    return _try("database", work())


def _try_models(values: Values) -> Sequence[Finding]:
    """Ask for the keys of these models, which become part of what is given, and for a call of each."""
    names = try_values(values).llm_models
    variables_by_model = _find_missing(try_values(values))
    if any(variables is None or OPENAI_KEY in variables for variables in variables_by_model.values()):
        _add(values, BASE_URL, "a server that speaks OpenAI's protocol; without it, OpenAI's own")
        variables_by_model = _find_missing(try_values(values))
    if unknown := [name for name, variables in variables_by_model.items() if variables is None]:
        return [Finding("fail", "models", f"litellm knows no provider of {', '.join(unknown)}; write provider/model")]
    key_names = sorted({variable for variables in variables_by_model.values() for variable in variables or ()})
    for variable in [*key_names, *([OPENAI_KEY] if BASE_URL in values else [])]:
        _add(values, variable, "the key" if variable in key_names else "the key, if the server wants one")
    settings = try_values(values)
    still = _find_missing(settings)
    if lacking := sorted({variable for variables in still.values() for variable in variables or ()}):
        return [Finding("fail", "models", f"{', '.join(lacking)} is needed")]
    if _ask("Call each model once? It costs a few tokens", "yes or no, Enter is yes").lower() in {"n", "no"}:
        return [Finding("ok", "models", f"{', '.join(names)}; not tried")]
    with progress("calling"):
        return [asyncio.run(call_model(settings, name)) for name in names]


def _add(values: Values, name: str, question: str) -> None:
    if answer := _ask(name, question):
        values[name] = answer


def _find_missing(settings: Settings) -> dict[str, tuple[str, ...] | None]:
    async def work() -> dict[str, tuple[str, ...] | None]:
        async with aclosing(Router(settings, SystemClock())) as router:
            return {name: await router.find_missing(name) for name in settings.llm_models}

    return asyncio.run(work())
