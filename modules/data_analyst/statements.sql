-- name: list_sources
SELECT name, description, kind, url, password, relation, path, allow_sql,
    ARRAY(SELECT jsonb_array_elements_text(allowed_roles)) AS allowed_roles
FROM data_sources WHERE is_enabled ORDER BY name;
