"""What admins have said of modules."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shared.db.driver import Session
from shared.db.statements import load_statements
from shared.messages import Permission

# A command that lists modules has a connection of its own.
if TYPE_CHECKING:
    from shared.db.database import Database

statements = load_statements(__file__)

# The permission that each module needs at least, beyond that of its tools; None: it is off.
ModuleRules = Mapping[str, Permission | None]


async def list_module_rules(session: Session) -> ModuleRules:
    """Return what admins have said of modules."""
    return to_module_rules((await session.execute(statements.list_modules)).scalar_one() or {})


async def is_off(database: "Database", module: str) -> bool:
    """Tell whether an admin has switched a module off."""
    async with database.statement() as session:
        rules = await list_module_rules(session)
    return module in rules and rules[module] is None


def to_module_rules(labels: Mapping[str, str | None]) -> ModuleRules:
    """Return the rules of the column `modules`, where there are any."""
    return {name: None if label is None else Permission.from_label(label) for name, label in labels.items()}
