"""Triggers that refuse nonsense with a sentence, and the table of the words that they know.

The program fills `known_words` at its start: as long as there is no word of a kind, nothing of that kind is refused.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
# A function comes after those it calls.
FUNCTIONS = (
    "parley_distance_v1",
    "parley_nearest_v1",
    "parley_check_platform_v1",
    "parley_check_model_v1",
    "parley_check_persona_v1",
    "parley_check_place_v1",
    "parley_keep_owner_v1",
    "parley_keep_history_v1",
)
TRIGGERS = """
CREATE TRIGGER parley_check_persona
    BEFORE INSERT OR UPDATE OF system_prompt, is_default, platform, default_model, allowed_modules ON personas
    FOR EACH ROW EXECUTE FUNCTION parley_check_persona_v1();
CREATE TRIGGER parley_keep_history BEFORE DELETE ON personas
    FOR EACH ROW EXECUTE FUNCTION parley_keep_history_v1();
CREATE TRIGGER parley_keep_history BEFORE DELETE ON users
    FOR EACH ROW EXECUTE FUNCTION parley_keep_history_v1();
CREATE TRIGGER parley_keep_owner BEFORE UPDATE OF permission_level, permission_until ON users
    FOR EACH ROW WHEN (OLD.permission_level = 'owner' AND OLD.permission_until IS NULL
                       AND (NEW.permission_level <> 'owner' OR NEW.permission_until IS NOT NULL))
    EXECUTE FUNCTION parley_keep_owner_v1();
CREATE TRIGGER parley_keep_last_owner BEFORE DELETE ON users
    FOR EACH ROW WHEN (OLD.permission_level = 'owner' AND OLD.permission_until IS NULL) EXECUTE FUNCTION parley_keep_owner_v1();
-- The program itself adds servers, without a budget.
CREATE TRIGGER parley_check_place BEFORE INSERT OR UPDATE OF platform ON servers
    FOR EACH ROW WHEN (NEW.token_budget_monthly IS NOT NULL) EXECUTE FUNCTION parley_check_place_v1();
"""
PLACES = ("role_grants", "channel_modes", "memory_retention")


def upgrade() -> None:
    """Make the table, the functions and the triggers."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    op.create_table(
        "known_words",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=False), nullable=False, comment="The row's own number."),
        sa.Column(
            "kind",
            sa.Text(),
            nullable=False,
            comment="module, platform, model as litellm writes it, or provider: of models; * is a server of one's own.",
        ),
        sa.Column("word", sa.Text(), nullable=False, comment="The word."),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
            comment="When the row was made.",
        ),
        sa.CheckConstraint(
            "kind IN ('module', 'platform', 'model', 'provider')", name=op.f("known_words_kind_is_known")
        ),
        sa.CheckConstraint("word <> ''", name=op.f("known_words_word_is_not_empty")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_known_words")),
        sa.UniqueConstraint("kind", "word", name=op.f("uq_known_words_kind_word")),
        comment="Words that the triggers know; the program adds them at its start.",
    )
    for name in FUNCTIONS:
        # The driver takes the text as it stands: no parameters, so several statements at once.
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC")
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app")
    op.get_bind().exec_driver_sql(TRIGGERS)
    for table in PLACES:
        op.execute(
            f"CREATE TRIGGER parley_check_place BEFORE INSERT OR UPDATE OF platform ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION parley_check_place_v1()"
        )


def downgrade() -> None:
    """Drop them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for table in (*PLACES, "servers"):
        op.execute(f"DROP TRIGGER parley_check_place ON {table}")
    op.execute("DROP TRIGGER parley_keep_last_owner ON users")
    op.execute("DROP TRIGGER parley_keep_owner ON users")
    for table in ("users", "personas"):
        op.execute(f"DROP TRIGGER parley_keep_history ON {table}")
    op.execute("DROP TRIGGER parley_check_persona ON personas")
    for name in reversed(FUNCTIONS):
        op.execute(f"DROP FUNCTION {name}")
    op.drop_table("known_words")
