"""Rows as resources: read, compared with what a manifest says, and written by the functions of the schema `admin`."""

import json
from collections.abc import Mapping
from datetime import datetime
from difflib import unified_diff
from typing import Any

from msgspec import Struct

from adapters.kubernetes.manifests import (
    SPECS,
    AgentSpec,
    BudgetSpec,
    Manifest,
    McpServerSpec,
    ModuleSpec,
    PersonaSpec,
    Spec,
)
from shared.db.driver import Session
from shared.db.statements import Statement, load_statements

statements = load_statements(__file__)

LIST: Mapping[str, Statement] = {
    ModuleSpec.kind_name: statements.list_modules,
    McpServerSpec.kind_name: statements.list_mcp_servers,
    PersonaSpec.kind_name: statements.list_personas,
    AgentSpec.kind_name: statements.list_agents,
    BudgetSpec.kind_name: statements.list_budgets,
}
DEFINE: Mapping[str, Statement] = {
    ModuleSpec.kind_name: statements.define_module,
    McpServerSpec.kind_name: statements.define_mcp_server,
    PersonaSpec.kind_name: statements.define_persona,
    AgentSpec.kind_name: statements.define_agent,
    BudgetSpec.kind_name: statements.define_budget,
}
DELETE: Mapping[str, Statement] = {
    ModuleSpec.kind_name: statements.delete_module,
    McpServerSpec.kind_name: statements.delete_mcp_server,
    PersonaSpec.kind_name: statements.delete_persona,
    AgentSpec.kind_name: statements.delete_agent,
    BudgetSpec.kind_name: statements.delete_budget,
}
# Actors of the log of changes that write what a manifest says.
APPLY, OPERATOR = "apply:", "kubernetes:"
ACTORS = (APPLY, OPERATOR)
# Values of these fields are not shown: they may hold a secret.
CLOSED_FIELDS = frozenset({"headers", "env", "args", "url"})


class StoredRow(Struct, frozen=True):
    """A row as a resource. `version` is its last entry in the log of changes, which `who` made.

    `secretless` has the fields to write into a file instead of those of `spec`; what is hidden is written by another.
    """

    id: int
    spec: Spec
    secretless: Mapping[str, Any]
    is_hidden: bool
    version: int | None
    who: str | None
    at: datetime | None

    @property
    def is_changed_by_others(self) -> bool:
        """Return whether somebody else has changed the row since a manifest was applied to it, or before."""
        return not (self.who or "").startswith(ACTORS)


async def name_actor(session: Session, actor: str) -> None:
    """Say who changes rows in this transaction; one of `ACTORS` and who it is."""
    await session.execute(statements.name_actor, {"actor": actor})


async def list_rows(session: Session, kind: str) -> dict[str, StoredRow]:
    """Return the rows of a kind by what tells them apart, in the order of their names."""
    spec_class = SPECS[kind]
    rows: dict[str, StoredRow] = {}
    for row in (await session.execute(LIST[kind])).all():
        # Not every field is a column.
        values = {name: getattr(row, name, None) for name in spec_class.model_fields}
        fields = {name: value for name, value in values.items() if value is not None}
        # What the database has let in is not refused here.
        spec = spec_class.model_validate(fields, strict=False)
        rows[spec.to_key("")] = StoredRow(
            id=row.id,
            spec=spec,
            secretless=row.secretless or {},
            is_hidden=bool(row.is_hidden),
            version=row.version,
            who=row.who,
            at=row.at,
        )
    return rows


async def define(session: Session, manifest: Manifest) -> None:
    """Make the row what the manifest says."""
    await session.execute(DEFINE[manifest.kind], _to_parameters(manifest.spec, manifest.key, DEFINE[manifest.kind]))


async def delete(session: Session, kind: str, spec: Spec, key: str) -> None:
    """Delete the row of a resource."""
    await session.execute(DELETE[kind], _to_parameters(spec, key, DELETE[kind]))


def compare(old: Spec, new: Spec) -> list[str]:
    """Return a line for each field that differs, more for a text of several lines; no values that may be secret."""
    before, after = old.to_fields(), new.to_fields()
    lines: list[str] = []
    for field in (field.alias or name for name, field in type(new).model_fields.items()):
        old_value, new_value = before.get(field), after.get(field)
        if old_value == new_value:
            continue
        if field in CLOSED_FIELDS:
            lines.append(f"{field}: changed")
        elif isinstance(old_value, str) and isinstance(new_value, str) and "\n" in old_value + new_value:
            difference = list(unified_diff(old_value.splitlines(), new_value.splitlines(), lineterm="", n=1))
            lines += [f"{field}:", *(f"  {line}" for line in difference[2:])]
        else:
            lines.append(f"{field}: {_to_text(old_value)} -> {_to_text(new_value)}")
    return lines


def _to_text(value: Any) -> str:
    # None stands for the default, which is not written.
    return "unset" if value is None else json.dumps(value, ensure_ascii=False)


def _to_parameters(spec: Spec, key: str, statement: Statement) -> dict[str, Any]:
    """Return the values that a statement takes, JSON as text."""
    values: dict[str, Any] = {name: getattr(spec, name) for name in type(spec).model_fields} | {"name": key}
    if isinstance(spec, AgentSpec):
        values["env"] = spec.config.env.model_dump(by_alias=True, exclude_none=True)
    for name, value in values.items():
        if isinstance(value, dict):
            values[name] = json.dumps(value)
        elif isinstance(value, tuple):
            values[name] = list(value)
    return {name: values[name] for name in statement.names}
