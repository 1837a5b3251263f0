"""The introduction on a new server, and a hint for the person who has invited the agent."""

from contextlib import suppress
from typing import TYPE_CHECKING

import discord

from adapters.discord.transport.rest import Refused, insist
from shared.db.statements import load_statements
from shared.errors import Unavailable
from shared.log import get_logger

statements = load_statements(__file__)

if TYPE_CHECKING:
    from agent.app import App

HELLO = (
    "Hello, I am {name}. Mention me or reply to me and I answer; in a thread that I take part in that is not needed. "
    "`/ask` asks me something, `/help` lists what else I can do."
)
HINT = (
    "Thank you for inviting me to **{server}**. What can be set up there:\n"
    "- who I am: `/persona set NAME` in a channel, or a row in `personas`;\n"
    "- where I answer: `channel_modes` with the channel's id: `mention`, `always` or `off`;\n"
    "- what roles may do: `role_grants`; what the server may spend: `servers.token_budget_monthly`.\n"
    "The tables are changed in `parley psql`; docs/discord.md shows each. The server's id is `{server_id}`."
)


log = get_logger()


async def welcome(app: "App", guild: discord.Guild) -> None:
    """Introduce the agent, once per server."""
    async with app.database.statement() as session:
        parameters = {"server": str(guild.id), "name": guild.name}
        if not (await session.execute(statements.note_server, parameters)).one().is_new:
            return
    candidates = [
        text_channel for text_channel in (guild.system_channel, *guild.text_channels) if text_channel is not None
    ]
    channel = next((candidate for candidate in candidates if candidate.permissions_for(guild.me).send_messages), None)
    if channel is not None:
        await _send(channel, HELLO.format(name=guild.me.display_name), nonce=f"hello-{guild.id}")

    async def read_inviter() -> discord.User | None:
        async for entry in guild.audit_logs(action=discord.AuditLogAction.bot_add, limit=5):
            if entry.target is not None and entry.target.id == guild.me.id and isinstance(entry.user, discord.User):
                return entry.user
        return None

    inviter: discord.abc.Messageable | None = None
    try:
        inviter = await insist(read_inviter)
    except (Refused, Unavailable) as error:
        log.info("inviter_unknown", server=guild.id, cause=str(error))
    if inviter is None and (owner_id := guild.owner_id) is not None:
        # The owner, where the audit log can't be read or does not tell who has added the agent.
        with suppress(Refused, Unavailable):
            inviter = await insist(lambda: guild.fetch_member(owner_id))
    if inviter is not None:
        hint = HINT.format(server=discord.utils.escape_markdown(guild.name), server_id=guild.id)
        await _send(inviter, hint, nonce=f"hint-{guild.id}")


async def _send(where: discord.abc.Messageable, text: str, nonce: str) -> None:
    try:
        await insist(lambda: where.send(text, nonce=nonce, suppress_embeds=True))
    except (Refused, Unavailable) as error:
        log.info("welcome_not_said", cause=str(error))
