-- The calls are counted before anything is named: names would cost more than sums. Each kind of thing brings only the joins that
-- it needs. The index of `created_at` finds the calls of the time.
CREATE FUNCTION admin.spend_by(
    by text, since timestamptz DEFAULT now() - interval '30 days', until timestamptz DEFAULT 'infinity'
) RETURNS TABLE (
    key text, name text, calls bigint, tokens bigint, cached bigint, dollars numeric, calls_of_unknown_price bigint
)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    v_counted text := by;
    v_from text := '';
    v_key text := 'counted.one::text';
    v_name text := 'counted.one::text';
    v_names text := '';
BEGIN
    CASE by
        WHEN 'day' THEN
            v_counted := '(log.created_at AT TIME ZONE ''UTC'')::date';
        WHEN 'model', 'purpose' THEN
            v_counted := 'log.' || by;
        WHEN 'person' THEN
            v_counted := 'log.user_id';
            v_name := 'coalesce(person.name, ''(shared, or deleted)'')';
            v_names := 'LEFT JOIN admin.users AS person ON person.id = counted.one';
        WHEN 'persona' THEN
            v_counted := 'turn.persona_id';
            v_from := 'LEFT JOIN public.turns AS turn ON turn.id = log.turn_id';
            v_name := 'coalesce(persona.name, ''(built-in, or deleted)'')';
            v_names := 'LEFT JOIN public.personas AS persona ON persona.id = counted.one';
        WHEN 'server', 'channel' THEN
            v_counted := 'log.conversation_id';
            v_key := 'concat_ws('':'', place.platform, coalesce(place.platform_server_id, ''direct''))';
            v_name := 'CASE WHEN place.id IS NULL THEN ''(no place, or deleted)''
                WHEN place.platform_server_id IS NULL THEN place.platform || '', outside servers''
                ELSE coalesce(server.name, place.platform || '':'' || place.platform_server_id) END';
            v_names := 'LEFT JOIN public.conversations AS place ON place.id = counted.one
                LEFT JOIN public.servers AS server
                    ON server.platform = place.platform AND server.platform_server_id = place.platform_server_id';
            IF by = 'channel' THEN
                -- A direct message has a channel of its own for each person, of whom the ledger tells under 'person'.
                v_key := v_key || ' || CASE WHEN place.is_direct THEN '''' ELSE coalesce('':'' || place.platform_channel_id, '''') END';
                v_name := v_name || ' || CASE WHEN place.is_direct THEN '' (direct messages)''
                    ELSE coalesce('' / '' || place.platform_channel_id, '''') END';
            END IF;
        ELSE
            RAISE EXCEPTION 'spending is counted by day, model, purpose, person, persona, server or channel, not by %', quote_literal(by);
    END CASE;
    RETURN QUERY EXECUTE format(
        'SELECT %s, %s, sum(counted.calls)::bigint, sum(counted.tokens)::bigint, sum(counted.cached)::bigint,
                sum(counted.dollars), sum(counted.unpriced)::bigint
         FROM (
             SELECT %s AS one, count(*) AS calls, sum(log.input_tokens + log.output_tokens) AS tokens,
                    sum(log.cached_tokens) AS cached, sum(log.cost_estimate) AS dollars,
                    count(*) FILTER (WHERE log.cost_estimate IS NULL) AS unpriced
             FROM public.token_logs AS log %s WHERE log.created_at >= $1 AND log.created_at < $2 GROUP BY 1
         ) AS counted %s
         GROUP BY 1, 2 ORDER BY %s',
        v_key, v_name, v_counted, v_from, v_names, CASE by WHEN 'day' THEN '1 DESC' ELSE '4 DESC, 1' END
    ) USING since, until;
END
$$;
COMMENT ON FUNCTION admin.spend_by IS
    'What was spent by day, model, purpose, person, persona, server or channel: SELECT * FROM admin.spend_by(''channel'', now() - interval ''7 days'').';
