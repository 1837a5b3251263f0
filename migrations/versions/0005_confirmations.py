"""Questions that a person has to answer with yes first, and what taints a turn so that they have to be asked.

A question is bound to one call with its arguments, to a person and to a place, and is open for ten minutes; a row whose
arguments were changed afterwards is refused. A message may carry the answer to one (`inbox.decision`). Two columns of
`mcp_servers` say what the results of a server may hold; a change of them is announced like the others.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

CONFIGURED_BEFORE = (
    "name, transport, command, args, env, url, headers, required_permission, read_only_tools, timeout_seconds, tells_user,"
    " enabled"
)
CONFIGURED = f"{CONFIGURED_BEFORE}, reads_untrusted, reads_private"
ANNOUNCE = """
DROP TRIGGER parley_announce_mcp_servers ON mcp_servers;
CREATE TRIGGER parley_announce_mcp_servers AFTER INSERT OR DELETE OR UPDATE OF {columns} ON mcp_servers
    FOR EACH STATEMENT EXECUTE FUNCTION parley_announce_mcp()
"""


def upgrade() -> None:
    """Make the table, then the columns."""
    op.create_table(
        "confirmations",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Who alone may answer."),
        sa.Column(
            "conversation_id", sa.BigInteger(), nullable=False, comment="The place where alone it may be answered."
        ),
        sa.Column("turn_id", sa.BigInteger(), nullable=False, comment="The turn that asked."),
        sa.Column("call_id", sa.Text(), nullable=False, comment="The tool call that was held back."),
        sa.Column("tool", sa.Text(), nullable=False, comment="module.tool"),
        sa.Column(
            "agent",
            sa.Text(),
            nullable=True,
            comment="The agent whose call it is; NULL: that of the persona who answers in this place.",
        ),
        sa.Column("arguments", sa.Text(), nullable=False, comment="JSON; a yes runs the tool with exactly these."),
        sa.Column(
            "arguments_hash", sa.Text(), nullable=False, comment="SHA-256 of the arguments, in hexadecimal digits."
        ),
        sa.Column("question", sa.Text(), nullable=False, comment="What the person was asked."),
        sa.Column(
            "reason",
            sa.Text(),
            nullable=False,
            comment="tool: the tool asks by itself; taint: the turn had read untrusted and private text.",
        ),
        sa.Column(
            "status",
            sa.Text(),
            server_default="pending",
            nullable=False,
            comment="pending, approved, denied, expired (or replaced), used (the call was begun).",
        ),
        sa.Column(
            "expires_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now() + '00:10:00'::interval"),
            nullable=False,
            comment="A later answer changes nothing.",
        ),
        sa.Column("answered_turn_id", sa.BigInteger(), nullable=True, comment="The turn of the answer."),
        sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True, comment="When it was answered."),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True, comment="When the call was begun."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "(answered_at IS NOT NULL) = (status IN ('approved', 'denied', 'used'))",
            name=op.f("confirmations_answered_at_goes_with_the_answer"),
        ),
        sa.CheckConstraint(
            "(used_at IS NOT NULL) = (status = 'used')", name=op.f("confirmations_used_at_goes_with_the_use")
        ),
        sa.CheckConstraint(
            "arguments_hash = encode(sha256(convert_to(arguments, 'UTF8')), 'hex')",
            name=op.f("confirmations_arguments_are_as_they_were_asked"),
        ),
        sa.CheckConstraint("reason IN ('tool', 'taint')", name=op.f("confirmations_reason_is_tool_or_taint")),
        sa.CheckConstraint(
            "status IN ('pending', 'approved', 'denied', 'expired', 'used')",
            name=op.f("confirmations_status_is_pending_approved_denied_expired_or_used"),
        ),
        sa.CheckConstraint("expires_at > created_at", name=op.f("confirmations_expires_at_is_after_the_question")),
        sa.ForeignKeyConstraint(
            ["answered_turn_id"], ["turns.id"], name=op.f("fk_confirmations_answered_turn_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["conversation_id"], ["conversations.id"], name=op.f("fk_confirmations_conversation_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f("fk_confirmations_turn_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_confirmations_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_confirmations")),
        sa.UniqueConstraint("turn_id", name=op.f("uq_confirmations_turn_id")),
        comment="What people were asked before it was done; a yes counts once, for exactly this call.",
    )
    op.create_index(op.f("ix_confirmations_answered_turn_id"), "confirmations", ["answered_turn_id"], unique=False)
    op.create_index(
        op.f("ix_confirmations_conversation_id_user_id_id"),
        "confirmations",
        ["conversation_id", "user_id", "id"],
        unique=False,
    )
    op.create_index(op.f("ix_confirmations_user_id"), "confirmations", ["user_id"], unique=False)
    op.create_index(
        "uq_confirmations_one_pending",
        "confirmations",
        ["conversation_id", "user_id"],
        unique=True,
        postgresql_where=sa.text("status = 'pending'"),
    )
    op.add_column(
        "inbox",
        sa.Column(
            "decision",
            postgresql.JSONB(none_as_null=True, astext_type=sa.Text()),
            nullable=True,
            comment="Its answer to one confirmation: {confirmation_id, approved}.",
        ),
    )
    op.add_column(
        "mcp_servers",
        sa.Column(
            "reads_untrusted",
            sa.Boolean(),
            server_default=sa.text("true"),
            nullable=False,
            comment="May its results hold what strangers have written? Off only where nobody else can put words into them.",
        ),
    )
    op.add_column(
        "mcp_servers",
        sa.Column(
            "reads_private",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
            comment="Do its results hold what not everybody may know, such as mail?",
        ),
    )
    op.execute(ANNOUNCE.format(columns=CONFIGURED))


def downgrade() -> None:
    """Take back what was made, the last first."""
    op.execute(ANNOUNCE.format(columns=CONFIGURED_BEFORE))
    op.drop_column("mcp_servers", "reads_private")
    op.drop_column("mcp_servers", "reads_untrusted")
    op.drop_column("inbox", "decision")
    op.drop_table("confirmations")
