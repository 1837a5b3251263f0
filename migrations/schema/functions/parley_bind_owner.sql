-- Lets row-level security bind the owner of the tables, too: a program that acts as the owner by mistake sees no rows. All
-- rows are there for functions with the owner's rights, which end their search_path with pg_temp (only a superuser may give
-- a function a setting of our own), and for whoever sets `parley.rows` to all: migrations, backups, people.
-- The owner is a member of our roles, whose policies let them see rows: so what is permitted is restricted, too.
-- Runs after each migration and restore, as the owner, and changes nothing the second time.
CREATE FUNCTION public.parley_bind_owner() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_table record;
    v_kind text;
BEGIN
    FOR v_table IN
        SELECT c.oid, c.oid::regclass AS name, c.relname || '_of_its_owner' AS policy, c.relowner,
               c.relforcerowsecurity AS is_bound
        FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = 'public'::regnamespace AND c.relrowsecurity AND EXISTS (
            SELECT FROM pg_catalog.pg_policy AS p WHERE p.polrelid = c.oid AND 'parley_app'::regrole = ANY (p.polroles)
        )
    LOOP
        IF NOT v_table.is_bound THEN
            EXECUTE format('ALTER TABLE %s FORCE ROW LEVEL SECURITY', v_table.name);
        END IF;
        FOREACH v_kind IN ARRAY ARRAY['permissive', 'restrictive'] LOOP
            CONTINUE WHEN EXISTS (
                SELECT FROM pg_catalog.pg_policy AS p
                WHERE p.polrelid = v_table.oid AND p.polname = v_table.policy || '_' || v_kind
                      AND p.polroles = ARRAY[v_table.relowner]
            );
            EXECUTE format('DROP POLICY IF EXISTS %I ON %s', v_table.policy || '_' || v_kind, v_table.name);
            EXECUTE format(
                $policy$CREATE POLICY %I ON %s AS %s TO %I USING (
                    current_setting('search_path') LIKE '%%pg_temp' OR current_setting('parley.rows', true) = 'all'
                )$policy$,
                v_table.policy || '_' || v_kind, v_table.name, v_kind, pg_catalog.pg_get_userbyid(v_table.relowner)
            );
        END LOOP;
    END LOOP;
END
$$;
COMMENT ON FUNCTION public.parley_bind_owner IS
    'Lets row-level security bind the owner of the tables; runs after each migration and restore.';
REVOKE EXECUTE ON FUNCTION public.parley_bind_owner FROM parley_app, parley_admin;
