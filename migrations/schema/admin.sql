-- What admins look at. The views read with the rights of their owner: whoever may look at them needs no right to the
-- tables, in which people's texts are.

CREATE VIEW admin.users AS
SELECT u.id, coalesce(u.display_name, account.name, 'user ' || u.id) AS name,
       public.parley_permission(u.permission_level, u.permission_until, u.permission_after) AS permission,
       standing.budget, standing.used, standing.reserved, standing.resets_at AS renews_at, account.accounts,
       u.time_zone, u.is_memory_paused, u.created_at,
       CASE WHEN u.permission_until > now() THEN u.permission_until END AS permission_until, u.paused_at
FROM public.users AS u
CROSS JOIN LATERAL public.parley_budget(
    u.token_budget_monthly, u.budget_from_roles, u.tokens_used_this_month, u.tokens_reserved, u.budget_reset_at
) AS standing
LEFT JOIN LATERAL (
    SELECT string_agg(link.platform || ':' || link.platform_user_id, ', ' ORDER BY link.id) AS accounts,
           (array_agg(link.platform_username ORDER BY link.id) FILTER (WHERE link.platform_username IS NOT NULL))[1] AS name
    FROM public.user_platform_links AS link WHERE link.user_id = u.id
) AS account ON true;
COMMENT ON VIEW admin.users IS
    'People: name, permission, budget as the program computes it (NULL = unlimited), accounts, pause. '
    'UPDATE changes name, permission, permission_until, budget, time_zone.';

CREATE VIEW admin.spend AS
SELECT log.created_at, log.user_id, coalesce(person.name, '(deleted)') AS name, conversation.platform,
       conversation.platform_server_id AS server, coalesce(server.name, conversation.platform_server_id) AS server_name,
       log.turn_id, log.purpose, log.model, log.input_tokens + log.output_tokens AS tokens, log.cached_tokens,
       log.cost_estimate AS dollars, log.is_estimated
FROM public.token_logs AS log
LEFT JOIN admin.users AS person ON person.id = log.user_id
LEFT JOIN public.conversations AS conversation ON conversation.id = log.conversation_id
LEFT JOIN public.servers AS server
    ON server.platform = conversation.platform AND server.platform_server_id = conversation.platform_server_id;
COMMENT ON VIEW admin.spend IS 'The ledger, a line for each model call, with names.';

CREATE VIEW admin.spend_by_user AS
SELECT name, user_id, count(*) AS calls, sum(tokens) AS tokens, sum(cached_tokens) AS cached, sum(dollars) AS dollars,
       count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend WHERE created_at > now() - interval '30 days' GROUP BY name, user_id ORDER BY tokens DESC;
COMMENT ON VIEW admin.spend_by_user IS 'Who spent what in the last 30 days; an unknown price is not counted as 0.';

CREATE VIEW admin.spend_by_server AS
SELECT platform, server, server_name, count(DISTINCT user_id) AS people, count(*) AS calls, sum(tokens) AS tokens,
       sum(dollars) AS dollars, count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend WHERE created_at > now() - interval '30 days' AND server IS NOT NULL
GROUP BY platform, server, server_name ORDER BY tokens DESC;
COMMENT ON VIEW admin.spend_by_server IS 'What each server or workspace spent in the last 30 days.';

CREATE VIEW admin.spend_by_model AS
SELECT model, purpose, count(*) AS calls, sum(tokens) AS tokens, sum(cached_tokens) AS cached, sum(dollars) AS dollars,
       count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend WHERE created_at > now() - interval '30 days' GROUP BY model, purpose ORDER BY tokens DESC;
COMMENT ON VIEW admin.spend_by_model IS 'What each model cost in the last 30 days, and for what.';

CREATE VIEW admin.spend_by_day AS
SELECT date_trunc('day', created_at)::date AS day, count(DISTINCT user_id) AS people, count(*) AS calls, sum(tokens) AS tokens,
       sum(dollars) AS dollars, count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend GROUP BY 1 ORDER BY 1 DESC;
COMMENT ON VIEW admin.spend_by_day IS 'What each day cost, as far as the ledger is kept.';

CREATE VIEW admin.personas AS
SELECT persona.id, persona.name, CASE
           WHEN persona.platform_channel_id IS NOT NULL THEN 'channel ' || persona.platform_channel_id
           WHEN persona.platform_server_id IS NOT NULL THEN 'server ' || coalesce(server.name, persona.platform_server_id)
           WHEN persona.platform IS NOT NULL THEN 'everywhere'
           WHEN persona.is_default THEN 'wherever no other is' ELSE 'nowhere' END AS answers,
       persona.platform, persona.allowed_modules AS modules, persona.default_model AS model, persona.loop_mode,
       (SELECT count(*) FROM public.turns WHERE turns.persona_id = persona.id) AS turns, persona.system_prompt
