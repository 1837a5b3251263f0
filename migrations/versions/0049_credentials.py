"""Credentials of people, and those that a program gives for one message; the release before knows neither."""

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
DROP_GIVEN = "parley_drop_given_credentials_v1"
GIVEN = "What a program gave for this message: {owner, encrypted: {name: …}}; removed once the message is answered."


def upgrade() -> None:
    """Make the table, the inbox's column, and the trigger that empties it."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "credentials",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column("user_id", sa.BigInteger(), nullable=False, comment="Whose it is."),
        sa.Column("name", sa.Text(), nullable=False, comment="What tools call it, e.g. pms."),
        sa.Column(
            "encrypted",
            sa.Text(),
            nullable=False,
            comment="The credential, encrypted with a key made of SECRET_KEY.",
        ),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "name ~ '^[a-z][a-z0-9_-]{0,39}$'",
            name=op.f("credentials_name_is_at_most_40_of_a_to_z_digits_hyphen_and_underscore"),
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_credentials_user_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_credentials")),
        sa.UniqueConstraint("user_id", "name", name=op.f("uq_credentials_user_id_name")),
        comment="Credentials of people for other services, which tools use for them; models never see them.",
    )
    op.execute("REVOKE ALL ON credentials FROM parley_admin")
    op.add_column("inbox", sa.Column("credentials", postgresql.JSONB(astext_type=sa.Text()), comment=GIVEN))
    op.get_bind().exec_driver_sql((SQL / f"{DROP_GIVEN}.sql").read_text("utf-8").replace("%", "%%"))
    op.execute(f"REVOKE EXECUTE ON FUNCTION {DROP_GIVEN} FROM PUBLIC")
    op.execute(f"GRANT EXECUTE ON FUNCTION {DROP_GIVEN} TO parley_app")
    op.execute(
        "CREATE TRIGGER parley_drop_given_credentials BEFORE UPDATE OF status ON inbox FOR EACH ROW"
        " WHEN (NEW.credentials IS NOT NULL AND NEW.status NOT IN ('waiting', 'claimed'))"
        f" EXECUTE FUNCTION {DROP_GIVEN}()"
    )


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.execute("DROP TRIGGER parley_drop_given_credentials ON inbox")
    op.execute(f"DROP FUNCTION {DROP_GIVEN}")
    op.drop_column("inbox", "credentials")
    op.drop_table("credentials")
