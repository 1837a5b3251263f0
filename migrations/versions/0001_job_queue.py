"""The job queue's own tables (procrastinate), the role that the program acts as, and its rights.

The queue's schema comes with the pinned minor version of the library. Its tables change with every job, so that the
planner's picture of them ages within seconds: fetching a job falls from 900 to 110 a second. Hence the eager
autovacuum and analyze thresholds.
"""

from alembic import op
from procrastinate.schema import SchemaManager

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

EAGER = """
ALTER TABLE {table} SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 200,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000,
    fillfactor = 70
)
"""

ROLE = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'parley_app') THEN
        BEGIN
            CREATE ROLE parley_app LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            -- Another database of the server made the role in the same moment.
            NULL;
        END;
    END IF;
    -- From 16 on, whoever makes a role is its member and may hand it out, but not act as it.
    IF NOT pg_has_role(
        current_user, 'parley_app', CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END
    ) THEN
        EXECUTE format('GRANT parley_app TO %I', current_user);
    END IF;
END
$$
"""

RIGHTS = """
GRANT USAGE ON SCHEMA public TO parley_app;
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO parley_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO parley_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO parley_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO parley_app;
REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM parley_app;
"""

TABLES = ("procrastinate_periodic_defers", "procrastinate_events", "procrastinate_jobs", "procrastinate_workers")


def upgrade() -> None:
    """Make the queue, the role and its rights."""
    op.execute("CREATE EXTENSION IF NOT EXISTS vector")
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql(SchemaManager.get_schema().replace("%", "%%"))
    for table in ("procrastinate_jobs", "procrastinate_events"):
        op.execute(EAGER.format(table=table))
    op.execute(ROLE)
    op.execute(RIGHTS)


def downgrade() -> None:
    """Drop the queue; role and extension stay, others may use them."""
    op.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM parley_app")
    op.execute("ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON SEQUENCES FROM parley_app")
    op.execute("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM parley_app")
    op.execute("REVOKE ALL ON SCHEMA public FROM parley_app")
    for table in TABLES:
        op.execute(f"DROP TABLE {table} CASCADE")
    op.execute(DROP_ROUTINES)


DROP_ROUTINES = """
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN SELECT oid::regprocedure FROM pg_proc WHERE proname LIKE 'procrastinate%' LOOP
        EXECUTE 'DROP FUNCTION ' || name || ' CASCADE';
    END LOOP;
    FOR name IN SELECT typname FROM pg_type WHERE typname LIKE 'procrastinate%' AND typtype IN ('e', 'c') LOOP
        EXECUTE 'DROP TYPE ' || quote_ident(name) || ' CASCADE';
    END LOOP;
END
$$
"""
