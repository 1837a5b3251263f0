-- name: list_personas
SELECT persona.id, persona.name, (SELECT picture FROM personas WHERE personas.id = persona.id), persona.answers, persona.model,
       persona.modules, newest.version, newest.created_at AS changed_at,
       coalesce(newest.actor, newest.database_user) AS changed_by
FROM (SELECT id, name, answers, model, modules FROM admin.personas) AS persona
LEFT JOIN LATERAL (
    SELECT version, created_at, actor, database_user FROM persona_versions
    WHERE persona_id = persona.id ORDER BY version DESC LIMIT 1
) AS newest ON true ORDER BY lower(persona.name);

-- name: list_deleted
SELECT DISTINCT ON (version.persona_id) version.persona_id AS id, version.name, version.created_at AS deleted_at,
       coalesce(version.actor, version.database_user) AS deleted_by
FROM persona_versions AS version
WHERE NOT EXISTS (SELECT FROM personas WHERE personas.id = version.persona_id)
ORDER BY version.persona_id DESC, version.version DESC LIMIT 20;

-- name: read_persona
SELECT persona.*, (SELECT max(version) FROM persona_versions WHERE persona_id = persona.id) AS version
FROM personas AS persona WHERE persona.id = :id;

-- name: lock_persona
-- That is about to be changed, so that nobody else changes it meanwhile. Alone: a statement that waits for a lock sees nothing
-- else of what the one before it has stored.
SELECT name FROM personas WHERE id = :id FOR UPDATE;

-- name: read_version
SELECT version, coalesce(actor, database_user) AS who FROM persona_versions
WHERE persona_id = :id ORDER BY version DESC LIMIT 1;

-- name: list_words
SELECT (SELECT array_agg(word ORDER BY word) FROM known_words WHERE kind = 'platform') AS platforms,
       (SELECT array_agg(name ORDER BY name) FROM (
           SELECT word AS name FROM known_words WHERE kind = 'module' UNION SELECT name FROM mcp_servers
       ) AS module) AS modules,
       (SELECT array_agg(name ORDER BY name) FROM skills WHERE is_enabled) AS skills,
       (SELECT array_agg(DISTINCT default_model) FROM personas WHERE default_model IS NOT NULL) AS models;

-- name: list_servers
SELECT platform, platform_server_id AS id, name FROM servers ORDER BY lower(name), id LIMIT 500;

-- name: find_neighbour
-- Who answers in this place now.
SELECT name, chosen_by FROM parley_find_persona(NULL, CAST(:platform AS text), CAST(:server AS text), CAST(:channel AS text));

-- name: define_persona
SELECT admin.define_persona(
    CAST(:name AS text), :system_prompt, platform => CAST(:platform AS text), server => CAST(:server AS text),
    channel => CAST(:channel AS text), modules => CAST(:modules AS text[]), skills => CAST(:skills AS text[]),
    model => CAST(:model AS text), max_tokens => CAST(:max_tokens AS integer),
    max_temperature => CAST(:max_temperature AS double precision), max_iterations => CAST(:max_iterations AS integer),
    loop_mode => CAST(:loop_mode AS text), allow_mentions => :allow_mentions, is_default => :is_default,
    new_name => CAST(:new_name AS text), suggestions => CAST(:suggestions AS text[]),
    open_to => CAST(:open_to AS text)
);

-- name: set_picture
SELECT admin.set_picture(:name, CAST(:picture AS bytea));

-- name: delete_persona
SELECT admin.delete_persona(:name, history => true);

-- name: find_persona
SELECT admin.find_persona(:name);

-- name: roll_back
SELECT admin.rollback_persona(:name, CAST(:version AS integer));

-- name: list_versions
-- What tells whether the instructions have changed stands for them: all versions together may be long.
SELECT version, name, action, created_at AS at, coalesce(actor, database_user) AS who,
       fields || jsonb_build_object('system_prompt', md5(fields ->> 'system_prompt')) AS fields
FROM persona_versions WHERE persona_id = :id ORDER BY version DESC LIMIT 500;

-- name: read_fields
SELECT version, fields FROM persona_versions WHERE persona_id = :id AND version = CAST(:version AS integer);

-- name: find_newest_turn
-- That this admin may let it answer again: one of a channel, or one of their own.
SELECT turns.id FROM turns JOIN conversations AS place ON place.id = turns.conversation_id
WHERE turns.persona_id = :id AND turns.status = 'answered' AND turns.parent_turn_id IS NULL
  AND (turns.user_id = :user_id OR turns.user_id IS NOT NULL AND NOT place.is_direct)
ORDER BY turns.id DESC LIMIT 1;

-- name: find_named
SELECT id FROM personas WHERE name = :name;
