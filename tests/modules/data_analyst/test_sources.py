"""Who may use a source, what is said of a missing one, and what the table refuses."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy.exc import IntegrityError

from modules import data_analyst
from shared.errors import ToolError, Unavailable
from shared.messages import Caller, Permission
from shared.tools import ToolContext
from tests.modules.data_analyst.conftest import AddSource, Shop
from tests.support.tool_calls import call


def with_permission(context: ToolContext, permission: Permission) -> ToolContext:
    return replace(context, user=Caller(context.user.id, permission, "Ada"))


async def test_sources_are_listed_for_those_whose_role_is_allowed(
    context: ToolContext, add_source: AddSource, tmp_path: Path
) -> None:
    path = str(tmp_path / "a.csv")
    await add_source("for_owners", kind="file", path=path, allowed_roles='["owner"]', description="Wages.")
    await add_source("for_users", kind="file", path=path, allowed_roles='["user", "owner"]')
    await add_source("for_admins", kind="file", path=path)
    await add_source("off", kind="file", path=path, is_enabled=False)

    names = {
        level: [source["name"] for source in (await call(data_analyst.list_sources, asker))["sources"]]
        for level in (Permission.USER, Permission.ADMIN, Permission.OWNER)
        for asker in (with_permission(context, level),)
    }

    assert names[Permission.USER] == ["for_users"]
    assert names[Permission.ADMIN] == ["for_admins", "for_users"]
    assert names[Permission.OWNER] == ["for_admins", "for_owners", "for_users"]


@pytest.mark.usefixtures("sources")
async def test_another_persons_source_answers_like_a_missing_one(context: ToolContext, add_source: AddSource) -> None:
    await add_source("open_data", kind="file", path="/srv/open.csv", allowed_roles='["user"]')
    user = with_permission(context, Permission.USER)

    for name in ("orders", "nothing"):
        with pytest.raises(ToolError, match=f"There is no source {name}") as caught:
            await call(data_analyst.describe_source, user, source=name)
        assert caught.value.fields == {"available_sources": ["open_data"]}


@pytest.mark.usefixtures("sources")
async def test_a_table_is_described_with_its_columns_and_example_rows(context: ToolContext) -> None:
    description = await call(data_analyst.describe_source, context, source=" Orders ")

    assert description["name_in_sql"] == "public.orders"
    assert description["columns"][:4] == [
        {"name": "id", "type": "integer"},
        {"name": "region", "type": "text"},
        {"name": "day", "type": "date"},
        {"name": "amount", "type": "numeric(12,2)"},
    ]
    assert description["example_rows"][0] == [1, "EU", "2026-01-01", 100.1, "a"]


@pytest.mark.usefixtures("sources")
async def test_a_file_is_described_with_fractions_as_decimals(context: ToolContext) -> None:
    description = await call(data_analyst.describe_source, context, source="ledger")

    assert {column["name"]: column["type"] for column in description["columns"]} == {
        "region": "VARCHAR",
        "day": "DATE",
        "amount": "DECIMAL(38,10)",
    }
    assert description["example_rows"][0] == ["EU", "2026-01-01", 300.3]


WRONG_ROWS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "file"}, "file_has_path"),
    ({"kind": "file", "path": "data.csv"}, "path_is_absolute"),
    ({"kind": "file", "path": "/etc/passwd"}, "path_is_absolute"),
    ({"kind": "excel", "path": "/a.csv"}, "kind_is_postgres_or_file"),
    ({"kind": "postgres", "url": "postgresql://a:secret@b/c", "relation": "t"}, "no_password"),
    ({"kind": "postgres", "url": "postgresql://a@b/c?password=secret", "relation": "t"}, "no_password"),
    ({"kind": "postgres", "url": "postgresql://a@b/c", "relation": "t", "password": "secret"}, "names_a_variable"),
    ({"kind": "postgres", "url": "postgresql://a@b/c", "relation": "t", "password": "${LLM_KEY}"}, "a_variable"),
    ({"kind": "file", "path": "/a.csv", "allowed_roles": "[]"}, "allowed_roles"),
    ({"kind": "file", "path": "/a.csv", "allowed_roles": '["boss"]'}, "allowed_roles"),
    ({"kind": "file", "path": "/a.csv", "name": "My Data"}, "lower_case_words"),
]


async def test_the_table_refuses_a_wrong_row(add_source: AddSource) -> None:
    for fields, constraint in WRONG_ROWS:
        with pytest.raises(IntegrityError, match=constraint):
            await add_source(**{"name": "wrong", **fields})


@pytest.mark.parametrize(
    "statement",
    [
        "GRANT INSERT ON orders TO {0}",
        "GRANT UPDATE (amount) ON orders TO {0}",
        "GRANT INSERT ON big_orders TO {0}",
        "ALTER ROLE {0} SUPERUSER",
        # It may become the owner.
        "ALTER ROLE {0} NOINHERIT; GRANT postgres TO {0}",
    ],
)
async def test_a_login_that_may_write_is_refused(
    context: ToolContext, shop: Shop, add_source: AddSource, statement: str
) -> None:
    await add_source("orders", kind="postgres", url=shop.url, relation="orders")
    await shop.owner.execute(statement.format(shop.reader))

    with pytest.raises(Unavailable, match="may write; give it one that may only read"):
        await call(data_analyst.describe_source, context, source="orders")


async def test_a_source_that_is_out_of_reach_is_named(context: ToolContext, add_source: AddSource) -> None:
    await add_source("gone", kind="postgres", url="postgresql://reader@127.0.0.1:9/db", relation="orders")
    await add_source("no_file", kind="file", path="/nowhere/data.parquet")

    with pytest.raises(Unavailable, match="The source gone can't be reached"):
        await call(data_analyst.describe_source, context, source="gone")
    with pytest.raises(ToolError, match="its file is not on this machine"):
        await call(data_analyst.describe_source, context, source="no_file")


async def test_a_relation_that_the_login_cannot_see_is_named(
    context: ToolContext, shop: Shop, add_source: AddSource
) -> None:
    await add_source("lost", kind="postgres", url=shop.url, relation="no_such_table")
    await add_source("secrets", kind="postgres", url=shop.url, relation="secrets")

    with pytest.raises(ToolError, match="no_such_table, which its login can't see"):
        await call(data_analyst.describe_source, context, source="lost")
    with pytest.raises(ToolError, match="permission denied for table secrets"):
        await call(data_analyst.describe_source, context, source="secrets")


@pytest.fixture
def password_variable() -> Iterator[str]:
    os.environ["DATA_ANALYST_TEST_PASSWORD"] = "unused by peers"
    yield "${DATA_ANALYST_TEST_PASSWORD}"
    del os.environ["DATA_ANALYST_TEST_PASSWORD"]


async def test_the_password_comes_from_the_variable_that_the_row_names(
    context: ToolContext, shop: Shop, add_source: AddSource, password_variable: str
) -> None:
    parameters = {"kind": "postgres", "url": shop.url, "relation": "orders"}
    await add_source("named", password=password_variable, **parameters)
    await add_source("unset", password="${DATA_ANALYST_NOT_SET}", **parameters)

    assert (await call(data_analyst.describe_source, context, source="named"))["name"] == "named"
    with pytest.raises(Unavailable, match="set it"):
        await call(data_analyst.describe_source, context, source="unset")
