"""The endpoints of the page for a person's chats: listed, read backwards, named, pinned, erased, searched, exported."""

import asyncio
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import chain, pairwise, zip_longest
from typing import Annotated, Any

from pydantic import AfterValidator, StrictBool, StringConstraints
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from adapters.chat.parts import to_plain_text
from adapters.web.api.bodies import MAX_ATTACHMENTS, MAX_JSON_BYTES, YEARS, Closed, max_body, read_json
from adapters.web.api.messages import number
from adapters.web.faults import Fault, invalid
from adapters.web.guard import app_of, is_ours
from adapters.web.login.sessions import session_of, with_session
from adapters.web.page import history
from adapters.web.page.chat import KEY, PLATFORM, place_in, place_of, to_prefix
from adapters.web.page.choices import Choices, can_set_up, choose, has_model, list_offer, read_choices
from adapters.web.page.transcript import read_turns
from adapters.web.texts import say
from agent.app import App
from agent.journal.files import FILES_HEADING
from agent.live.channels import DUE, request_stop
from agent.people.billing.budget import may_search_by_meaning
from agent.people.participants import find_user
from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.memory.tokenizer import question_words
from shared.memory.visibility import act_for
from shared.messages import Permission, Place, Sender
from shared.text import MAX_ID, clean, cut

statements = load_statements(__file__)

SHOWN_CHATS = 50
TITLE_CHARS = 80
MAX_WORDS, MAX_SEARCH_CHARS, SHOWN_MATCHES, SHOWN_SIMILAR, MATCHES_OF_CHAT = 8, 200, 40, 10, 5
SNIPPET_CHARS = 160
# What may divide a word that people read as one.
MARKS = r"(?:[*_~`[]|\]\([^()\s]*\))*"
MARK = re.compile(r"[*_~`[\\]|\]\([^()\s]*\)")
# So much of a message is read as Markdown for that.
PARSED_CHARS = 600
# A search reads all that its person has said: so many run at once in a process, and one of each person.
SEARCHES_AT_ONCE, SEARCHES_OF_PERSON = 2, 4
FILES_AT_ONCE = 100
# How long a turn that was asked to stop is awaited before its chat is erased.
STOP_SECONDS, LOOK_SECONDS = 10.0, 0.1
# As the transcript names a file that came with a message.
FILE_LINE = re.compile(r"^- (.+) \(file_id \d+, .*$")
NO_STORE = {"Cache-Control": "no-store"}
NO_CHAT = say("chat.no_chat")
BUSY = say("chat.busy")


class Change(Closed):
    """The body of `PATCH /page/chats/{chat}`; what is left out stays. An empty title takes the name away."""

    title: (
        Annotated[str, StringConstraints(strict=True, strip_whitespace=True, max_length=120), AfterValidator(clean)]
        | None
    ) = None
    is_pinned: StrictBool | None = None


def to_range(who: str) -> dict[str, str]:
    """Return the bounds between which the channels of this person's chats are."""
    # The character behind the slash that ends the prefix.
    return {"first": f"{to_prefix(who)}/", "behind": f"{to_prefix(who)}0"}


@with_session
async def get_chats(request: Request) -> Response:
    """Return this person's chats behind the cursor `before`: the pinned ones, then the latest."""
    who = session_of(request)
    before = read_cursor(who, request.query_params.get("before", ""))
    async with app_of(request).database.transaction() as session:
        parameters = to_range(who) | before | {"who": who, "limit": SHOWN_CHATS + 1}
        rows = (await session.execute(statements.list_chats, parameters)).all()
    chats = [
        {
            "chat": row.chat,
            "title": cut(to_title(row.title or ""), TITLE_CHARS),
            "is_pinned": row.is_pinned,
            "at": row.last_active_at.isoformat(),
        }
        for row in rows[:SHOWN_CHATS]
    ]
    last = chats[-1] if len(rows) > SHOWN_CHATS else None
    cursor = None if last is None else f"{int(last['is_pinned'])}~{last['at']}~{last['chat']}"
    newest_title = rows[0].newest_title if rows else 0
    return JSONResponse({"chats": chats, "before": cursor, "newest_title": newest_title}, headers=NO_STORE)


