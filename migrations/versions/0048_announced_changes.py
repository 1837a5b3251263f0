"""Announces what admins change, so that no process keeps an old value; the release before does not listen."""

from pathlib import Path

from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
ANNOUNCE = "parley_announce_change_v1"
WHOLE = "INSERT OR UPDATE OR DELETE"
# Only what admins decide: the program counts in users and servers with every turn, and notes when it reached an agent.
EVENTS = {
    "personas": WHOLE,
    "role_grants": WHOLE,
    "channel_modes": WHOLE,
    "data_sources": WHOLE,
    "skills": WHOLE,
    "memory_retention": WHOLE,
    "slack_installations": WHOLE,
    "users": "UPDATE OF permission_level, token_budget_monthly OR DELETE",
    "user_platform_links": "UPDATE OF user_id OR DELETE",
    "servers": "INSERT OR UPDATE OF token_budget_monthly, files_kept_days OR DELETE",
    "agents": "INSERT OR UPDATE OF name, description, persona_id, url, headers, required_permission, is_enabled OR DELETE",
    "mcp_servers": "INSERT OR UPDATE OF name, transport, command, args, env, url, headers, required_permission, enabled"
    " OR DELETE",
    "mcp_tools": "UPDATE OF approved OR DELETE",
}


def upgrade() -> None:
    """Make the triggers."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql((SQL / f"{ANNOUNCE}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {ANNOUNCE} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {ANNOUNCE} TO parley_app")
    for table, events in EVENTS.items():
        op.execute(
            f"CREATE TRIGGER parley_announce_change AFTER {events} ON {table}"
            f" FOR EACH STATEMENT EXECUTE FUNCTION {ANNOUNCE}()"
        )


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for table in EVENTS:
        op.execute(f"DROP TRIGGER parley_announce_change ON {table}")
    op.execute(f"DROP FUNCTION {ANNOUNCE}")