FROM public.personas AS persona
LEFT JOIN public.servers AS server
    ON server.platform = persona.platform AND server.platform_server_id = persona.platform_server_id;
COMMENT ON VIEW admin.personas IS
    'Personas and where they answer; modules NULL = all that the permission allows. UPDATE changes name, modules, model, '
    'loop_mode, system_prompt.';

CREATE VIEW admin.agents AS
SELECT agent.id, agent.name, agent.description, agent.required_permission AS permission, persona.name AS persona, agent.url,
       agent.peers, agent.is_enabled, agent.last_error, persona.id AS persona_id,
       -- With nothing that only the persona's row can say, and for nobody else.
       agent.owns_persona AND persona.name = agent.name AND persona.platform IS NULL AND NOT persona.is_default AND NOT persona.allow_mentions
           AND num_nonnulls(persona.skills, persona.max_tokens_per_request, persona.max_temperature, persona.loop_mode,
                            persona.suggestions, persona.open_to, persona.picture) = 0
           AND NOT EXISTS (SELECT FROM public.agents AS other WHERE other.persona_id = persona.id AND other.id <> agent.id)
           AS has_own_persona
FROM public.agents AS agent LEFT JOIN public.personas AS persona ON persona.id = agent.persona_id;
COMMENT ON VIEW admin.agents IS 'Agents that tasks may be handed to, with the persona or the URL that answers.';

CREATE VIEW admin.persona_versions AS
SELECT version.persona_id, version.name, version.version, version.created_at AS at,
       coalesce(version.actor, version.database_user) AS who, version.action,
       coalesce(answered.turns, 0) AS turns,
       version.fields ->> 'default_model' AS model, version.fields -> 'allowed_modules' AS modules,
       version.fields ->> 'system_prompt' AS system_prompt, version.fields
FROM public.persona_versions AS version
LEFT JOIN (SELECT persona_version_id AS id, count(*) AS turns FROM public.turns GROUP BY 1) AS answered USING (id)
ORDER BY version.persona_id, version.version DESC;
COMMENT ON VIEW admin.persona_versions IS 'What personas were, newest first, also deleted ones, with the turns that each version answered.';

CREATE VIEW admin.turns AS
SELECT turn.id, turn.started_at, turn.finished_at - turn.started_at AS took, person.name, conversation.platform,
       conversation.platform_server_id AS server, conversation.platform_channel_id AS channel, persona.name AS persona,
       turn.status, turn.error, turn.cause, turn.model, turn.iterations, turn.attempt, spent.tokens, spent.dollars
FROM public.turns AS turn
LEFT JOIN admin.users AS person ON person.id = turn.user_id
LEFT JOIN public.conversations AS conversation ON conversation.id = turn.conversation_id
LEFT JOIN public.personas AS persona ON persona.id = turn.persona_id
LEFT JOIN LATERAL (
    SELECT sum(log.input_tokens + log.output_tokens) AS tokens,
           -- One call of unknown price makes the sum unknown.
           CASE WHEN bool_and(log.cost_estimate IS NOT NULL) THEN sum(log.cost_estimate) END AS dollars
    FROM public.token_logs AS log WHERE log.turn_id = turn.id
) AS spent ON true;
COMMENT ON VIEW admin.turns IS 'Turns with names, tokens and cost: SELECT * FROM admin.turns ORDER BY id DESC LIMIT 20.';

CREATE VIEW admin.stuck AS
SELECT 'turn runs for long' AS what, turn.id, now() - turn.started_at AS since, turn.attempt || '. attempt' AS detail
FROM public.turns AS turn WHERE turn.status = 'running' AND turn.started_at < now() - interval '5 minutes'
UNION ALL
SELECT 'message waits for long', waiting.id, now() - waiting.sent_at, waiting.place_key
FROM public.inbox AS waiting WHERE waiting.status IN ('waiting', 'claimed') AND waiting.sent_at < now() - interval '5 minutes'
UNION ALL
SELECT 'message was set aside', parked.id, now() - parked.sent_at, coalesce(turn.cause, turn.error)
FROM public.inbox AS parked LEFT JOIN public.turns AS turn ON turn.id = parked.turn_id WHERE parked.status = 'failed'
UNION ALL
SELECT 'reply was not delivered', reply.id, now() - reply.created_at, reply.error
FROM public.outbox AS reply WHERE reply.status = 'failed'
ORDER BY since DESC;
COMMENT ON VIEW admin.stuck IS 'What needs a look: long turns, waiting and parked messages, replies that failed. Empty is good.';

