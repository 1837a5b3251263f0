"""Our commands as Discord's slash commands: derived from the usage texts, registered only when they have changed."""

import hashlib
import json
import re
from typing import TYPE_CHECKING

from adapters.discord.events.incoming import PLATFORM
from adapters.discord.transport.rest import Json, Rest
from agent.commands import Command, list_commands
from shared.db.statements import load_statements
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

ASK, ABOUT_THIS, FROM_HERE = "ask", "Ask about this", "Summarise from here"
CHAT, MESSAGE_MENU = 1, 3
SUBCOMMAND, STRING, ATTACHMENT = 1, 3, 11
ON_SERVERS, IN_DIRECT_MESSAGES, INSTALLED_ON_SERVERS = 0, 1, 0
# Not in conversations of other people, which the bot is no member of.
WHERE: Json = {"contexts": [ON_SERVERS, IN_DIRECT_MESSAGES], "integration_types": [INSTALLED_ON_SERVERS]}
OPTIONAL = re.compile(r"^\[(?:(?P<word>[a-z][a-z_-]*) )?(?P<value>[A-Z][A-Z_ ]*)\]$")
ALTERNATIVE = re.compile(r"^(?P<word>[a-z][a-z_-]*)(?: (?P<value>[A-Z][A-Z_ ]*))?$")
REQUIRED = re.compile(r"^[A-Z][A-Z_ ]*$")


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
    """Return a command with the options from its usage: `/memory list|forget ID` has two subcommands."""
    _, _, rest = command.usage.partition(" ")
    payload: Json = {"type": CHAT, "name": command.name, "description": _short(command.summary)}
    options = _options(rest.strip())
    return payload | ({"options": options} if options else {})


def _options(usage: str) -> list[Json]:
    if not usage:
        return []
    if (match := OPTIONAL.match(usage)) is not None:
        return [_text(match["word"] or match["value"], match["value"], is_required=False)]
    if REQUIRED.match(usage):
        return [_text(usage, usage, is_required=True)]
    alternatives = [ALTERNATIVE.match(part.strip()) for part in usage.split("|")]
    if any(alternative is None for alternative in alternatives):
        return [_text("input", usage, is_required=False)]
    return [_subcommand(alternative) for alternative in alternatives if alternative is not None]


def _subcommand(match: re.Match[str]) -> Json:
    payload: Json = {"type": SUBCOMMAND, "name": match["word"], "description": _short(match[0].capitalize())}
    return payload | ({"options": [_text(match["value"], match["value"], is_required=True)]} if match["value"] else {})


def _text(name: str, description: str, *, is_required: bool) -> Json:
    plain = re.sub(r"[^a-z0-9_-]+", "_", name.lower()).strip("_")[:32]
    return {"type": STRING, "name": plain, "description": _short(description.capitalize()), "required": is_required}


def _short(text_: str) -> str:
    return text_[:100] or "…"


def to_line(name: str, options: list[Json]) -> str:
    """Return a slash command as a typed command; an option named like a word of the usage adds that word."""
    usage = next((command.usage for command in list_commands(PLATFORM) if command.name == name), "")
    words = [f"/{name}"]
    for option in options:
        if option["type"] == SUBCOMMAND:
            words += [option["name"], *(str(suboption["value"]) for suboption in option.get("options", ()))]
            continue
        word = OPTIONAL.match(usage.partition(" ")[2])
        words += [option["name"]] if word is not None and word["word"] == option["name"] else []
        words.append(str(option["value"]))
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