def read_cursor(who: str, cursor: str) -> dict[str, Any]:
    """Return the parameters of a cursor that an earlier list has named; empty: from the beginning."""
    if not cursor:
        return {"before_pinned": None, "before_at": None, "before_channel": None}
    pinned, _, rest = cursor.partition("~")
    at, _, chat = rest.partition("~")
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        moment = None
    if (
        moment is None
        or moment.tzinfo is None
        or moment.year not in YEARS
        or pinned not in {"0", "1"}
        or KEY.fullmatch(chat) is None
    ):
        raise invalid("before", say("chat.from_the_list"))
    return {"before_pinned": pinned == "1", "before_at": moment, "before_channel": f"{to_prefix(who)}/{chat}"}


def to_title(content: str) -> str:
    """Return the first line of a chat's first message, or the name of its first file."""
    lines = (line.strip() for line in content.splitlines() if line.strip() not in {"", FILES_HEADING})
    return FILE_LINE.sub(r"\1", next(lines, ""))


@with_session
async def get_messages(request: Request) -> Response:
    """Return the newest turns of a chat before the turn `before`, and without it also what is open there."""
    app, who, place = app_of(request), session_of(request), place_in(request)
    before = number(request.query_params.get("before", str(MAX_ID)), "before", MAX_ID)
    async with app.database.transaction() as session:
        if before < MAX_ID:
            return JSONResponse(await read_turns(session, app, place.channel, who=who, before=before), headers=NO_STORE)
        # First: what is answered meanwhile is in both, and not in neither.
        arrivals = await history.list_arrivals(session, place, f"{to_prefix(who)}:", after_turn=MAX_ID)
        newest_reply = await history.find_newest_reply(session, place)
        branch, _, moment = await history.find_changes(session, who, place)
        choices = await read_choices(session, place)
        past = await read_turns(session, app, place.channel, who=who, before=before)
        arrivals = await history.leave_out_shown(session, arrivals, past["turns"])
    newest_reply = max([newest_reply, *(reply["reply_id"] for reply in past["replies"])])
    newest = {"open": arrivals, "newest_reply": newest_reply, "branch": branch, "choices": choices, "moment": moment}
    return JSONResponse(past | newest, headers=NO_STORE)


@with_session
async def change_chat(request: Request) -> Response:
    """Name a chat, or pin it."""
    app, place = app_of(request), place_in(request)
    change = await read_json(request, Change, MAX_JSON_BYTES)
    async with app.database.transaction() as session:
        chat = await find_chat(session, session_of(request), place)
        parameters = {"user_id": chat.user_id, "channel": place.channel}
        await session.execute(statements.change_chat, parameters | change.model_dump())
    return JSONResponse({}, headers=NO_STORE)


@with_session
async def put_choices(request: Request) -> Response:
    """Choose who answers in a chat in which something was said, and by what model."""
    app, place = app_of(request), place_in(request)
    choices = await read_json(request, Choices, MAX_JSON_BYTES)
    async with app.database.transaction() as session:
        chat = await find_chat(session, session_of(request), place)
        chosen = {"user_id": chat.user_id, "conversation_id": chat.conversation_id, "choices": choices}
        await choose(session, app, place, **chosen)
    return JSONResponse({}, headers=NO_STORE)


async def find_chat(session: Session, who: str, place: Place) -> Any:
    """Return the user, the conversation and whether there are replies; raises the 404 when nothing was said there."""
    row = (await session.execute(statements.find_chat, {"who": who, "channel": place.channel})).one_or_none()
    if row is None or (row.conversation_id is None and not row.has_replies):
        raise Fault(404, "not_found", NO_CHAT)
    return row