CREATE VIEW admin.queue_depth AS
-- A conversation has one turn at a time, so that a second worker does nothing for more of its messages.
SELECT counted.*, counted.conversations + counted.jobs + least(counted.replies, 1) AS depth
FROM (
    SELECT waiting.messages, waiting.conversations,
           (SELECT count(*) FROM public.scheduled_jobs AS job WHERE job.status = 'active' AND job.next_due_at <= now()) AS jobs,
           (SELECT count(*) FROM public.outbox WHERE outbox.status IN ('pending', 'claimed')
               OR outbox.status = 'noted'
                   AND (outbox.claimed_until <= now() OR outbox.claimed_until > now() + interval '10 minutes')) AS replies
    FROM (
        SELECT count(*) AS messages, count(DISTINCT inbox.place_key) AS conversations
        FROM public.inbox WHERE inbox.status IN ('waiting', 'claimed')
    ) AS waiting
) AS counted;
COMMENT ON VIEW admin.queue_depth IS
    'What workers have to do: messages without an answer, their conversations, due jobs, replies to deliver. Autoscalers '
    'read depth; 0 is idle.';

CREATE VIEW admin.memory_totals AS
SELECT memory.source, memory.scope, count(*) AS memories, count(memory.superseded_by) AS superseded,
       count(memory.vector_model) AS with_vectors, count(*) FILTER (WHERE person.is_memory_paused) AS of_paused
FROM public.memories AS memory JOIN public.users AS person ON person.id = memory.user_id
GROUP BY memory.source, memory.scope ORDER BY memory.source, memory.scope;
COMMENT ON VIEW admin.memory_totals IS
    'How much is remembered of all people together, by source and scope: how much of it has vectors, and how much is of people who have paused memory.';

CREATE VIEW admin.memories_by_user AS
SELECT person.name, counted.user_id, counted.source, counted.scope, counted.memories, counted.newest
FROM public.parley_memories_by_user() AS counted LEFT JOIN admin.users AS person ON person.id = counted.user_id
ORDER BY counted.memories DESC;
COMMENT ON VIEW admin.memories_by_user IS 'How much is remembered about whom: by source (turn, fact, remembered) and scope.';

CREATE VIEW admin.grants AS
SELECT person.name, person.permission AS permission, 'person' AS by, NULL::text AS server, NULL::text AS role, person.budget,
       person.permission_until AS until
FROM admin.users AS person WHERE person.permission <> 'guest'
UNION ALL
SELECT NULL, roles.permission_level, 'role', coalesce(server.name, roles.server), roles.role, roles.token_budget, NULL
FROM public.role_grants AS roles
LEFT JOIN public.servers AS server ON server.platform = roles.platform AND server.platform_server_id = roles.server;
COMMENT ON VIEW admin.grants IS 'Who may more than a guest, and until when: people, and the roles of servers.';

CREATE VIEW admin.budgets AS
WITH limits AS (
    SELECT 'person' AS kind, coalesce(person.name, 'user ' || u.id) AS name, '30 days' AS period, 'tokens' AS unit,
           standing.budget::numeric AS allowed, granted.tokens::numeric AS granted, standing.used::numeric AS used,
           standing.reserved::numeric AS reserved, standing.resets_at, 'users' AS "table", u.id,
           NULL::text AS platform, NULL::text AS server
    FROM public.users AS u JOIN admin.users AS person USING (id) CROSS JOIN LATERAL public.parley_budget(
        u.token_budget_monthly, u.budget_from_roles, u.tokens_used_this_month, u.tokens_reserved, u.budget_reset_at
    ) AS standing CROSS JOIN LATERAL public.parley_granted(u.id, NULL, NULL) AS granted
    WHERE u.token_budget_monthly IS NOT NULL
    UNION ALL
    SELECT 'server', coalesce(s.name, s.platform || ':' || s.platform_server_id), '30 days', 'tokens', standing.budget,
           granted.tokens, standing.used, standing.reserved, standing.resets_at, 'servers', s.id, s.platform,
           s.platform_server_id
    FROM public.servers AS s CROSS JOIN LATERAL public.parley_budget(
        s.token_budget_monthly, NULL, s.tokens_used_this_month, s.tokens_reserved, s.budget_reset_at
    ) AS standing CROSS JOIN LATERAL public.parley_granted(NULL, s.id, NULL) AS granted
    WHERE s.token_budget_monthly IS NOT NULL
    UNION ALL
    SELECT b.kind, coalesce(
               person.name, persona.name, b.permission_level,
               concat_ws(':', b.platform, coalesce(server.name, b.platform_server_id), b.role, b.platform_channel_id)
           ), b.period, one.unit, one.allowed, one.granted, one.used, one.reserved, p.resets_at, 'budgets', b.id,
           server.platform, server.platform_server_id
    FROM public.budgets AS b CROSS JOIN LATERAL public.parley_limit_period(b.period, b.resets_at) AS p
    CROSS JOIN LATERAL public.parley_granted(NULL, NULL, b.id) AS granted
    CROSS JOIN LATERAL (VALUES
        ('tokens', b.token_limit, granted.tokens, CASE WHEN p.is_over THEN 0 ELSE b.tokens_used END, b.tokens_reserved),
        ('dollars', b.cost_limit, granted.cost, CASE WHEN p.is_over THEN 0 ELSE b.cost_used END, b.cost_reserved)
    ) AS one (unit, allowed, granted, used, reserved)
    LEFT JOIN admin.users AS person ON person.id = b.user_id
    LEFT JOIN public.personas AS persona ON persona.id = b.persona_id
    LEFT JOIN public.servers AS server ON server.platform = b.platform AND server.platform_server_id = b.platform_server_id
    WHERE one.allowed IS NOT NULL
)
SELECT kind, name, period, unit, allowed, granted, used, reserved, greatest(0, allowed + granted - used - reserved) AS "left",
       resets_at, "table", id, platform, server
