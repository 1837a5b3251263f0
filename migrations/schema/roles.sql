-- Who may what. parley_app is the program; parley_admin reads and changes what admins may; parley_readonly looks without
-- people's texts. Roles belong to the server, and another database of it may make the same ones at this moment.
DO $$
DECLARE
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY ARRAY['parley_app', 'parley_admin', 'parley_readonly'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = v_role) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS', v_role);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;
            END;
        END IF;
        -- From 16 on, whoever makes a role is its member and may hand it out, but not act as it.
        IF NOT pg_has_role(
            current_user, v_role,
            CASE WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET' END
        ) THEN
            BEGIN
                EXECUTE format('GRANT %I TO %I', v_role, current_user);
            EXCEPTION WHEN unique_violation THEN
                NULL;
            END;
        END IF;
    END LOOP;
END
$$;

CREATE SCHEMA admin;
COMMENT ON SCHEMA admin IS 'Views and functions for admins: \dv admin.* and \df admin.* list them.';
-- Nobody but the owner gets at a partition beside its table, whose rights would not count there.
CREATE SCHEMA partitions;
COMMENT ON SCHEMA partitions IS 'Partitions of tables of public, which are read and written by their table alone.';
GRANT USAGE ON SCHEMA public, admin TO parley_app, parley_admin, parley_readonly;

-- The queue's tables and alembic_version are there already.
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO parley_app;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO parley_app;
REVOKE INSERT, UPDATE, DELETE ON alembic_version FROM parley_app;
GRANT SELECT ON ALL TABLES IN SCHEMA public TO parley_admin;
GRANT SELECT ON alembic_version TO parley_readonly;

-- All tables and functions that are made from now on. What is otherwise says so at the end of its file.
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO parley_app, parley_admin;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE ON SEQUENCES TO parley_app;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT EXECUTE ON FUNCTIONS TO parley_app, parley_admin;
ALTER DEFAULT PRIVILEGES IN SCHEMA admin GRANT SELECT ON TABLES TO parley_admin, parley_readonly;
