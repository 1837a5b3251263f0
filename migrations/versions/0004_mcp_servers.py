"""MCP servers and their tools, which admins add, approve and switch off in SQL while the agent runs.

A change is announced by NOTIFY, so that no turn has to look; what the program itself notes (when it last connected, what
it saw) is not. A server's tools are pinned: each wording of a tool is a row of its own, and only an approved one is
offered.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

CONFIGURED = (
    "name, transport, command, args, env, url, headers, required_permission, read_only_tools, timeout_seconds, tells_user,"
    " enabled"
)
ANNOUNCE = f"""
CREATE FUNCTION parley_announce_mcp() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('parley_mcp', '');
    RETURN NULL;
END
$$;
CREATE TRIGGER parley_announce_mcp_servers AFTER INSERT OR DELETE OR UPDATE OF {CONFIGURED} ON mcp_servers
    FOR EACH STATEMENT EXECUTE FUNCTION parley_announce_mcp();
CREATE TRIGGER parley_announce_mcp_pins AFTER UPDATE OF pinned_at ON mcp_servers
    FOR EACH ROW WHEN (NEW.pinned_at IS NULL) EXECUTE FUNCTION parley_announce_mcp();
CREATE TRIGGER parley_announce_mcp_approvals AFTER UPDATE OF approved ON mcp_tools
    FOR EACH ROW WHEN (OLD.approved IS DISTINCT FROM NEW.approved) EXECUTE FUNCTION parley_announce_mcp();
CREATE TRIGGER parley_announce_mcp_tools AFTER DELETE ON mcp_tools
    FOR EACH STATEMENT EXECUTE FUNCTION parley_announce_mcp()
