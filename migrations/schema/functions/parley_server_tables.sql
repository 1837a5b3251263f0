-- Every table, and what of it goes with a server ($1 platform, $2 server) to another cell, in the order in which rows are made.
-- A condition of NULL: nothing. `is_lost`: rows that another row here can't be without, and that the other cell has no use for:
-- they are deleted. Platforms and modules say in folder_tables what becomes of their own, which come last.
CREATE FUNCTION public.parley_server_tables()
RETURNS TABLE (number bigint, name text, condition text, is_lost boolean)
LANGUAGE sql STABLE AS $$
    WITH words (place, of_places, of_turns, of_scopes) AS (VALUES (
        $sql$platform = $1 AND platform_server_id = $2$sql$,
        $sql$conversation_id IN (SELECT id FROM public.conversations WHERE platform = $1 AND platform_server_id = $2)$sql$,
        $sql$turn_id IN (SELECT t.id FROM public.turns AS t JOIN public.conversations AS c ON c.id = t.conversation_id
            WHERE c.platform = $1 AND c.platform_server_id = $2)$sql$,
        $sql$scope_id IN (SELECT id FROM public.memory_scopes WHERE platform = $1 AND platform_server_id = $2)$sql$
    )), tables (name, condition, is_lost) AS (
        SELECT named.* FROM words CROSS JOIN LATERAL (VALUES
            ('servers', place, false), ('channel_modes', place, false),
            ('role_grants', 'platform = $1 AND server = $2', false),
            ('member_roles', 'platform = $1 AND server = $2', false),
            ('memory_retention', place, false),
            -- Before the personas, so that they stay where the personas have gone: others may have the same.
            ('pictures', $sql$sha256 IN (
                SELECT picture FROM public.personas WHERE platform = $1 AND platform_server_id = $2)$sql$, false),
            ('personas', place, false), ('conversations', place, false),
            ('turns', of_places, false), ('messages', of_turns, false), ('summaries', of_places, false),
            ('full_results', of_turns, false), ('turn_events', of_turns, false), ('turn_contexts', of_turns, false),
            ('unremembered_turns', of_turns, false), ('forgotten_turns', of_turns, false),
            ('confirmations', of_turns, false), ('feedback', of_turns, false),
            ('token_logs', of_places || ' OR ' || of_turns, false),
            ('budgets', place || $sql$ OR persona_id IN (
                SELECT id FROM public.personas WHERE platform = $1 AND platform_server_id = $2)$sql$, false),
            ('budget_grants', $sql$limit_server_id IN (
                SELECT id FROM public.servers WHERE platform = $1 AND platform_server_id = $2
            ) OR limit_budget_id IN (SELECT id FROM public.budgets WHERE platform = $1 AND platform_server_id = $2)$sql$, false),
            ('budget_notices', $sql$limit_server_id IN (
                SELECT id FROM public.servers WHERE platform = $1 AND platform_server_id = $2
            ) OR limit_budget_id IN (SELECT id FROM public.budgets WHERE platform = $1 AND platform_server_id = $2)$sql$, false),
            ('inbox', place, false), ('outbox', place, false), ('scheduled_jobs', of_places, false),
            ('file_records', of_places || ' OR ' || of_turns, false),
            ('memory_scopes', place, false), ('memories', of_scopes, false), ('memory_words', of_scopes, false),
            ('memory_vectors', of_scopes, false)
        ) AS named
        -- People stay; who is unknown in the other cell begins there as a guest (parley_take_people).
        UNION ALL SELECT name, NULL, false FROM unnest(ARRAY[
            'users', 'user_platform_links', 'credentials', 'erasures', 'used_links', 'login_attempts', 'conversation_titles',
            -- The house's, the same for all servers of a cell.
            'modules', 'agents', 'mcp_servers', 'mcp_tools', 'skills', 'model_prices', 'open_models', 'embedding_models',
            'known_words', 'defaults', 'folder_tables',
            -- Append-only: what was done here was done here.
            'audit_log', 'persona_versions', 'turn_totals', 'call_totals', 'tool_totals', 'event_totals', 'counted_rows',
            -- What runs here. A server moves when nothing of it runs.
            'workers', 'processes', 'backups', 'jobs', 'dry_runs', 'bots', 'shards', 'listeners', 'delivery_outages', 'budget_reservations',
            -- The database itself.
            'own_cell', 'cell_servers', 'database_histories', 'schema_compatibility', 'schema_history', 'alembic_version'
        ]) AS name
        UNION ALL (SELECT f.name, f.condition, f.is_lost FROM public.folder_tables AS f ORDER BY f.id)
    )
    SELECT row_number() OVER (), tables.* FROM tables WHERE to_regclass('public.' || tables.name) IS NOT NULL
$$;
COMMENT ON FUNCTION public.parley_server_tables IS 'Every table, and which of its rows go with a server to another cell.';
REVOKE EXECUTE ON FUNCTION public.parley_server_tables FROM parley_app, parley_admin;
