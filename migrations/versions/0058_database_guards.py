"""Row-level security binds the owner of the tables, too, and texts for embedding are given out to background work alone.

A program that acts as the owner by mistake, because a pooler has dropped its role, then sees no memories. Migrations and
restores run `parley_bind_owner_v1` at their end, for the tables and functions that they made.
"""

from pathlib import Path

from alembic import op

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None

SQL = Path(__file__).resolve().parents[1] / "sql"
# Only functions with the owner's rights call them.
INNER = ("parley_texts_of_memories_v1", "parley_texts_to_embed_v1")
VIEW = """
CREATE OR REPLACE VIEW admin.memories_by_user AS
SELECT person.name, counted.user_id, counted.source, counted.scope, counted.memories, counted.newest
FROM public.parley_memories_by_user_v1() AS counted LEFT JOIN admin.users AS person ON person.id = counted.user_id
ORDER BY counted.memories DESC
"""
VIEW_BEFORE = """
CREATE OR REPLACE VIEW admin.memories_by_user AS
SELECT person.name, memory.user_id, memory.source, memory.scope, count(*) AS memories, max(memory.said_at) AS newest
FROM public.memories AS memory LEFT JOIN admin.users AS person ON person.id = memory.user_id
GROUP BY person.name, memory.user_id, memory.source, memory.scope ORDER BY memories DESC
"""
UNBIND = """
DO $$
DECLARE
    v_table record;
BEGIN
    FOR v_table IN SELECT p.polrelid::regclass AS name, p.polname FROM pg_policy AS p WHERE p.polname LIKE '%\\_of\\_its\\_owner\\_%'
    LOOP
        EXECUTE format('DROP POLICY %I ON %s', v_table.polname, v_table.name);
        EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY', v_table.name);
    END LOOP;
END
$$
"""


def upgrade() -> None:
    """Make the functions; the end of the migrations calls the first one."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in ("parley_bind_owner_v1", "parley_memories_by_user_v1"):
        op.get_bind().exec_driver_sql((SQL / f"{name}.sql").read_text("utf-8").replace("%", "%%"))
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM PUBLIC, parley_admin")
    # Whoever looks at a view calls its functions.
    op.execute("GRANT EXECUTE ON FUNCTION parley_memories_by_user_v1 TO parley_admin, parley_readonly")
    op.execute(VIEW)
    for name in INNER:
        op.execute(f"REVOKE EXECUTE ON FUNCTION {name} FROM parley_app, parley_admin")


def downgrade() -> None:
    """Let the owner pass row-level security again."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for name in INNER:
        op.execute(f"GRANT EXECUTE ON FUNCTION {name} TO parley_app, parley_admin")
    op.execute(VIEW_BEFORE)
    op.execute("DROP FUNCTION parley_memories_by_user_v1")
    op.get_bind().exec_driver_sql(UNBIND.replace("%", "%%"))
    op.execute("DROP FUNCTION parley_bind_owner_v1")
