-- Values of a row as the audit log holds them: each secret is replaced by `[secret-removed]`.
--
-- The values of headers and of env are secrets unless they name a variable (`Bearer ${MCP_NAME}`). Anywhere else a secret is known
-- by its form (a provider's key, a token, a password in an address), and in rows about connections by its name (`--token=…`), as in
-- shared/redaction.py. `p_names` is the way to the value: table, column and the keys below it.
CREATE FUNCTION public.parley_without_secrets(p_value jsonb, p_names text[]) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_mark constant text := '[secret-removed]';
    v_name constant text := '(password|passwd|passphrase|pwd|secret|token|authorization|cookie|credentials?|signature'
        '|(api|access|account|secret|private|signing|encryption|shared)[_-]?key)';
    v_is_connection constant boolean := p_names[1] IN ('mcp_servers', 'agents', 'data_sources');
    v_text text;
BEGIN
    CASE jsonb_typeof(p_value)
        WHEN 'object' THEN
            RETURN coalesce((
                SELECT jsonb_object_agg(key, public.parley_without_secrets(value, p_names || key)) FROM jsonb_each(p_value)
            ), '{}');
        WHEN 'array' THEN
            -- An argument behind one such as --token is named by it.
            RETURN coalesce((
                SELECT jsonb_agg(public.parley_without_secrets(value, p_names || coalesce(before, '')) ORDER BY position)
                FROM (
                    SELECT value, position, lag(value #>> '{}') OVER (ORDER BY position) AS before
                    FROM jsonb_array_elements(p_value) WITH ORDINALITY AS element (value, position)
                ) AS elements
            ), '[]');
        WHEN 'string' THEN
            v_text := p_value #>> '{}';
        ELSE
            RETURN p_value;
    END CASE;
    -- Scripted answers of an agent are none.
    IF v_is_connection AND p_names <> '{agents,env,DEBUG_MOCK_RESPONSES}' AND (p_names[2] IN ('headers', 'env') OR p_names[cardinality(p_names)] ~* (v_name || '$')) THEN
        IF regexp_replace(v_text, '\$\{\w+\}', '', 'g') ~* '^\s*(basic|bearer|bot|digest|token)?\s*$' THEN
            RETURN p_value;
        END IF;
        RETURN to_jsonb(v_mark);
    END IF;
    v_text := regexp_replace(v_text, '-----BEGIN [A-Z ]*PRIVATE KEY-----[A-Za-z0-9+/=\s\\]*', v_mark, 'g');
    v_text := regexp_replace(v_text, '(?<![A-Za-z0-9])(sk-|xox[a-z][a-z]?-|xoxe\.|xapp-)[A-Za-z0-9._-]{8,}', v_mark, 'g');
    v_text := regexp_replace(v_text,
        '(?<![A-Za-z0-9])([sr]k_(live|test)_|whsec_|github_pat_|glpat-|xai-|pplx-|nvapi-|tvly-|AIza|ya29\.|SG\.|pypi-|dop_v1_'
        '|gsk_|hf_|r8_|npm_|gh[opsur]_|AKIA|ASIA)[A-Za-z0-9._-]{16,}', v_mark, 'g');
    v_text := regexp_replace(v_text, '(://)([^\s/:@"'']*:[^\s/"'']+|[^\s/:@"'']{20,})@', '\1' || v_mark || '@', 'g');
    v_text := regexp_replace(v_text, '(hooks\.slack\.com/)[\w/-]{8,}', '\1' || v_mark, 'g');
    v_text := regexp_replace(v_text, '(/webhooks/)\d{15,22}/[\w-]{20,}', '\1' || v_mark, 'g');
    v_text := regexp_replace(v_text, '(?<!\d)\d{8,12}:AA[\w-]{30,40}', v_mark, 'g');
    v_text := regexp_replace(v_text, '(?<![\w-])eyJ[\w-]{8,}\.[\w-]{8,}(\.[\w-]+)?', v_mark, 'g');
    v_text := regexp_replace(v_text, '(?<![\w-])[\w-]{23,30}\.[\w-]{6,7}\.[\w-]{27,64}(?![\w-])', v_mark, 'g');
    v_text := regexp_replace(v_text, '\m(bearer\s+)(?!\$\{)[^\s"'',;]+', '\1' || v_mark, 'gi');
    v_text := regexp_replace(v_text, '\m(basic\s+)(?=[a-z+/]*[0-9=])[a-z0-9+/_-]{6,}=?=?', '\1' || v_mark, 'gi');
    IF v_is_connection THEN
        v_text := regexp_replace(v_text,
            '(' || v_name || '\\?["'']?\s*[:=]\s*)(?!\$\{)("[^"\n]+"?|''[^''\n]+''?|\\["''][^"''\\\n]+'
            || '|(basic|bearer|bot|token|digest)\s+[^\s"'',;]+|[^\s"'',;&)}\]\\]+)', '\1' || v_mark, 'gi');
    END IF;
    RETURN to_jsonb(v_text);
END
$$;
COMMENT ON FUNCTION public.parley_without_secrets IS
    'Values of a row with a note in the place of each secret; the names are those of table and column.';
