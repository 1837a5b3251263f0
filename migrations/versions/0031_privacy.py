"""What people decide about their data: erasure that can be continued after a crash, and a pause of the memory."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
ERASE = "parley_erase_person_v1"

# What a person asked for with `remember` is kept also during a pause.
PAUSE = """
CREATE FUNCTION parley_keep_pause() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM users WHERE id = NEW.user_id AND is_memory_paused)
       OR EXISTS (SELECT FROM conversations WHERE id = NEW.conversation_id AND is_memory_paused) THEN
        RETURN NULL;
    END IF;
    RETURN NEW;
END
$$;
CREATE TRIGGER parley_keep_pause BEFORE INSERT ON memories
    FOR EACH ROW WHEN (NEW.source <> 'remembered') EXECUTE FUNCTION parley_keep_pause();
"""


def upgrade() -> None:
    """Make the table, the columns and the functions; the release before does not look at them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "erasures",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="The number that the erased person had."),
        sa.Column(
            "erased",
            sa.dialects.postgresql.JSONB(),
            server_default=sa.text("'{}'"),
            nullable=False,
            comment="How many rows and files of each kind were erased.",
        ),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True, comment="End; NULL: a worker goes on."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_erasures")),
        sa.UniqueConstraint("user_id", name=op.f("uq_erasures_user_id")),
        comment="People who were erased, without their names: what the receipts are made of.",
    )
    op.create_index("ix_erasures_open", "erasures", ["id"], postgresql_where=sa.text("finished_at IS NULL"))
    for table, whose in (("users", "this person"), ("conversations", "this conversation")):
        op.add_column(
            table,
            sa.Column(
                "is_memory_paused",
                sa.Boolean(),
                server_default=sa.text("false"),
                nullable=False,
                comment=f"Is nothing of {whose} remembered, except what is asked for?",
            ),
        )
    op.execute(PAUSE)
    op.get_bind().exec_driver_sql((SQL / f"{ERASE}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {ERASE} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {ERASE} TO parley_app")


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute(f"DROP FUNCTION {ERASE}")
    op.execute("DROP TRIGGER parley_keep_pause ON memories")
    op.execute("DROP FUNCTION parley_keep_pause()")
    op.drop_column("conversations", "is_memory_paused")
    op.drop_column("users", "is_memory_paused")
    op.drop_table("erasures")
