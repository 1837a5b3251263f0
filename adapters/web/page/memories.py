"""The page's list of a person's memories, and the commands that its buttons give."""

from msgspec.structs import asdict
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.web.api.bodies import MAX_JSON_BYTES, Closed, Text, read_json
from adapters.web.api.messages import number
from adapters.web.faults import invalid
from adapters.web.guard import app_of
from adapters.web.login.sessions import find_session, session_of, with_session
from adapters.web.page.chat import PLATFORM, Key, is_command, place_of, require_fresh_login_to_erase
from adapters.web.texts import say
from agent import commands
from agent.people.participants import find_user
from shared.db.statements import load_statements
from shared.memory.own import list_own
from shared.memory.visibility import Visibility
from shared.messages import Sender, to_fields

statements = load_statements(__file__)

SHOWN = 50
MAX_SKIPPED = 1_000_000
MAX_SEARCH_CHARS = 200
NO_STORE = {"Cache-Control": "no-store"}


class Given(Closed):
    """The body of `POST /chat/commands`."""

    chat: Key
    command: Text


@with_session
async def get_memories(request: Request) -> Response:
    """Return this person's memories from `skip` on, newest first; with `search`, those with all of its words."""
    app, who = app_of(request), session_of(request)
    skip = number(request.query_params.get("skip", "0"), "skip", MAX_SKIPPED)
    words = request.query_params.get("search", "")[:MAX_SEARCH_CHARS]
    async with app.database.transaction() as session:
        user = await find_user(session, Sender(PLATFORM, who))
        if user is None:
            return JSONResponse({"memories": [], "has_more": False, "is_paused": False}, headers=NO_STORE)
        is_paused = (await session.execute(statements.is_memory_paused, {"user_id": user.id})).scalar_one()
        visibility = Visibility(user.id, place_of(who, "memories"))
        own = await list_own(session, visibility, words, limit=SHOWN + 1, skip=skip)
    memories = [asdict(memory) | {"said_at": memory.said_at.isoformat()} for memory in own[:SHOWN]]
    return JSONResponse({"memories": memories, "has_more": len(own) > SHOWN, "is_paused": is_paused}, headers=NO_STORE)


@with_session
async def post_command(request: Request) -> Response:
    """Run a command outside of the conversation, and return its reply with buttons and files."""
    app, who = app_of(request), session_of(request)
    body = await read_json(request, Given, MAX_JSON_BYTES)
    require_fresh_login_to_erase(request, body.command)
    reply = await commands.answer(app, Sender(PLATFORM, who), place_of(who, body.chat), text=body.command)
    if reply is None:
        raise invalid("command", say("chat.begins_with_slash"))
    # Who has confirmed to be erased has no session any more.
    is_signed_out = is_command(body.command, "confirm") and await find_session(request) is None
    return JSONResponse(
        {
            "content": reply.text,
            "commands": [asdict(choice) for choice in reply.choices],
            "files": [to_fields(file) for file in reply.files],
            "is_signed_out": is_signed_out,
        },
        headers=NO_STORE,
    )
