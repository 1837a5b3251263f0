"""`/admin/setup`: which model answers. The wizard of the shell tries it, writes `.env` and starts Parley again."""

import asyncio
from asyncio.subprocess import STDOUT
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from adapters.providers import OLLAMA, OTHER, PROVIDERS
from adapters.web.admin.command import SECONDS, run_command
from adapters.web.admin.visit import OTHER_LOGIN, Outcome, Visit
from adapters.web.login.sessions import NOT_FRESH
from adapters.web.page.choices import can_set_up
from adapters.web.texts import say
from agent.commands.forms.entries import Form
from shared.errors import Refusal
from shared.log import get_logger
from shared.redaction import redact_text
from shared.settings import Settings, read_env_file
from shared.text import to_sentence

log = get_logger()

MENU = [*(provider.title for provider in PROVIDERS), OLLAMA, OTHER]
HERE = say("admin.env_names_another_server")
# Arguments of a program can't be as long as a form.
MAX_LENGTH = 4000
_running = asyncio.Lock()


class Entry(NamedTuple):
    """What the form says: the model as litellm names it, where it is spoken to, and its key."""

    model: str
    address: str
    key: str


async def set_up(visit: Visit) -> Response:
    """Show the form to an owner while no model is set, and try what was entered; to anybody else there is nothing."""
    if not can_set_up(visit.app.settings, visit.admin.user):
        raise HTTPException(404)
    if visit.request.method == "POST":
        # What was entered is shown again, but for the key.
        values = {name: value for name, value in visit.form.values.items() if name != "key"}
        try:
            sentence = await change(visit)
            visit.outcome = Outcome("model", to_sentence(sentence), is_done=True, values={})
        except Refusal as refusal:
            visit.outcome = Outcome("model", to_sentence(str(refusal)), is_done=False, values=values)
    return visit.render("setup/setup.html", title=say("admin.which_model"), menu=MENU, providers=PROVIDERS)


async def change(visit: Visit) -> str:
    """Let the wizard try the model and write it; raises `Refusal` with what it found."""
    if visit.form.text("token") != visit.admin.token:
        raise Refusal(OTHER_LOGIN)
    if not visit.admin.has_fresh_login:
        raise Refusal(NOT_FRESH)
    if _running.locked():
        raise Refusal(say("admin.model_trial_is_running"))
    entry = read_entry(visit.form, visit.app.settings)
    async with _running:
        # Of another form that was open at the same time; with what it has set this process has yet to begin again.
        if read_env_file().get("LLM_MODELS"):
            raise Refusal(say("admin.model_was_set_meanwhile"))
        code, output = await run_wizard(visit.app.settings, entry)
    # A server of one's own may repeat the key in a form that nobody knows.
    lines = [redact_text(line.replace(entry.key, "…") if entry.key else line).strip() for line in output.splitlines()]
    log.info("model_set_up", user_id=visit.admin.user.id, is_done=code == 0)
    if code != 0:
        faults = [line.removeprefix("fail").strip() for line in lines if line.startswith("fail")]
        raise Refusal(" ".join(faults or lines[-1:]) or say("admin.wizard_did_not_start"))
    return lines[-1] if lines else say("admin.it_is_written")


def read_entry(form: Form, settings: Settings) -> Entry:
    """Return what the form says; raises `Refusal`."""
    number, model, key = form.number("provider") or 0, form.text("model"), form.text("key")
    if number >= len(MENU):
        raise HTTPException(404)
    is_other = MENU[number] == OTHER
    if number < len(PROVIDERS):
        model = model or PROVIDERS[number].model
    address = form.text("address") if is_other else ""
    if not model:
        raise Refusal(say("admin.name_the_model"))
    if any(len(value) > MAX_LENGTH or not value.isprintable() for value in (model, address, key)):
        raise Refusal(say("admin.model_entry_is_too_long", max_length=MAX_LENGTH))
    if MENU[number] == OLLAMA:
        return Entry(model if "/" in model else f"ollama_chat/{model}", "", "")
    if settings.openai_base_url and not is_other:
        raise Refusal(HERE)
    return Entry(model, address, key)


async def run_wizard(settings: Settings, entry: Entry) -> tuple[int, str]:
    """Return the exit code of `parley setup` and what it says; the key goes by its input, which nobody else sees."""
    words = ("setup", "--yes", "--key-stdin", f"--model={entry.model}", f"--base-url={entry.address}")
    try:
        code, output = await run_command(settings, *words, content=f"{entry.key}\n".encode(), errors=STDOUT)
    except TimeoutError:
        raise Refusal(say("admin.model_did_not_answer", seconds=f"{SECONDS:.0f}")) from None
    return code, output.decode("utf-8", "replace")


ROUTES = (Route("/admin/setup", set_up, methods=["GET", "POST"]),)
