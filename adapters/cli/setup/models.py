"""Which model answers: a menu of providers, the key, and one cheap call."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import NamedTuple

from adapters.cli.console import complain
from adapters.cli.findings import Finding
from adapters.cli.setup.interview import Interview, Values
from adapters.cli.setup.trials import ask_until_it_works, run_trial
from adapters.providers import OLLAMA, OTHER, PROVIDERS
from shared.clock import SystemClock
from shared.errors import Refusal
from shared.settings import Settings, try_values

MODELS, BASE_URL, OPENAI_KEY = "LLM_MODELS", "OPENAI_BASE_URL", "OPENAI_API_KEY"
OLLAMA_URL, OLLAMA_SETTING, OLLAMA_SECONDS = "http://localhost:11434", "OLLAMA_API_BASE", 5.0
KEEP, NONE = "Keep {models}", "None yet: the offline model, which knows a few plain requests"


def ask_for_models(interview: Interview, settings: Settings, options: Values, *, key: str | None) -> Values:
    """Return the variables of the models; those of the options are not asked for, nor is their key if it is given."""
    if options:
        if key is not None:
            options = _take_key(options, key)
        return ask_until_it_works(interview, lambda: _ask_for_keys(interview, options), try_models)
    while (choice := _choose(interview, settings)) is not None:
        ask = partial(_ask_for_keys, interview, choice.values, about=choice.about)
        if values := ask_until_it_works(interview, ask, try_models, leave="Choose another model"):
            return values
    return {}


class Choice(NamedTuple):
    """The variables of a model without its key, and where the key comes from."""

    values: Values
    about: str = ""


def _choose(interview: Interview, settings: Settings) -> Choice | None:
    """Return what is chosen; None if it stays as it is."""
    first = KEEP.format(models=", ".join(settings.llm_models)) if settings.llm_models else NONE
    titles = [provider.title for provider in PROVIDERS]
    number = interview.choose("Which model?", [*titles, OLLAMA, OTHER, first], len(titles) + 2)
    # A server of before must not get the key of another.
    without_server = {BASE_URL: ""} if settings.openai_base_url else {}
    if number < len(PROVIDERS):
        provider = PROVIDERS[number]
        model = interview.ask("Model", provider.model)
        return Choice({MODELS: model, **without_server}, f"Its key is made at {provider.keys}.")
    if number == len(PROVIDERS):
        return Choice(_ask_for_ollama(interview))
    if number > len(PROVIDERS) + 1:
        return None
    names = interview.ask("Models", about="As litellm names them, provider/model; several with commas, in order.")
    if not names:
        return None
    values = {MODELS: names}
    variables = _find_missing(try_values(values))
    if any(needs is None or OPENAI_KEY in needs for needs in variables.values()):
        url = interview.ask("Address", about="Of a server that speaks OpenAI's protocol; Enter for OpenAI's own.")
        values |= {BASE_URL: url} if url else without_server
    return Choice(values)


def _ask_for_keys(interview: Interview, values: Values, *, about: str = "") -> Values:
    """Return the values with the keys that these models lack."""
    variables = _find_missing(try_values(values))
    names = sorted({name for needs in variables.values() for name in needs or ()})
    if values.get(BASE_URL) and OPENAI_KEY not in names:
        names.append(OPENAI_KEY)
        about = "The server's key, if it wants one."
    for name in names:
        if key := interview.ask(name, about=about, is_secret=True):
            values = {**values, name: key}
        elif name == OPENAI_KEY and values.get(BASE_URL) and not interview.takes_defaults:
            # The key that is set may be another server's.
            values = {**values, name: ""}
    return values


def _take_key(values: Values, key: str) -> Values:
    """Return the values with the key that these models lack; raises `Refusal` if that is not one variable."""
    settings = try_values(values)
    if not key:
        # The key that is set may be another server's.
        return values | ({OPENAI_KEY: ""} if values.get(BASE_URL) and settings.openai_api_key else {})
    variables = _find_missing(settings)
    names = {name for needs in variables.values() for name in needs or ()}
    names |= {OPENAI_KEY} if values.get(BASE_URL) else set()
    if not any(needs is None for needs in variables.values()):
        if not names:
            raise Refusal("The key of this model is set already; leave it out, or write another one into .env.")
        if len(names) > 1:
            raise Refusal(f"This takes more than a key: write {' and '.join(sorted(names))} into .env.")
    return values | dict.fromkeys(names, key)


def _ask_for_ollama(interview: Interview) -> Values:
    # Imported here, as below: help, and most answers, need none of it.
    import httpx

    url = interview.ask("Ollama's address", OLLAMA_URL).rstrip("/")
    try:
        names = [model["name"] for model in httpx.get(f"{url}/api/tags", timeout=OLLAMA_SECONDS).json()["models"]]
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError):
        complain(f"no Ollama answers at {url}; start it, and get a model: ollama pull llama3.2")
        names = []
    if len(names) > 1:
        name = names[interview.choose("Which of its models?", names, 0)]
    else:
        name = interview.ask("Model", names[0] if names else "llama3.2")
    return {MODELS: f"ollama_chat/{name}"} | ({} if url == OLLAMA_URL else {OLLAMA_SETTING: url})


def try_models(values: Values) -> tuple[Values, Sequence[Finding]]:
    """Call each of these models once; return the values and what came of it."""
    settings = try_values(values)
    variables = _find_missing(settings)
    if unknown := [name for name, needs in variables.items() if needs is None]:
        text = f"litellm knows no provider of {', '.join(unknown)}; write provider/model"
        return values, [Finding("fail", "models", text)]
    if lacking := sorted({name for needs in variables.values() for name in needs or ()}):
        return values, [Finding("fail", "models", f"{' and '.join(lacking)} is needed")]

    from adapters.cli.check_models import call_model

    async def work() -> list[Finding]:
        return [await call_model(settings, name) for name in settings.llm_models]

    return values, run_trial("models", work(), "calling it")


def _find_missing(settings: Settings) -> dict[str, tuple[str, ...] | None]:
    from agent.llm.router import Router

    async def work() -> dict[str, tuple[str, ...] | None]:
        async with aclosing(Router(settings, SystemClock())) as router:
            return {name: await router.find_missing(name) for name in settings.llm_models}

    if not settings.llm_models:
        raise Refusal("A model is missing; write provider/model.")
    return asyncio.run(work())