FROM limits ORDER BY used / nullif(allowed + granted, 0) DESC NULLS LAST;
COMMENT ON VIEW admin.budgets IS
    'Every limit: allowed, granted on top, used, reserved by running calls, left, and when it begins again; the fullest first.';

CREATE VIEW admin.cells AS
SELECT moved.platform, moved.platform_server_id AS server, coalesce(server.name, moved.platform_server_id) AS server_name, moved.state,
       moved.other_cell, moved.changed_at AS since
FROM public.cell_servers AS moved LEFT JOIN public.servers AS server USING (platform, platform_server_id)
ORDER BY moved.changed_at DESC;
COMMENT ON VIEW admin.cells IS
    'Servers that have come to this cell from another one or gone there: arriving, here, leaving, moved. Without a row a server '
    'lives in the first cell.';

CREATE VIEW admin.audit AS
SELECT entry.id, entry.created_at AS at, coalesce(entry.actor, entry.database_user) AS who, entry.action,
       entry.table_name AS "table", entry.row_id, entry.old_values AS before, entry.new_values AS after, entry.undoes,
       (SELECT min(later.id) FROM public.audit_log AS later WHERE later.undoes = entry.id) AS undone_by, named.name
FROM public.audit_log AS entry
CROSS JOIN LATERAL (
    SELECT CASE WHEN entry.table_name IN ('users', 'memories') THEN (SELECT person.name FROM admin.users AS person WHERE person.id = entry.row_id)
        ELSE (
            SELECT coalesce(
                logged ->> 'name', logged ->> 'model', logged ->> 'platform_server_id', logged ->> 'platform_channel_id', logged ->> 'role'
            )
            FROM public.audit_log AS other CROSS JOIN LATERAL coalesce(other.new_values, other.old_values) AS logged
            WHERE other.table_name = entry.table_name AND other.row_id = entry.row_id
              AND logged ?| '{name,model,platform_server_id,platform_channel_id,role}'
            ORDER BY other.id DESC LIMIT 1
        ) END AS name
) AS named
ORDER BY entry.id DESC;
COMMENT ON VIEW admin.audit IS 'What was changed, by whom, or whose memories were read, newest first; SELECT admin.undo(id) takes a change back.';

CREATE TRIGGER change_user INSTEAD OF UPDATE ON admin.users FOR EACH ROW EXECUTE FUNCTION admin.change_user();
-- Triggers of one time fire in the order of their names.
CREATE TRIGGER name_permission BEFORE UPDATE OF permission ON admin.users
    FOR EACH STATEMENT EXECUTE FUNCTION admin.name_permission('yes');
CREATE TRIGGER name_permission_until BEFORE UPDATE OF permission_until ON admin.users
    FOR EACH STATEMENT EXECUTE FUNCTION admin.name_permission('');
CREATE TRIGGER named_permission AFTER UPDATE ON admin.users
    FOR EACH STATEMENT EXECUTE FUNCTION admin.name_permission('');
CREATE TRIGGER change_persona INSTEAD OF UPDATE ON admin.personas FOR EACH ROW EXECUTE FUNCTION admin.change_persona();

GRANT SELECT ON ALL TABLES IN SCHEMA admin TO parley_app;
-- It counts memories whoever's they are, which the program may not.
REVOKE SELECT ON admin.memories_by_user FROM parley_app;
GRANT UPDATE ON admin.users, admin.personas TO parley_admin;
