"""The command `/persona`, which shows the persona of a place or binds one to it."""

from typing import Annotated

from agent.commands.base import Request, command
from agent.commands.signature import REST_OF_LINE, Keyword
from agent.people.personas import resolve_persona
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.log import get_logger
from shared.messages import Permission

statements = load_statements(__file__)

MOST_NAMES = 30


@command("persona", hint="Write /persona to see who answers here, or /persona set NAME.")
async def show_or_bind_persona(request: Request, name: Annotated[str, Keyword("set"), REST_OF_LINE] = "") -> str:
    """Show who answers here; admins bind an existing persona to this channel with `set`."""
    if not name:
        async with request.app.database.transaction() as session:
            persona = await resolve_persona(
                session, request.place, request.user.permission, settings=request.app.settings
            )
        source = "the built-in persona" if persona.id is None else "a persona of this installation"
        if persona.allowed_modules is None:
            modules = "all modules that your permission allows"
        else:
            modules = f"the modules {', '.join(sorted(persona.allowed_modules)) or '(none)'}"
        model = f", asks {persona.model} first" if persona.model else ""
        return f"{persona.name} answers here ({source}){model} and may use {modules}."
    request.require(Permission.ADMIN)
    return await _bind(request, name)


async def _bind(request: Request, name: str) -> str:
    place = request.place
    async with request.app.database.transaction() as session:
        row = (await session.execute(statements.lock_persona, {"name": name})).one_or_none()
        if row is None:
            names = (await session.execute(statements.list_persona_names, {"limit": MOST_NAMES})).scalars().all()
            hint = f"there are: {', '.join(names)}" if names else "there is none yet; `parley persona create` makes one"
            raise Refusal(f"There is no persona {name[:60]!r}; {hint}.")
        if row.is_default:
            raise Refusal(f"{name} is the default persona, which answers wherever no other does; choose another one.")
        old_place = " / ".join(part for part in row[:3] if part)
        if old_place and (row.platform, row.platform_server_id) != (place.platform, place.server):
            # Roles on this server must not affect other servers, so only the user's own permission counts.
            own = (await session.execute(statements.read_own_permission, {"user_id": request.user.id})).scalar_one()
            if Permission.from_label(own) < Permission.ADMIN:
                raise Refusal(
                    "This persona answers elsewhere; to take it from there needs more than a role on this server."
                )
        bound = {"name": name, "platform": place.platform, "server": place.server, "channel": place.channel}
        await session.execute(statements.bind_persona, bound)
    get_logger().info("persona_bound", user=request.user.id, place=place.key)
    # A persona has only one place, so binding it here removes it from its previous place.
    new_place = " / ".join(part for part in (place.platform, place.server, place.channel) if part)
    moved = f" It no longer answers in {old_place}." if old_place and old_place != new_place else ""
    return f"{name} answers in this channel from the next message on.{moved}"
