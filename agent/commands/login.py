"""The command `/login`, which gives out a one-time link to the chat page."""

from agent.commands.base import Answered, Request, command
from agent.people.links import PAGE, one_time_link
from shared.db.statements import load_statements
from shared.errors import Refusal

statements = load_statements(__file__)

# So many links an account gets in so many seconds.
MOST_LINKS, LINK_SECONDS = 5, 600
LOCAL_HOSTS = ("localhost", "127.", "::1", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
# A program that speaks for people, and a person's token for the API, is no person in front of a browser.
PROGRAMS = frozenset({"http", "a2a", "mcp"})
TO_PROGRAM = "I give out links to my page only to people, in a chat of their own: write /login there."
HERE_ALREADY = "You are signed in here already; /me shows as whom."
TOO_MANY = "You have asked for too many links; please wait ten minutes."
REPLY = (
    "This link opens my page as you, once, within ten minutes. Keep it to yourself: whoever opens it is you.\n{link}"
)
ONLY_HERE = "(It works on the machine on which I run: nobody has set PUBLIC_URL.)"


@command("login")
async def log_in(request: Request, *_: str) -> str | Answered:
    """Send you a link that opens my page as you, once, within ten minutes."""
    if request.adapter == PAGE:
        return HERE_ALREADY
    if request.adapter in PROGRAMS or request.adapter.partition(":")[0] != request.place.platform:
        raise Refusal(TO_PROGRAM)
    app, sender = request.app, request.sender
    visitor = {"door": "command", "visitor": f"user {request.user.id}", "most": MOST_LINKS, "seconds": LINK_SECONDS}
    async with app.database.transaction() as session:
        is_within_limit = (await session.execute(statements.count_attempt, visitor)).scalar_one()
    if not is_within_limit:
        raise Refusal(TOO_MANY)
    reply = REPLY.format(link=one_time_link(app, sender.platform_user_id, sender.platform, way="command"))
    is_local = app.settings.public_url is None and app.settings.host.startswith(LOCAL_HOSTS)
    return Answered(f"{reply}\n{ONLY_HERE}" if is_local else reply, is_secret=True)
