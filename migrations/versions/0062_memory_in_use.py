"""Memory is recalled by what was told, not by talk."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0062"
down_revision = "0061"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
TALK = "parley_is_talk_v1"
FACTS = ("facts_turn_id", "facts_failures", "facts_retry_at")


# The trigger of 0041, and the budgets of those who rise or fall.
CHECK_USER = """
CREATE OR REPLACE FUNCTION parley_check_user() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.permission_level <> OLD.permission_level
       AND NEW.permission_until IS NOT DISTINCT FROM OLD.permission_until THEN
        -- Whoever sets a permission without an end means it so.
        NEW.permission_until := NULL;
        NEW.permission_after := NULL;
    END IF;
    {budget}
    IF NEW.time_zone <> 'UTC' AND NOT EXISTS (SELECT FROM pg_timezone_names WHERE name = NEW.time_zone) THEN
        RAISE EXCEPTION 'users_time_zone_is_known: there is no time zone "%"', NEW.time_zone
        USING ERRCODE = 'check_violation', CONSTRAINT = 'users_time_zone_is_known', TABLE = 'users',
              HINT = 'Write it as Europe/Berlin; SELECT name FROM pg_timezone_names lists them all.';
    END IF;
    RETURN NEW;
END
$$;
"""
# What is granted for a time leaves the budget as it is, and admin.undo brings the old budget back itself. Who is no
# longer admin has a limit again: that of a guest, as the settings have it where the program changes the permission.
BUDGET = """IF TG_OP = 'UPDATE' AND coalesce(current_setting('parley.undoes', true), '') = ''
       AND NEW.token_budget_monthly IS NOT DISTINCT FROM OLD.token_budget_monthly THEN
        IF NEW.permission_level IN ('admin', 'owner') AND NEW.permission_until IS NULL
           AND (OLD.permission_level NOT IN ('admin', 'owner') OR OLD.permission_until IS NOT NULL) THEN
            NEW.token_budget_monthly := NULL;
        ELSIF NEW.permission_level NOT IN ('admin', 'owner') AND OLD.permission_level IN ('admin', 'owner') THEN
            NEW.token_budget_monthly := coalesce(
                NEW.token_budget_monthly, nullif(current_setting('parley.guest_budget', true), '')::bigint, 50000
            );
        END IF;
    END IF;"""
BUDGET_BEFORE = """IF NEW.permission_until IS NULL AND coalesce(current_setting('parley.undoes', true), '') = ''
       AND NEW.permission_level IN ('admin', 'owner') AND OLD.permission_level NOT IN ('admin', 'owner')
       AND NEW.token_budget_monthly IS NOT DISTINCT FROM OLD.token_budget_monthly THEN
        NEW.token_budget_monthly := NULL;
    END IF;"""


def upgrade() -> None:
    """Note when something last went wrong; tell what was told from talk; draw facts from chats that go on."""
    op.add_column(
        "conversations",
        sa.Column(
            "facts_turn_id",
            sa.BigInteger(),
            server_default="0",
            nullable=False,
            comment="Facts were drawn from what was said up to this turn.",
        ),
    )
    op.add_column(
        "conversations",
        sa.Column(
            "facts_failures",
            sa.Integer(),
            server_default="0",
            nullable=False,
            comment="Attempts in a row that gave no facts; the next one waits the longer.",
        ),
    )
    op.add_column(
        "conversations",
        sa.Column(
            "facts_retry_at",
            sa.DateTime(timezone=True),
            comment="When facts may be drawn again after a failure; NULL: at any time.",
        ),
    )
    op.execute("UPDATE conversations SET facts_turn_id = summarized_turn_id WHERE summarized_turn_id > 0")
    op.get_bind().exec_driver_sql(CHECK_USER.format(budget=BUDGET).replace("%", "%%"))
    op.get_bind().exec_driver_sql((SQL / f"{TALK}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {TALK} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {TALK} TO parley_app")
    op.add_column(
        "event_totals",
        sa.Column(
            "last_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the last of them was counted.",
        ),
    )


def downgrade() -> None:
    """Take all of it back."""
    op.get_bind().exec_driver_sql(CHECK_USER.format(budget=BUDGET_BEFORE).replace("%", "%%"))
    op.execute(f"DROP FUNCTION {TALK}")
    op.drop_column("event_totals", "last_at")
    for column in FACTS:
        op.drop_column("conversations", column)
