-- Sets what a connection needs and verifies it, in one round trip; `parley.connection` holds the settings as JSON.
-- Nothing of it is named at connecting: a pooler drops such parameters, and then the program would act as the owner, whom
-- row-level security does not bind. Run again, it tells whether an open connection is still what it was. Where a pooler
-- shares sessions, each transaction has set them already, and there are none to set here.
DO $$
DECLARE
    v_settings json := current_setting('parley.connection', true)::json;
    v_role text := v_settings ->> 'role';
    v_wrong text;
    v_tells boolean;
BEGIN
    IF v_settings IS NULL THEN
        RAISE 'A pooler gives this connection the sessions of others; name the address of Postgres itself in DATABASE_DIRECT_URL.'
            USING ERRCODE = 'PY001';
    END IF;
    -- What a standby shows is old, and a server that was demoted is one.
    IF current_setting('transaction_read_only') = 'on' THEN
        RAISE USING ERRCODE = 'PY002', MESSAGE = CASE WHEN pg_is_in_recovery() THEN 'it is a standby'
            ELSE 'it is read-only (default_transaction_read_only)' END;
    END IF;
    IF v_role <> 'none' AND to_regrole(quote_ident(v_role)) IS NULL THEN
        RAISE 'The database has no role %; run: parley migrate.', v_role USING ERRCODE = 'PY001';
    END IF;
    -- From 16 on, a member of a role may be without the right to act as it.
    IF v_role <> 'none' AND NOT pg_has_role(session_user, v_role, CASE
        WHEN current_setting('server_version_num')::int < 160000 THEN 'MEMBER' ELSE 'SET'
    END) THEN
        RAISE '% may not act as %; let a superuser run: GRANT % TO %;', session_user, v_role, v_role, quote_ident(session_user)
            USING ERRCODE = 'PY001';
    END IF;

    PERFORM set_config(key, value, false) FROM json_each_text(v_settings -> 'settings');
    -- Of the role or the database, or a schema named like the role: a table of another schema would be taken for ours.
    IF current_schema() IS DISTINCT FROM 'public' THEN
        RAISE 'The search_path % leads past the tables of Parley, which are in public; let it run: ALTER ROLE % IN DATABASE % SET search_path = public;',
            current_setting('search_path'), quote_ident(session_user), quote_ident(current_database()) USING ERRCODE = 'PY001';
    END IF;
    IF v_role = 'none' THEN
        RETURN;
    END IF;

    -- Row-level security is active for no role that it does not bind: its attributes are read to name the cause, or where no
    -- table tells. Whoever may make a table elsewhere, and be it a temporary one, may write a policy for our role there.
    SELECT string_agg(polrelid::regclass::text, ', ' ORDER BY polrelid::regclass::text)
            FILTER (WHERE NOT row_security_active(polrelid)), count(*) > 0
    INTO v_wrong, v_tells
    FROM (
        SELECT DISTINCT polrelid FROM pg_catalog.pg_policy WHERE to_regrole(quote_ident(v_role)) = ANY (polroles)
    ) AS policies
    WHERE (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = polrelid) = to_regnamespace('public');
    IF current_user <> v_role OR current_setting('is_superuser') = 'on' OR v_wrong IS NOT NULL OR NOT v_tells THEN
        IF current_user <> v_role
            OR (SELECT rolsuper OR rolbypassrls FROM pg_catalog.pg_roles WHERE rolname = current_user) THEN
            RAISE 'The program acts as %, which row-level security does not bind; let a superuser run: ALTER ROLE % NOSUPERUSER NOBYPASSRLS;',
                current_user, v_role USING ERRCODE = 'PY001';
        END IF;
        IF v_wrong IS NOT NULL THEN
            RAISE 'Row-level security is off for %; let its owner run for each: ALTER TABLE … ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;',
                v_wrong USING ERRCODE = 'PY001';
        END IF;
    END IF;
END
$$
