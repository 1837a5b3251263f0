"""Our commands as Discord's slash commands: derived from their signatures, registered only when they have changed."""

import hashlib
import json
from typing import TYPE_CHECKING

from adapters.discord.events.incoming import PLATFORM
from adapters.discord.transport.rest import Json, Rest
from agent.commands import Command, find_command, list_commands
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

ASK, ABOUT_THIS, FROM_HERE = "ask", "Ask about this", "Summarise from here"
CHAT, MESSAGE_MENU = 1, 3
SUBCOMMAND, STRING, INTEGER, NUMBER, ATTACHMENT = 1, 3, 4, 10, 11
TYPES = {"integer": INTEGER, "number": NUMBER}
ON_SERVERS, IN_DIRECT_MESSAGES, INSTALLED_ON_SERVERS = 0, 1, 0
# Not in conversations of other people, which the bot is no member of.
WHERE: Json = {"contexts": [ON_SERVERS, IN_DIRECT_MESSAGES], "integration_types": [INSTALLED_ON_SERVERS]}

log = get_logger()


def to_payload() -> list[Json]:
    """Return all commands and menu entries for registration."""
    question = {"type": STRING, "name": "question", "description": "What you want to know", "required": True}
    file = {"type": ATTACHMENT, "name": "file", "description": "A file to look at"}
    ask = {"type": CHAT, "name": ASK, "description": "Ask me something", "options": [question, file]}
    menus = [{"type": MESSAGE_MENU, "name": name} for name in (ABOUT_THIS, FROM_HERE)]
    ours = [to_command(command) for command in list_commands(PLATFORM) if command.name != ASK]
    return [our | WHERE for our in (ask, *ours, *menus)]


def to_command(command: Command) -> Json:
    """Return a command with its subcommands or its options."""
    payload: Json = {"type": CHAT, "name": command.name, "description": _short(command.summary)}
    options: list[Json] = []
    for form in command.forms:
        parameters: list[Json] = []
        for parameter in form.visible:
            kinds = {TYPES.get(variant.get("type", ""), STRING) for variant in parameter.variants}
            option: Json = {
                "type": kinds.pop() if len(kinds) == 1 else STRING,
                "name": parameter.name,
                "description": _short(parameter.description),
                "required": parameter.is_required,
            }
            if parameter.is_choice:
                option["choices"] = [{"name": word, "value": word} for word in parameter.choices]
            if option["type"] != STRING and "maximum" in parameter.variants[0]:
                option["min_value"] = 1 if option["type"] == INTEGER else 0
                option["max_value"] = parameter.variants[0]["maximum"]
            parameters.append(option)
        if form.word is None:
            options += parameters
        else:
            subcommand: Json = {"type": SUBCOMMAND, "name": form.word, "description": _short(form.summary)}
            options.append(subcommand | ({"options": parameters} if parameters else {}))
    return payload | ({"options": options} if options else {})


def _short(text_: str) -> str:
    return text_[:100] or "…"


def to_line(name: str, options: list[Json]) -> str:
    """Return a slash command as a typed command, whatever the order of its options.

    Raises `Refusal` with the usage line where an option is missing before another one.
    """
    command = find_command(PLATFORM, name)
    sub = next((option for option in options if option["type"] == SUBCOMMAND), None)
    form = None if command is None else command.find_form("" if sub is None else sub["name"])
    if command is None or form is None:
        # Registered by another release.
        return f"/{name}"
    values = {option["name"]: option["value"] for option in (options if sub is None else sub.get("options", ()))}
    words, is_over = [f"/{name}"], False
    words += [] if form.word is None else [form.word]
    for parameter in form.visible:
        if parameter.name not in values:
            is_over = True
        elif is_over:
            raise command.refusal()
        else:
            words += [] if parameter.keyword is None else [parameter.keyword]
            words.append(str(values[parameter.name]))
    return " ".join(words)


async def sync(app: "App", rest: Rest) -> bool:
    """Register the commands if they differ from those registered last; return whether they did."""
    payload = to_payload()
    digest = hashlib.sha256(json.dumps(payload, sort_keys=True).encode()).hexdigest()
    bot_id = await rest.rate_limiter.bot.find_id()
    async with app.database.statement() as session:
        row = (await session.execute(statements.read_commands_hash, {"bot_id": bot_id})).one()
    if row.commands_hash == digest:
        return False
    me = await rest.me()
    await rest.call("PUT", "/applications/{application_id}/commands", payload, application_id=str(me["id"]))
    async with app.database.statement() as session:
        await session.execute(statements.store_commands_hash, {"bot_id": bot_id, "hash": digest})
    log.info("discord_commands_synced", count=len(payload))
    return True
