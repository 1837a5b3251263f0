"""Limits for people, permissions, roles, channels, personas, servers and the installation; prices of models.

The functions before stay for the release before, which calls them: what it spends is not counted by the new limits.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
FUNCTIONS = (
    "parley_limit_period_v1",
    "parley_find_budgets_v1",
    "parley_lock_budgets_v1",
    "parley_granted_v1",
    "parley_refusal_v1",
    "parley_refusing_budget_v1",
    "parley_threshold_v1",
    "parley_add_to_budgets_v1",
    "parley_note_budget_v1",
    "parley_charge_v3",
    "parley_reserve_v3",
    "parley_settle_v3",
    "parley_record_v3",
    "parley_close_turn_v3",
    "parley_release_v2",
    "parley_abandon_v3",
    "parley_expire_reservations_v4",
    "parley_charge_summary_v2",
    "parley_charge_embeddings_v2",
    "parley_free_reservations_v1",
    "parley_budget_differences_v1",
    "parley_reconcile_v1",
)
TABLES = ("model_prices", "budget_notices", "budget_grants", "budgets")
TOLD = "The highest of 50, 80 and 100 percent that was told in this period."
# The program counts in budgets with every turn: only what admins decide is logged.
TRIGGERS = """
CREATE TRIGGER parley_free_reservations BEFORE DELETE ON users FOR EACH ROW
    EXECUTE FUNCTION parley_free_reservations_v1();
CREATE TRIGGER parley_audit AFTER INSERT OR DELETE ON budgets FOR EACH ROW EXECUTE FUNCTION parley_audit_v1(
    'without', 'tokens_used', 'tokens_reserved', 'cost_used', 'cost_reserved', 'percent_told', 'resets_at'
);
CREATE TRIGGER parley_audit_update AFTER UPDATE OF kind, period, user_id, persona_id, permission_level, platform,
    platform_server_id, role, platform_channel_id, token_limit, cost_limit ON budgets
    FOR EACH ROW EXECUTE FUNCTION parley_audit_v1(
    'without', 'tokens_used', 'tokens_reserved', 'cost_used', 'cost_reserved', 'percent_told', 'resets_at'
);
CREATE TRIGGER parley_audit AFTER INSERT OR UPDATE OR DELETE ON model_prices
    FOR EACH ROW EXECUTE FUNCTION parley_audit_v1('without');
CREATE TRIGGER parley_audit AFTER INSERT OR UPDATE OR DELETE ON budget_grants
    FOR EACH ROW EXECUTE FUNCTION parley_audit_v1('without');
