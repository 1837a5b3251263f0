"""MCP servers: which tools tell nobody anything, beside which change nothing.

A search changes nothing and still sends words of the conversation to others: in a turn that has read untrusted and
private text it needs the person's yes. Servers that exist have no such tools until an admin names them.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

CONFIGURED_BEFORE = (
    "name, transport, command, args, env, url, headers, required_permission, read_only_tools, timeout_seconds, tells_user,"
    " enabled, reads_untrusted, reads_private"
)
ANNOUNCE = """
DROP TRIGGER parley_announce_mcp_servers ON mcp_servers;
CREATE TRIGGER parley_announce_mcp_servers AFTER INSERT OR DELETE OR UPDATE OF {columns} ON mcp_servers
    FOR EACH STATEMENT EXECUTE FUNCTION parley_announce_mcp()
"""
READ_ONLY = 'Tools without effects, which may run again after a failure; ["*"]: all of them.'
CHANGES_NOTHING = 'Tools that change nothing, and may run again after a failure; ["*"]: all. A search is one.'
TELLS_NOBODY = 'Tools that send no word of a call to others, so that they need no yes; ["*"]: all. A search is none.'
IS_STRING_ARRAY = (
    "jsonb_typeof(tells_nobody_tools) = 'array'"
    " AND NOT jsonb_path_exists(tells_nobody_tools, '$[*] ? (@.type() != \"string\")')"
)


def upgrade() -> None:
    """Add the column; the release before does not read it."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column(
        "mcp_servers",
        sa.Column(
            "tells_nobody_tools",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
            comment=TELLS_NOBODY,
        ),
    )
    op.create_check_constraint(
        op.f("mcp_servers_tells_nobody_tools_is_an_array_of_tool_names"), "mcp_servers", IS_STRING_ARRAY
    )
    op.execute(ANNOUNCE.format(columns=f"{CONFIGURED_BEFORE}, tells_nobody_tools"))
    op.alter_column("mcp_servers", "read_only_tools", comment=CHANGES_NOTHING, existing_type=postgresql.JSONB())


def downgrade() -> None:
    """Drop the column."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.alter_column("mcp_servers", "read_only_tools", comment=READ_ONLY, existing_type=postgresql.JSONB())
    op.execute(ANNOUNCE.format(columns=CONFIGURED_BEFORE))
    op.drop_column("mcp_servers", "tells_nobody_tools")
