"""App Home as Slack blocks."""

from collections.abc import Sequence

from msgspec import Struct

from adapters.slack.interactions.respond import to_modal, to_plain_text, to_section
from adapters.slack.transport.api import Json
from agent.commands.panels import Entry, Panel
from agent.people.billing.budget import BudgetStatus
from agent.people.billing.servers import ServerSpend
from shared.text import cut

ACTION_ID, REMOVE, BUDGET = "parley_home", "remove", "budget"
BUDGET_FORM, BUDGET_FIELD = "parley_budget", "budget"
BAR_WIDTH = 20
ENTRY_CHARS = 1000
MOST_TOKENS = 10**12

PRIVACY = (
    "What you write to me, and what I answer, is kept in this Parley's own database and shown to the language model "
    "that answers. What I remember from a direct message is used in direct messages only. "
    "/parley reset makes me look no longer at what was said before."
)


class Section(Struct, frozen=True):
    """A panel with its first entries."""

    panel: Panel
    entries: Sequence[Entry]
    more: str


class Home(Struct, frozen=True):
    """The content of the tab; `server` is for admins only, `note` tells the result of the latest action."""

    permission: str
    status: BudgetStatus
    persona: str
    sections: Sequence[Section]
    server: ServerSpend | None
    note: str = ""


def to_view(home: Home) -> Json:
    """Return the whole view."""
    status = home.status
    reservation = f"\nRunning requests hold {status.reserved:,} tokens." if status.reserved else ""
    if status.limit is None:
        text = f"Unlimited; you have used {status.used:,} tokens in this period."
    else:
        text = (
            f"{bar(status.used, status.limit)}\nYou have used {status.used:,} of {status.limit:,} tokens. "
            f"It renews on {status.renews_on:%d %B %Y}."
        )
    blocks = [
        *([_context(home.note)] if home.note else ()),
        *_part("Your budget", f"{text}{reservation}\nYour permission: {home.permission}."),
        *_part("Who answers you here", home.persona),
    ]
    for section in home.sections:
        panel = section.panel
        blocks += [_header(panel.title)] if section.entries else _part(panel.title, panel.empty)
        sure = {
            "title": to_plain_text(f"{panel.verb}?"),
            "text": to_plain_text("This can't be undone."),
            "confirm": to_plain_text(panel.verb),
            "deny": to_plain_text("Keep"),
        }
        for entry in section.entries:
            button = _button(REMOVE, panel.verb) | {"value": f"{panel.name}:{entry.id}", "confirm": sure}
            blocks.append(_text(cut(entry.text, ENTRY_CHARS)) | {"accessory": button})
        if section.entries and section.more:
            blocks.append(_context(section.more.replace(" /", " /parley ")))
    if home.server is not None:
        spend = home.server
        tokens, cost = f"{spend.tokens:,} tokens", f"about ${spend.cost:,.2f}"
        lines = [f"In the last 30 days {spend.people:,} people have used {tokens} ({cost})."]
        budget = spend.budget
        if budget is None or budget.limit is None:
            lines.append("There is no budget for all together.")
        else:
            lines.append(bar(budget.used, budget.limit))
            lines.append(
                f"{budget.used:,} of {budget.limit:,} tokens; the budget renews on {budget.renews_on:%d %B %Y}."
            )
        button = {"type": "actions", "elements": [_button(BUDGET, "Change the budget")]}
        blocks += [*_part("This workspace", "\n".join(lines)), button]
    blocks += _part("Privacy", PRIVACY)
    return {"type": "home", "blocks": blocks}


def bar(usage: int, limit: int) -> str:
    """Return a progress bar of the used share."""
    share = 1.0 if limit <= 0 else min(1.0, usage / limit)
    full = round(share * BAR_WIDTH)
    return f"{'▓' * full}{'░' * (BAR_WIDTH - full)} {share:.0%}"


def to_budget_form(limit: int | None) -> Json:
    """Return the form for the workspace's budget."""
    field: Json = {"type": "number_input", "action_id": BUDGET_FIELD, "is_decimal_allowed": False, "min_value": "0"}
    if limit is not None:
        field["initial_value"] = str(limit)
    block: Json = {
        "type": "input",
        "block_id": BUDGET_FIELD,
        "optional": True,
        "label": to_plain_text("Tokens that all people together may use in 30 days"),
        "hint": to_plain_text("Empty: unlimited. It counts from the next message on."),
        "element": field,
    }
    return to_modal("Workspace's budget", [block], close="Cancel", submit="Save", callback_id=BUDGET_FORM)


def read_budget(value: str | None) -> int | None:
    """Return the budget in tokens, None for unlimited; raises `ValueError` if it is not a number of tokens."""
    plain = (value or "").replace(",", "").replace(" ", "")
    if not plain:
        return None
    if not (plain.isascii() and plain.isdecimal()) or int(plain) > MOST_TOKENS:
        raise ValueError(plain)
    return int(plain)


def _part(title: str, text: str) -> list[Json]:
    return [_header(title), _text(text)]


def _header(title: str) -> Json:
    return {"type": "header", "text": to_plain_text(title)}


def _text(text: str) -> Json:
    # Plain text, so that markup in what people wrote has no effect.
    return to_section(text or "…")


def _context(text: str) -> Json:
    return {"type": "context", "elements": [to_plain_text(text)]}


def _button(action: str, text: str) -> Json:
    return {"type": "button", "action_id": f"{ACTION_ID}:{action}", "text": to_plain_text(text)}