"""


def upgrade() -> None:
    """Make tables, columns and functions; only the program may call them."""
    op.create_table(
        "budgets",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="person, permission, role, channel, persona, server or installation: what is limited together.",
        ),
        sa.Column(
            "period", sa.Text(), server_default="month", nullable=False, comment="day or month, of the calendar in UTC."
        ),
        sa.Column("user_id", sa.BigInteger(), nullable=True, comment="person: whose calls."),
        sa.Column("persona_id", sa.BigInteger(), nullable=True, comment="persona: whose answers."),
        sa.Column(
            "permission_level",
            sa.Text(),
            nullable=True,
            comment="permission: all people with this permission_level together.",
        ),
        sa.Column("platform", sa.Text(), nullable=True, comment="role, channel, server: the platform."),
        sa.Column(
            "platform_server_id",
            sa.Text(),
            nullable=True,
            comment="role, channel, server: the server; NULL for a channel without one.",
        ),
        sa.Column("role", sa.Text(), nullable=True, comment="role: its id; all who have it, on that server."),
        sa.Column("platform_channel_id", sa.Text(), nullable=True, comment="channel: its id, threads included."),
        sa.Column("token_limit", sa.BigInteger(), nullable=True, comment="Tokens in a period; NULL: unlimited."),
        sa.Column(
            "cost_limit",
            sa.Numeric(precision=14, scale=8),
            nullable=True,
            comment="US dollars in a period; NULL: unlimited. Refuses models whose price is unknown.",
        ),
        sa.Column(
            "tokens_used",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Tokens spent in the period that ends at resets_at.",
        ),
        sa.Column(
            "tokens_reserved",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Tokens held by model calls that are running now.",
        ),
        sa.Column(
            "cost_used",
            sa.Numeric(precision=20, scale=8),
            server_default="0",
            nullable=False,
            comment="US dollars spent; calls of unknown price are not in it.",
        ),
        sa.Column(
            "cost_reserved",
            sa.Numeric(precision=20, scale=8),
            server_default="0",
            nullable=False,
            comment="US dollars held by model calls that are running now.",
        ),
        sa.Column(
            "percent_told",
            sa.SmallInteger(),
            server_default="0",
            nullable=False,
            comment="The highest of 50, 80 and 100 percent that was told in this period.",
        ),
        sa.Column(
            "resets_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="END of the period: when it has passed, what was used goes back to 0.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "(kind = 'person') = (user_id IS NOT NULL) AND (kind = 'persona') = (persona_id IS NOT NULL) AND (kind = 'permission') = (permission_level IS NOT NULL) AND (kind = 'role') = (role IS NOT NULL) AND (kind = 'channel') = (platform_channel_id IS NOT NULL) AND (kind IN ('role', 'channel', 'server')) = (platform IS NOT NULL) AND (platform_server_id IS NULL OR kind IN ('role', 'channel', 'server')) AND (platform_server_id IS NOT NULL OR kind NOT IN ('role', 'server'))",
            name=op.f("budgets_what_is_limited_is_named_as_its_kind_needs"),
        ),
        sa.CheckConstraint(
            "kind IN ('person', 'permission', 'role', 'channel', 'persona', 'server', 'installation')",
            name=op.f("budgets_kind_is_known"),
        ),
        sa.CheckConstraint("period IN ('day', 'month')", name=op.f("budgets_period_is_day_or_month")),
        sa.CheckConstraint(
            "permission_level IN ('guest', 'user', 'admin', 'owner')",
            name=op.f("budgets_permission_level_is_guest_user_admin_or_owner"),
        ),
        sa.CheckConstraint(
            "num_nonnulls(token_limit, cost_limit) > 0", name=op.f("budgets_tokens_or_dollars_are_limited")
        ),
        sa.CheckConstraint("token_limit >= 0 AND cost_limit >= 0", name=op.f("budgets_limits_are_not_negative")),
        sa.CheckConstraint(
            "tokens_used >= 0 AND tokens_reserved >= 0 AND cost_used >= 0 AND cost_reserved >= 0",
            name=op.f("budgets_counters_are_not_negative"),
        ),
        sa.ForeignKeyConstraint(
            ["persona_id"], ["personas.id"], name=op.f("fk_budgets_persona_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_budgets_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budgets")),
        comment="Limits that hold beside the monthly tokens of people and servers. All that apply to a call must admit it; each counts from when it was made.",
    )
    op.create_index(op.f("ix_budgets_persona_id"), "budgets", ["persona_id"], unique=False)
    op.create_index(
        op.f("ix_budgets_platform_platform_server_id"), "budgets", ["platform", "platform_server_id"], unique=False
    )
    op.create_index(op.f("ix_budgets_user_id"), "budgets", ["user_id"], unique=False)
    op.create_index(
        "uq_budgets_subject",
        "budgets",
        [
            "kind",
            "period",
            "user_id",
            "persona_id",
            "permission_level",
            "platform",
            "platform_server_id",
            "role",
            "platform_channel_id",
        ],
        unique=True,
        postgresql_nulls_not_distinct=True,
    )
    op.create_table(
        "budget_grants",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "limit_user_id", sa.BigInteger(), nullable=True, comment="The limit: the monthly tokens of this person."
        ),
        sa.Column(
            "limit_server_id", sa.BigInteger(), nullable=True, comment="The limit: the monthly tokens of this server."
        ),
        sa.Column("limit_budget_id", sa.BigInteger(), nullable=True, comment="The limit: this row of budgets."),
        sa.Column("status", sa.Text(), server_default="asked", nullable=False, comment="asked, granted or refused."),
        sa.Column("tokens", sa.BigInteger(), server_default="0", nullable=False, comment="Tokens more."),
        sa.Column(
            "cost", sa.Numeric(precision=14, scale=8), server_default="0", nullable=False, comment="US dollars more."
        ),
        sa.Column(
            "ends_at", sa.DateTime(timezone=True), nullable=True, comment="Until when it counts; NULL: not granted."
        ),
        sa.Column("asked_by_id", sa.BigInteger(), nullable=True, comment="Who asked; NULL: nobody did."),
        sa.Column(
            "decided_by_id",
            sa.BigInteger(),
            nullable=True,
            comment="Who granted or refused it; NULL: nobody yet, or psql.",
        ),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True, comment="When it was granted or refused."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "status <> 'granted' OR ends_at IS NOT NULL", name=op.f("budget_grants_what_is_granted_ends")
        ),
        sa.CheckConstraint(
            "status IN ('asked', 'granted', 'refused')", name=op.f("budget_grants_status_is_asked_granted_or_refused")
        ),
        sa.CheckConstraint(
            "num_nonnulls(limit_user_id, limit_server_id, limit_budget_id) = 1",
            name=op.f("budget_grants_it_is_about_one_limit"),
        ),
        sa.CheckConstraint("tokens >= 0 AND cost >= 0", name=op.f("budget_grants_amounts_are_not_negative")),
        sa.ForeignKeyConstraint(
            ["asked_by_id"], ["users.id"], name=op.f("fk_budget_grants_asked_by_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["decided_by_id"], ["users.id"], name=op.f("fk_budget_grants_decided_by_id"), ondelete="SET NULL"
        ),
        sa.ForeignKeyConstraint(
            ["limit_budget_id"], ["budgets.id"], name=op.f("fk_budget_grants_limit_budget_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["limit_server_id"], ["servers.id"], name=op.f("fk_budget_grants_limit_server_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["limit_user_id"], ["users.id"], name=op.f("fk_budget_grants_limit_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budget_grants")),
        comment="What was asked for and granted on top of a limit, until a date.",
    )
    op.create_index(op.f("ix_budget_grants_asked_by_id"), "budget_grants", ["asked_by_id"], unique=False)
    op.create_index(op.f("ix_budget_grants_decided_by_id"), "budget_grants", ["decided_by_id"], unique=False)
    op.create_index(op.f("ix_budget_grants_limit_budget_id"), "budget_grants", ["limit_budget_id"], unique=False)
    op.create_index(op.f("ix_budget_grants_limit_server_id"), "budget_grants", ["limit_server_id"], unique=False)
    op.create_index(op.f("ix_budget_grants_limit_user_id"), "budget_grants", ["limit_user_id"], unique=False)
    op.create_table(
        "budget_notices",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "limit_user_id", sa.BigInteger(), nullable=True, comment="The limit: the monthly tokens of this person."
        ),
        sa.Column(
            "limit_server_id", sa.BigInteger(), nullable=True, comment="The limit: the monthly tokens of this server."
        ),
        sa.Column("limit_budget_id", sa.BigInteger(), nullable=True, comment="The limit: this row of budgets."),
        sa.Column("percent", sa.SmallInteger(), nullable=False, comment="50, 80 or 100."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "num_nonnulls(limit_user_id, limit_server_id, limit_budget_id) = 1",
            name=op.f("budget_notices_it_is_about_one_limit"),
        ),
        sa.ForeignKeyConstraint(
            ["limit_budget_id"], ["budgets.id"], name=op.f("fk_budget_notices_limit_budget_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["limit_server_id"], ["servers.id"], name=op.f("fk_budget_notices_limit_server_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["limit_user_id"], ["users.id"], name=op.f("fk_budget_notices_limit_user_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_budget_notices")),
        comment="Limits that have reached a threshold; a row goes when it was told.",
    )
    op.create_index(op.f("ix_budget_notices_limit_budget_id"), "budget_notices", ["limit_budget_id"], unique=False)
    op.create_index(op.f("ix_budget_notices_limit_server_id"), "budget_notices", ["limit_server_id"], unique=False)
    op.create_index(op.f("ix_budget_notices_limit_user_id"), "budget_notices", ["limit_user_id"], unique=False)
    op.create_table(
        "model_prices",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("model", sa.Text(), nullable=False, comment="As in LLM_MODELS, EMBEDDING_MODEL or a persona."),
        sa.Column(
            "input_per_million",
            sa.Numeric(14, 6),
            server_default="0",
            nullable=False,
            comment="US dollars for a million tokens of prompts.",
        ),
        sa.Column(
            "cached_per_million",
            sa.Numeric(14, 6),
            nullable=True,
            comment="The same for tokens read from the provider's cache; NULL: as others.",
        ),
        sa.Column(
            "output_per_million",
            sa.Numeric(14, 6),
            server_default="0",
            nullable=False,
            comment="US dollars for a million tokens of answers.",
        ),
        sa.Column(
            "per_image",
            sa.Numeric(14, 6),
            nullable=True,
            comment="US dollars for an image that it makes; NULL: images are paid by their tokens.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "input_per_million >= 0 AND cached_per_million >= 0 AND output_per_million >= 0 AND per_image >= 0",
            name=op.f("model_prices_prices_are_not_negative"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_model_prices")),
        sa.UniqueConstraint("model", name=op.f("uq_model_prices_model")),
        comment="Prices of your own models, and of those that litellm does not know or knows wrongly.",
    )
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.add_column(
        "token_logs",
        sa.Column(
            "budget_ids", ARRAY(sa.BigInteger()), comment="The rows of budgets that it was charged to; NULL: none."
        ),
    )
    op.add_column(
        "budget_reservations",
        sa.Column("budget_ids", ARRAY(sa.BigInteger()), comment="The rows of budgets that hold it too; NULL: none."),
    )
    op.add_column(
        "budget_reservations",
        sa.Column("cost", sa.Numeric(14, 8), comment="Upper estimate in US dollars; NULL: a price is unknown."),
    )
    op.add_column(
        "conversations",
        sa.Column(
            "summary_cost_held",
            sa.Numeric(14, 8),
            server_default="0",
            nullable=False,
            comment="US dollars that it holds of the rows of budgets.",
        ),
    )
    op.add_column(
        "conversations",
        sa.Column(
            "summary_budget_ids",
            ARRAY(sa.BigInteger()),
            comment="The rows of budgets that hold what it holds; NULL: none.",
        ),
    )
    for table in ("users", "servers"):
        op.add_column(
            table,
            sa.Column("budget_percent_told", sa.SmallInteger(), server_default="0", nullable=False, comment=TOLD),
        )
    for name in FUNCTIONS:
        _run((SQL / f"{name}.sql").read_text("utf-8"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")
    _run(TRIGGERS)


def downgrade() -> None:
    """Drop them; the release before calls the functions before."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute("DROP TRIGGER parley_free_reservations ON users")
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
    for table in ("users", "servers"):
        op.drop_column(table, "budget_percent_told")
    op.drop_column("conversations", "summary_budget_ids")
    op.drop_column("conversations", "summary_cost_held")
    op.drop_column("budget_reservations", "cost")
    op.drop_column("budget_reservations", "budget_ids")
    op.drop_column("token_logs", "budget_ids")
    for table in TABLES:
        op.drop_table(table)


def _run(statements: str) -> None:
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