@with_session
async def delete_chat(request: Request) -> Response:
    """Erase a chat with its files, and what was remembered of it; a running turn is stopped first."""
    app, who, place = app_of(request), session_of(request), place_in(request)
    async with app.database.transaction() as session:
        chat = await find_chat(session, who, place)
    await request_stop(app.database, place, None)
    outcome, deadline = "busy", app.clock.monotonic() + STOP_SECONDS
    while (outcome := await erase_chat(app, chat, who, place=place)) in {"busy", "files"}:
        if app.clock.monotonic() > deadline:
            raise Fault(409, "busy", BUSY)
        if outcome == "busy":
            await asyncio.sleep(LOOK_SECONDS)
    if outcome == "missing":
        raise Fault(404, "not_found", NO_CHAT)
    app.events.notifier.send(DUE, place.key)
    return JSONResponse({}, headers=NO_STORE)


async def erase_chat(app: App, chat: Any, who: str, *, place: Place) -> str:
    """Erase the chat, or if it has files, delete some of them from storage before; see `parley_erase_web_chat`."""
    parameters = {"user_id": chat.user_id, "who": who, "channel": place.channel, "place_key": place.key}
    file_parameters = {"conversation_id": chat.conversation_id, "limit": FILES_AT_ONCE}
    async with app.database.transaction() as session:
        result = await session.execute(statements.erase_chat, parameters | {"file_ids": []})
        # Of a chat that stays, because a turn goes on in it, no file may be lost.
        if (outcome := str(result.scalar_one())) != "files":
            return outcome
        files = (await session.execute(statements.list_files_of_chat, file_parameters)).all()
    for file in files:
        await app.files.storage.delete(file.minio_key)
    async with app.database.transaction() as session:
        result = await session.execute(statements.erase_chat, parameters | {"file_ids": [file.id for file in files]})
        return str(result.scalar_one())


class Searches:
    """The searches that run and wait in this process: one person's keep nobody else's connections to the database.

    `slots` are for reading all messages of a person.
    """

    def __init__(self) -> None:
        self.slots = asyncio.Semaphore(SEARCHES_AT_ONCE)
        self._open: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def one_of(self, who: str) -> AsyncGenerator[None]:
        """Wait until this person may search; raises a 429 when too many searches of theirs wait already."""
        own, number = self._open.get(who, (asyncio.Lock(), 0))
        if number >= SEARCHES_OF_PERSON:
            raise Fault(429, "too_many_searches", say("chat.too_many_searches"))
        self._open[who] = own, number + 1
        try:
            async with own:
                yield
        finally:
            own, number = self._open.pop(who)
            if number > 1:
                self._open[who] = own, number - 1


@with_session
async def search(request: Request) -> Response:
    """Return the newest messages of this person's chats that have all of these words, then others about the same."""
    who, words = session_of(request), request.query_params.get("words", "")[:MAX_SEARCH_CHARS].split()[:MAX_WORDS]
    if not words:
        return JSONResponse({"matches": []}, headers=NO_STORE)
    app, searches = app_of(request), request.app.state.searches
    words_in = {"texts": [*map(re.escape, words)], "answers": [*map(to_expression, words)]}
    parameters = to_range(who) | words_in | {"limit": SHOWN_MATCHES, "per_chat": MATCHES_OF_CHAT}
    async with searches.one_of(who):
        async with searches.slots, app.database.transaction() as session:
            rows = (await session.execute(statements.search_messages, parameters)).all()
            user_id = (await session.execute(statements.find_user, {"who": who})).scalar_one_or_none()
            if user_id is not None and not await may_search_by_meaning(session, user_id):
                user_id = None
        similar = [] if user_id is None else await find_similar(app, who, user_id, words=words)
    shown = {row.turn_id for row in rows}
    matches = [to_match(row, words, is_similar=False) for row in rows]
    matches += [to_match(row, words, is_similar=True) for row in similar if row.turn_id not in shown]
    return JSONResponse({"matches": matches}, headers=NO_STORE)


async def find_similar(app: App, who: str, user_id: int, *, words: list[str]) -> Sequence[Any]:
    """Return what the person's memories of chats have about these words: by meaning, where there is an embedder."""
    query = " ".join(words)
    if not question_words(query):
        # The newest memories, which a recall then returns, are not about it.
        return []
    memory = app.memory.of_user(user_id, place_of(who, "search"), None)
    ids = [recalled.id for recalled in await memory.recall(query, SHOWN_SIMILAR)]
    async with app.database.transaction() as session:
        await act_for(session, user_id)
        return (await session.execute(statements.find_recalled, to_range(who) | {"ids": ids})).all()


