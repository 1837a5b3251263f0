"""What the forms about oneself do: what the commands of the chat do, and nothing that these could not."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field
from sqlalchemy import TextClause

from adapters.web.login.sessions import WebSession, end_sessions
from adapters.web.texts import say
from agent import commands
from agent.commands.base import Request
from shared.db.statements import load_statements
from shared.errors import NotFound, Refusal
from shared.messages import ReplyFile
from shared.text import clean, to_id

statements = load_statements(__file__)

ERASE_WORDS = "erase me"
MOST_TOKENS, MOST_DAYS = 20, 365
MISSING = say("me.missing")
TOO_MANY_TOKENS = say("me.too_many_tokens", most=MOST_TOKENS)
NOT_THIS = say("me.account_stays")
TYPE_IT = say("me.type_it", words=ERASE_WORDS)

Fields = Mapping[str, str]


class Result(Struct, frozen=True):
    """What an act did, or why it did not. `secret` is shown this once; `is_gone`: nothing more can be shown."""

    sentence: str
    is_refused: bool = False
    files: tuple[ReplyFile, ...] = ()
    secret: str | None = None
    title: str = field(default="")

    @property
    def is_gone(self) -> bool:
        """Return whether the session has ended with it."""
        return bool(self.title)


Act = Callable[[Request, WebSession, Fields], Awaitable[Result]]


def id_in(fields: Fields) -> int:
    """Return the id that a form names; one that can't be is none of the person's."""
    return to_id(fields.get("id", "")) or 0


async def give(asking: Request, line: str) -> Result:
    """Give a command of the chat."""
    reply = await commands.answer(asking.app, asking.sender, asking.place, text=line)
    return Result(MISSING, is_refused=True) if reply is None else Result(reply.text, files=reply.files)


async def forget(asking: Request, _session: WebSession, fields: Fields) -> Result:
    """Forget a memory."""
    return await give(asking, f"/memory forget {id_in(fields)}")


async def correct(asking: Request, _session: WebSession, fields: Fields) -> Result:
    """Remember a corrected text in the place of a memory."""
    memories, memory_id = asking.app.memory.of_user(asking.user.id, asking.place, None), id_in(fields)
    if not (content := clean(fields.get("content", "")).strip()):
        raise Refusal(say("me.write_what_is_right"))
    if memory_id not in await memories.read([memory_id]):
        raise NotFound(what="memory")
    kept = await memories.remember(content)
    if kept.id != memory_id:
        await memories.forget(memory_id)
    return Result(say("me.remembered", content=content))


async def pause_memory(asking: Request, _session: WebSession, _fields: Fields) -> Result:
    """Pause remembering."""
    return await give(asking, "/memory pause everywhere")


async def resume_memory(asking: Request, _session: WebSession, _fields: Fields) -> Result:
    """Remember again."""
    return await give(asking, "/memory resume everywhere")


async def ask_for_more(asking: Request, _session: WebSession, _fields: Fields) -> Result:
    """Ask an admin for more."""
    return await give(asking, "/more")


async def set_own_limit(asking: Request, session: WebSession, fields: Fields) -> Result:
    """Set what the person allows themselves in a month, or lift it."""
    text = fields.get("tokens", "").strip().replace(",", "")
    tokens = to_id(text)
    if text and tokens is None:
        raise Refusal(say("me.whole_number"))
    values = {"account": session.account, "user_id": asking.user.id, "tokens": tokens}
    await _run(asking, statements.set_own_limit, values)
    return Result(say("me.own_limit_lifted") if tokens is None else say("me.own_limit_set", tokens=f"{tokens:,}"))


async def delete_file(asking: Request, _session: WebSession, fields: Fields) -> Result:
    """Delete a file with its content."""
    app = asking.app
    file = await app.files.storage.of_user(app.database, asking.user.id, None).delete(id_in(fields))
    return Result(say("me.file_deleted", file=file.filename))


async def change_job(asking: Request, _session: WebSession, fields: Fields) -> Result:
    """Pause, resume or cancel a job."""
    verb = fields.get("verb", "")
    if verb not in {"pause", "resume", "cancel"}:
        raise Refusal(MISSING)
    return await give(asking, f"/schedule {verb} {id_in(fields)}")


async def end_session(asking: Request, session: WebSession, fields: Fields) -> Result:
    """Sign out another browser."""
    if not await end_sessions(asking.app, asking.user.id, id_in(fields), but=session.id):
        raise Refusal(MISSING)
    return Result(say("me.browser_signed_out"))


async def end_others(asking: Request, session: WebSession, _fields: Fields) -> Result:
    """Sign out all other browsers."""
    ended = await end_sessions(asking.app, asking.user.id, but=session.id)
    return Result(say("me.browsers_signed_out", count=ended) if ended != 1 else say("me.other_browser_signed_out"))


async def unlink(asking: Request, session: WebSession, fields: Fields) -> Result:
    """Take an account from the person."""
    session.require_fresh_login()
    parameters = {"user_id": asking.user.id, "id": id_in(fields), "account": session.account}
    if not await _run(asking, statements.unlink_account, parameters):
        raise Refusal(NOT_THIS)
    # Whoever had that account may have signed in by it.
    await end_sessions(asking.app, asking.user.id, but=session.id)
    return Result(say("me.unlinked"))


async def create_token(asking: Request, session: WebSession, fields: Fields) -> Result:
    """Make a token for the API, which is shown this once."""
    session.require_fresh_login()
    days = to_id(fields.get("days", "")) or 0
    if not 0 < days <= MOST_DAYS:
        raise Refusal(say("me.token_days", most=MOST_DAYS))
    scopes = "read" if fields.get("scopes") == "read" else "chat,read"
    own = {"user_id": asking.user.id, "limit": MOST_TOKENS}
    values = {"account": session.account, "scopes": scopes, "days": days, "name": clean(fields.get("name", ""))[:100]}
    async with asking.app.database.transaction() as transaction:
        if len((await transaction.execute(statements.list_tokens, own)).all()) >= MOST_TOKENS:
            raise Refusal(TOO_MANY_TOKENS)
        token = (await transaction.execute(statements.create_token, values)).scalar_one()
    return Result(say("me.token_made"), secret=str(token))


async def revoke_token(asking: Request, _session: WebSession, fields: Fields) -> Result:
    """End a token for the API."""
    done = await _run(asking, statements.revoke_token, {"user_id": asking.user.id, "id": id_in(fields)})
    if done is None:
        raise Refusal(MISSING)
    return Result(say("me.token_ended"))


async def export(asking: Request, _session: WebSession, _fields: Fields) -> Result:
    """Make the archive of everything that is kept."""
    return await give(asking, "/export")


async def erase(asking: Request, session: WebSession, fields: Fields) -> Result:
    """Erase the person, who has typed that it shall be done."""
    session.require_fresh_login()
    if fields.get("words", "").strip().lower() != ERASE_WORDS:
        raise Refusal(TYPE_IT)
    asked = await commands.answer(asking.app, asking.sender, asking.place, text="/erase me")
    if asked is None or asked.confirmation is None:
        raise Refusal(MISSING)
    done = await give(asking, f"/confirm {asked.confirmation}")
    return Result(done.sentence, title=say("me.erased"))


async def _run(asking: Request, statement: TextClause, parameters: Mapping[str, object]) -> object:
    async with asking.app.database.transaction() as transaction:
        return (await transaction.execute(statement, parameters)).scalar_one_or_none()


ACTS: Mapping[str, Act] = {
    act.__name__: act
    for act in (
        forget,
        correct,
        pause_memory,
        resume_memory,
        ask_for_more,
        set_own_limit,
        delete_file,
        change_job,
        end_session,
        end_others,
        unlink,
        create_token,
        revoke_token,
        export,
        erase,
    )
}
