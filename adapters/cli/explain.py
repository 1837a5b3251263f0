"""`parley explain TURN`: everything about a turn, for operators, as `admin.explain_turn` tells it."""

from typing import TYPE_CHECKING, Any

import typer

from adapters.cli.console import is_json, say, show_json, show_table
from adapters.cli.opening import in_transaction
from agent.journal.explanation import list_context, list_facts, list_tools, to_words
from shared.db.statements import load_statements

if TYPE_CHECKING:
    from shared.db.driver import Session
    from shared.settings import Settings

statements = load_statements(__file__)

app = typer.Typer()
SHOWN_CHARS = 200
# The lists of the story that are shown as tables, in this order.
TABLES = (
    "inbox",
    "steps",
    "waves",
    "long_results",
    "memories",
    "routes",
    "model_calls",
    "admissions",
    "limits",
    "agents",
    "confirmations",
    "files",
    "delivery",
)


@app.command("explain")
def explain_turn(
    turn: int = typer.Argument(metavar="TURN", min=1, max=2**63 - 1, help="The turn's number."),
    full: bool = typer.Option(False, "--full", help="Show every text whole."),
) -> None:
    """Tell all about a turn: persona, tools, prompt, budget, routes, tool calls, cost, delivery."""

    async def work(session: "Session", _settings: "Settings") -> Any:
        return (await session.execute(statements.explain_turn, {"turn": turn})).scalar_one()

    story = in_transaction(work)
    if is_json():
        show_json(story)
        return
    for name, words in list_facts(story):
        say(f"{name:13} {words}" if name != "held budget" else f"{name}: {words}")
    for part, words in (*list_tools(story), *list_context(story)):
        say(f"{part:13} {words}")
    tables = story | story["budget"] | {"memories": story["context"].get("memories")}
    for name in TABLES:
        rows = tables[name] or []
        say(f"\n{name.replace('_', ' ')}{'' if rows else ': none'}")
        if rows:
            columns = list(dict.fromkeys(column for row in rows for column in row))
            values = [[row.get(column) for column in columns] for row in rows]
            cells = [["" if value in (None, "") else to_words(value) for value in line] for line in values]
            if not full:
                cells = [
                    [
                        text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}… ({len(text):,} characters)"
                        for text in line
                    ]
                    for line in cells
                ]
            show_table([column.replace("_", " ") for column in columns], cells)