def to_match(row: Any, words: list[str], *, is_similar: bool) -> dict[str, Any]:
    """Return a match as the page reads it."""
    return {
        "chat": row.chat,
        "turn_id": row.turn_id,
        "is_own": row.is_own,
        "is_similar": is_similar,
        "snippet": to_snippet(row.content, words, is_markdown=not row.is_own),
        "at": row.created_at.isoformat(),
    }


def to_pattern(words: str) -> str:
    """Return the pattern for texts that contain these words, whatever they consist of."""
    escaped = words.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{escaped}%"


def to_expression(word: str) -> str:
    """Return the regular expression, for Postgres, of Markdown in which people read this word."""
    letters = [re.escape(letter) if letter.isalnum() else rf"\\?{re.escape(letter)}" for letter in word]
    gaps = [MARKS if pair[0].isalnum() and pair[1].isalnum() else "" for pair in pairwise(word)]
    return "".join(chain.from_iterable(zip_longest(letters, gaps, fillvalue="")))


def to_snippet(content: str, words: list[str], *, is_markdown: bool) -> str:
    """Return the part of a message around the first of these words, as people read it."""
    first = find_first(content, words)
    if first < 0 and is_markdown:
        first = find_divided(content, words)
    begin = max(0, first - PARSED_CHARS // 3)
    if begin:
        # A line that is torn may have lost what opens its marks.
        begin = max(begin, content.find("\n", begin, begin + PARSED_CHARS // 4))
    part = content[begin : begin + PARSED_CHARS]
    flat = to_plain_text(part) if is_markdown else part
    if find_first(flat, words) < 0:
        # The words are in what nobody reads, such as the address of a link.
        flat = part
    flat = " ".join(flat.split())
    start = max(0, find_first(flat, words) - SNIPPET_CHARS // 3)
    snippet = flat[start : start + SNIPPET_CHARS]
    is_end = start + SNIPPET_CHARS >= len(flat) and begin + PARSED_CHARS >= len(content)
    return f"{'…' if start or begin else ''}{snippet}{'' if is_end else '…'}"


def find_first(text: str, words: list[str]) -> int:
    """Return where the first of these words stands, -1 where none does."""
    lower = text.lower()
    return min((at for word in words if (at := lower.find(word.lower())) >= 0), default=-1)


def find_divided(content: str, words: list[str]) -> int:
    """Return where the first of these words stands that marks divide, -1 where none does; marks in words don't count.

    Not by their expressions: where a text repeats itself, Python goes back for each of its letters.
    """
    at = find_first(MARK.sub("", content), [MARK.sub("", word) for word in words])
    for mark in MARK.finditer(content):
        if mark.start() > at:
            break
        at += len(mark[0])
    return at


@with_session
async def get_state(request: Request) -> Response:
    """Return what the page has to know of this installation: limits, what tools do, and what is not set up yet."""
    app = app_of(request)
    async with app.database.transaction() as session:
        user = await find_user(session, Sender(PLATFORM, session_of(request)))
        offer = await list_offer(session, app, user)
    is_owner = user is not None and user.permission >= Permission.OWNER
    has_admin_pages = user is not None and user.may(Permission.ADMIN) and is_ours(app, request.headers.get("host", ""))
    state = {"has_model": has_model(app.settings), "is_owner": is_owner, "has_admin_pages": has_admin_pages}
    state["can_set_up"] = has_admin_pages and can_set_up(app.settings, user)
    limits = {"max_bytes": max_body(app), "max_files": MAX_ATTACHMENTS}
    permission = Permission.GUEST if user is None else user.permission
    tools = {tool.name: tool.words for tool in app.toolbox.tools if tool.words and tool.requires <= permission}
    return JSONResponse(state | limits | offer | {"tools": tools}, headers=NO_STORE)
