"""What stories about the forms of admins begin with, and what such forms change."""

from typing import Any

from tests.support.parley import Parley

ROWS = """
SELECT coalesce(jsonb_agg(to_jsonb(t) - '{{budget_reset_at,resets_at,display_name}}'::text[] ORDER BY id), '[]')
FROM {table} AS t
"""
TABLES = ("users", "servers", "budgets", "budget_grants", "channel_modes", "personas")
GRANT_ROLE = (
    "INSERT INTO role_grants (platform, server, role, permission_level) VALUES (:platform, :server, :role, 'admin')"
)
ASK_FOR_MORE = """
SELECT parley_ask_for_more(link.user_id, 'users', link.user_id, 5000, 0)
FROM user_platform_links AS link WHERE link.platform_user_id = :account
"""


async def write_people(parley: Parley, platform: str, server: str, *, owner: str, guest: str) -> None:
    """Make a server, two people with accounts, and two personas."""
    add_server = "INSERT INTO servers (platform, platform_server_id) VALUES (:platform, :server)"
    await parley.sql(add_server, platform=platform, server=server)
    for account, permission in ((owner, "owner"), (guest, None)):
        await parley.sql("SELECT parley_make_user(:platform, :account, NULL)", platform=platform, account=account)
        if permission is not None:
            find = "SELECT parley_set_permission(admin.find_user(:platform, :account), :permission)"
            await parley.sql(find, platform=platform, account=account, permission=permission)
    await parley.sql("INSERT INTO personas (name, system_prompt) VALUES ('Sage', 'Be wise.'), ('Rogue', 'Be sly.')")


async def snapshot(parley: Parley) -> dict[str, Any]:
    """Return what the acts of admins change."""
    return {table: await parley.value(ROWS.format(table=table)) for table in TABLES}