"""


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "mcp_servers",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "name", sa.Text(), nullable=False, comment="The name before the dot of its tools; not that of a module."
        ),
        sa.Column(
            "transport", sa.Text(), nullable=False, comment="stdio: a program that is started; http: streamable HTTP."
        ),
        sa.Column("command", sa.Text(), nullable=True, comment="stdio: the program, best with its whole path."),
        sa.Column(
            "args",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
            comment='stdio: its arguments, e.g. ["--verbose"].',
        ),
        sa.Column(
            "env",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="stdio: its whole environment; ${MCP_NAME} in a value stands for that variable of Parley's.",
        ),
        sa.Column("url", sa.Text(), nullable=True, comment="http: the address, e.g. https://example.org/mcp."),
        sa.Column(
            "headers",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment='http: headers, e.g. {"Authorization": "Bearer ${MCP_NAME}"} with that variable of Parley\'s.',
        ),
        sa.Column(
            "required_permission",
            sa.Text(),
            server_default="user",
            nullable=False,
            comment="Who may use its tools: guest, user, admin or owner.",
        ),
        sa.Column(
            "read_only_tools",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'[]'"),
            nullable=False,
            comment='Tools without effects, which may run again after a failure; ["*"]: all of them.',
        ),
        sa.Column(
            "timeout_seconds",
            sa.Float(),
            server_default=sa.text("60"),
            nullable=False,
            comment="How long one call may take.",
        ),
        sa.Column(
            "tells_user",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Tell it with each call who asks and where? Only for a Parley of your own.",
        ),
        sa.Column(
            "enabled",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="Off: not connected, its tools are gone.",
        ),
        sa.Column(
            "pinned_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When its tools were first seen and approved; set to NULL to approve what it has now.",
        ),
        sa.Column(
            "last_connected_at",
            sa.DateTime(timezone=True),
            nullable=True,
            comment="When a worker last connected to it.",
        ),
        sa.Column("last_error", sa.Text(), nullable=True, comment="Why it is off; NULL: nothing is wrong."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "CASE transport WHEN 'stdio' THEN coalesce(btrim(command), '') <> '' AND url IS NULL ELSE command IS NULL AND url IS NOT NULL END",
            name=op.f("mcp_servers_stdio_has_a_command_and_http_has_a_url"),
        ),
        sa.CheckConstraint(
            "name ~ '^[a-z][a-z0-9]*(_[a-z0-9]+)*$'",
            name=op.f("mcp_servers_name_is_lower_case_words_joined_by_underscores"),
        ),
        sa.CheckConstraint(
            "required_permission IN ('guest', 'user', 'admin', 'owner')",
            name=op.f("mcp_servers_required_permission_is_guest_user_admin_or_owner"),
        ),
        sa.CheckConstraint("transport IN ('stdio', 'http')", name=op.f("mcp_servers_transport_is_stdio_or_http")),
        sa.CheckConstraint(
            "url ~ '^https?://[^/@\\s]+(/\\S*)?$'", name=op.f("mcp_servers_url_begins_with_http_and_holds_no_password")
        ),
        sa.CheckConstraint("char_length(name) <= 32", name=op.f("mcp_servers_name_has_at_most_32_characters")),
        sa.CheckConstraint(
            "jsonb_typeof(args) = 'array' AND NOT jsonb_path_exists(args, '$[*] ? (@.type() != \"string\")')",
            name=op.f("mcp_servers_args_is_an_array_of_strings"),
        ),
        sa.CheckConstraint(
            "jsonb_typeof(env) = 'object' AND NOT jsonb_path_exists(env, '$.* ? (@.type() != \"string\")')",
            name=op.f("mcp_servers_env_is_an_object_of_strings"),
        ),
        sa.CheckConstraint(
            "jsonb_typeof(headers) = 'object' AND NOT jsonb_path_exists(headers, '$.* ? (@.type() != \"string\")')",
            name=op.f("mcp_servers_headers_is_an_object_of_strings"),
        ),
        sa.CheckConstraint(
            "jsonb_typeof(read_only_tools) = 'array' AND NOT jsonb_path_exists(read_only_tools, '$[*] ? (@.type() != \"string\")')",
            name=op.f("mcp_servers_read_only_tools_is_an_array_of_tool_names"),
        ),
        sa.CheckConstraint(
            "timeout_seconds BETWEEN 0.1 AND 600", name=op.f("mcp_servers_timeout_seconds_is_0_1_to_600")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mcp_servers")),
        sa.UniqueConstraint("name", name=op.f("uq_mcp_servers_name")),
        comment="MCP servers whose tools the agent may use, as server.tool. Changes count from the next message.",
    )
    op.create_table(
        "mcp_tools",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("server_id", sa.BigInteger(), nullable=False, comment="The server."),
        sa.Column("name", sa.Text(), nullable=False, comment="The tool's own name, as the server says it."),
        sa.Column("hash", sa.Text(), nullable=False, comment="SHA-256 of name, description and schema."),
        sa.Column(
            "description",
            sa.Text(),
            server_default="",
            nullable=False,
            comment="The description, as the server says it.",
        ),
        sa.Column(
            "input_schema",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="The JSON schema of its arguments.",
        ),
        sa.Column(
            "approved",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="May it be offered? A later change of the tool is another row.",
        ),
        sa.Column(
            "last_seen_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the server last had it in this wording.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint("hash ~ '^[0-9a-f]{64}$'", name=op.f("mcp_tools_hash_is_64_hexadecimal_digits")),
        sa.CheckConstraint("name <> ''", name=op.f("mcp_tools_name_is_not_empty")),
        sa.ForeignKeyConstraint(
            ["server_id"], ["mcp_servers.id"], name=op.f("fk_mcp_tools_server_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_mcp_tools")),
        sa.UniqueConstraint("server_id", "name", "hash", name=op.f("uq_mcp_tools_server_id_name_hash")),
        comment="Tools of MCP servers as they were seen. Only approved ones are offered.",
    )
    op.execute(ANNOUNCE)


def downgrade() -> None:
    """Drop the tables, the last made first."""
    op.drop_table("mcp_tools")
    op.drop_table("mcp_servers")
    op.execute("DROP FUNCTION parley_announce_mcp")
