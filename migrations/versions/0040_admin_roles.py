"""The roles of admins: `parley_admin` reads and changes what admins may, `parley_readonly` looks without people's texts.

The views of `admin` read with the rights of their owner from now on, so that whoever may look at them needs no right to
the tables, in which people's texts are. Tables that a later migration makes are open to `parley_admin`; a migration
that makes one with secrets revokes that.
"""

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None

# As in 0001: roles belong to the server, and another database of it may make the same one at this moment.
ROLE = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{role}') THEN
        BEGIN
            CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;
        EXCEPTION WHEN duplicate_object OR unique_violation THEN
            NULL;
        END;
    END IF;
    IF NOT pg_has_role(
        current_user, '{role}', CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END
    ) THEN
        BEGIN
            EXECUTE format('GRANT {role} TO %I', current_user);
        EXCEPTION WHEN unique_violation THEN
            NULL;
        END;
    END IF;
END
$$
"""
# Keys, positions of people's phones, and what a login is going on with.
SECRET = ("slack_installations", "slack_oauth_states", "location_trackers")
OF_INSTALLATIONS = (
    "id, created_at, team_id, team_name, enterprise_id, app_id, bot_id, bot_user_id, scopes, installed_at, ended_at"
)
# What docs/admin-sql.md changes, and the tables of modules that admins fill.
CHANGED = (
    "users",
    "user_platform_links",
    "personas",
    "agents",
    "mcp_servers",
    "mcp_tools",
    "role_grants",
    "channel_modes",
    "servers",
    "skills",
    "memories",
    "memory_retention",
    "data_sources",
    "rooms",
    "room_rates",
    "bookings",
    "conversations",
    "turns",
    "inbox",
    "outbox",
    "scheduled_jobs",
    "summaries",
    "feedback",
)
# Without anything that people have written.
PLAIN = (
    "alembic_version",
    "audit_log",
    "budget_reservations",
    "call_totals",
    "channel_modes",
    "embedding_models",
    "memory_retention",
    "personas",
    "role_grants",
    "schema_compatibility",
    "servers",
    "skills",
    "token_logs",
    "turn_totals",
)
PRIVATE = ("memories", "memory_postings", "memory_scopes", "memory_vectors", "memory_words")
RIGHTS = f"""
GRANT USAGE ON SCHEMA public, admin TO parley_admin, parley_readonly;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO parley_admin;
REVOKE SELECT ON {", ".join(SECRET)} FROM parley_admin;
GRANT SELECT ({OF_INSTALLATIONS}) ON slack_installations TO parley_admin;
GRANT INSERT, UPDATE, DELETE ON {", ".join(CHANGED)} TO parley_admin;
GRANT SELECT ON {", ".join(PLAIN)} TO parley_readonly;
GRANT SELECT ON ALL TABLES IN SCHEMA admin TO parley_admin, parley_readonly;
-- It counts memories whoever's they are, which the program may not.
REVOKE SELECT ON admin.memories_by_user FROM parley_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO parley_admin;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO parley_admin;
ALTER DEFAULT PRIVILEGES IN SCHEMA admin GRANT SELECT ON TABLES TO parley_admin, parley_readonly;
-- A view's functions are called by whoever looks at it.
GRANT EXECUTE ON FUNCTION parley_budget_v1, parley_audit_hash_v1, parley_verify_audit_v1 TO parley_readonly;
DO $$
DECLARE
    v_function regprocedure;
    v_view regclass;
BEGIN
    FOR v_function IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname LIKE 'parley\\_%\\_v%'
        AND has_function_privilege('parley_app', oid, 'EXECUTE') LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO parley_admin', v_function);
    END LOOP;
    FOR v_view IN SELECT oid FROM pg_class WHERE relnamespace = 'admin'::regnamespace AND relkind = 'v' LOOP
        EXECUTE format('ALTER VIEW %s RESET (security_invoker)', v_view);
    END LOOP;
END
$$;
"""
WITHOUT_RIGHTS = """
ALTER DEFAULT PRIVILEGES IN SCHEMA admin REVOKE ALL ON TABLES FROM parley_admin, parley_readonly;
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON FUNCTIONS FROM parley_admin;
ALTER DEFAULT PRIVILEGES IN SCHEMA public REVOKE ALL ON TABLES FROM parley_admin;
REVOKE ALL ON ALL TABLES IN SCHEMA public, admin FROM parley_admin, parley_readonly;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA public FROM parley_admin, parley_readonly;
REVOKE ALL ON SCHEMA public, admin FROM parley_admin, parley_readonly;
GRANT SELECT ON admin.memories_by_user TO parley_app;
DO $$
DECLARE
    v_view regclass;
BEGIN
    FOR v_view IN SELECT oid FROM pg_class WHERE relnamespace = 'admin'::regnamespace AND relkind = 'v' LOOP
        EXECUTE format('ALTER VIEW %s SET (security_invoker = true)', v_view);
    END LOOP;
END
$$;
"""


def upgrade() -> None:
    """Make the roles and give them their rights."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for role in ("parley_admin", "parley_readonly"):
        _run(ROLE.format(role=role))
    _run(RIGHTS)
    for table in PRIVATE:
        op.execute(f"CREATE POLICY {table}_of_all_for_admins ON {table} TO parley_admin USING (true)")


def downgrade() -> None:
    """Take the rights away; the roles stay, other databases of the server may use them."""
    op.execute("SET LOCAL lock_timeout = '4s'")
    for table in PRIVATE:
        op.execute(f"DROP POLICY {table}_of_all_for_admins ON {table}")
    _run(WITHOUT_RIGHTS)


def _run(statements: str) -> None:
    # The driver takes the text as it stands: no parameters, so several statements at once.
    op.get_bind().exec_driver_sql(statements.replace("%", "%%"))
