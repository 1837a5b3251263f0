"""Opens a form for an admin, and does what one asks for: once, in their name, as far as the database lets them."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from agent.app import App
from agent.commands.base import Request, open_request
from agent.commands.forms.acts import ACTS, Act
from agent.commands.forms.base import Asker, Done, OpenForm
from agent.commands.forms.changes import list_own_entries, read_latest_entry, undo
from agent.commands.forms.entries import Form
from agent.commands.forms.requests import DECISIONS
from agent.queue.inbox import accept_answered
from shared.db.driver import Session
from shared.db.errors import refusals
from shared.db.statements import load_statements
from shared.errors import Refusal
from shared.log import get_logger
from shared.messages import IncomingMessage, Permission
from shared.text import cut, to_sentence

statements = load_statements(__file__)

TEXT_CHARS = 1500
UNKNOWN_FORM = "There is no such form any more; /admin shows those that there are."
SENT_BEFORE = "This was sent before, and is done."

log = get_logger()


async def check_admin(app: App, asker: Asker) -> None:
    """Raise `Refusal` unless this person is an admin here."""
    async with app.database.transaction() as session:
        await _open(session, app, asker)


async def open_form(app: App, asker: Asker, name: str) -> OpenForm:
    """Return the form with what it begins with; raises `Refusal`."""
    act = _find_act(name)
    async with app.database.transaction() as session:
        request = await _open(session, app, asker)
        return OpenForm(name, act.title, await act.build(session, request))


async def send_form(app: App, asker: Asker, name: str, *, values: Mapping[str, str], event_id: str) -> Done:
    """Do what a form asks for, once for an `event_id`; raises `Refusal` with the reason, and then nothing is done."""
    act = _find_act(name)

    async def change(session: Session, request: Request) -> str:
        return await act.do(session, request, Form(values))

    return await _change(app, asker, change, name=name, event_id=event_id)


async def take_back(app: App, asker: Asker, entries: Sequence[int], *, event_id: str) -> Done:
    """Take back what a form has done: all of its entries, in this order."""

    async def change(session: Session, _request: Request) -> str:
        return "; ".join([await undo(session, entry) for entry in entries])

    return await _change(app, asker, change, name="undo", event_id=event_id)


async def _change(
    app: App, asker: Asker, change: Callable[[Session, Request], Awaitable[str]], *, name: str, event_id: str
) -> Done:
    sender, place = asker.sender, asker.place
    account = f"{sender.platform}:{sender.platform_user_id}"
    arrival = IncomingMessage(
        place.platform, sender, place, event_id=f"form:{event_id}", content="", sent_at=app.clock.now()
    )
    with _sentences():
        async with app.database.transaction() as session:
            request = await _open(session, app, asker)
            # In the same transaction: what is refused may be sent again.
            if not await accept_answered(session, arrival):
                raise Refusal(SENT_BEFORE)
            parameters = {"user_id": request.user.id, "account": account, "platform": place.platform}
            await session.execute(statements.act_on_server, parameters | {"server": place.server})
            latest = await read_latest_entry(session)
            sentence = await change(session, request)
            entries = await list_own_entries(session, account, latest)
    log.info("form_sent", form=name, user=request.user.id, place=place.key)
    return Done(to_sentence(cut(sentence, TEXT_CHARS)), entries)


async def _open(session: Session, app: App, asker: Asker) -> Request:
    request = await open_request(
        session, app, asker.sender, place=asker.place, context=asker.context, adapter=asker.place.platform
    )
    request.require(Permission.ADMIN)
    return request


def _find_act(name: str) -> Act:
    act = {**ACTS, **DECISIONS}.get(name)
    if act is None:
        raise Refusal(UNKNOWN_FORM)
    return act


@contextmanager
def _sentences() -> Iterator[None]:
    """Say what the database refuses as a sentence."""
    try:
        with refusals():
            yield
    except Refusal as refusal:
        raise Refusal(to_sentence(cut(str(refusal), TEXT_CHARS)), **refusal.fields) from None
