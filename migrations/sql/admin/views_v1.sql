-- What admins look at: names instead of numbers, links resolved. Read-only; change the tables, or call the functions.
-- They show what the role that asks may see: row-level security holds for them, too.

CREATE VIEW admin.users WITH (security_invoker = true) AS
SELECT u.id, coalesce(u.display_name, account.name, 'user ' || u.id) AS name, u.permission_level AS permission,
       standing.budget, standing.used, standing.reserved, standing.resets_at AS renews_at, account.accounts,
       u.time_zone, u.is_memory_paused, u.created_at
FROM public.users AS u
CROSS JOIN LATERAL public.parley_budget_v1(
    u.token_budget_monthly, u.budget_from_roles, u.tokens_used_this_month, u.tokens_reserved, u.budget_reset_at
) AS standing
LEFT JOIN LATERAL (
    SELECT string_agg(link.platform || ':' || link.platform_user_id, ', ' ORDER BY link.id) AS accounts,
           (array_agg(link.platform_username ORDER BY link.id) FILTER (WHERE link.platform_username IS NOT NULL))[1] AS name
    FROM public.user_platform_links AS link WHERE link.user_id = u.id
) AS account ON true;
COMMENT ON VIEW admin.users IS 'People: name, permission, budget as the program computes it (NULL = unlimited), accounts.';

CREATE VIEW admin.spend WITH (security_invoker = true) AS
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

CREATE VIEW admin.spend_by_user WITH (security_invoker = true) AS
SELECT name, user_id, count(*) AS calls, sum(tokens) AS tokens, sum(cached_tokens) AS cached, sum(dollars) AS dollars,
       count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend WHERE created_at > now() - interval '30 days' GROUP BY name, user_id ORDER BY tokens DESC;
COMMENT ON VIEW admin.spend_by_user IS 'Who spent what in the last 30 days; an unknown price is not counted as 0.';

CREATE VIEW admin.spend_by_server WITH (security_invoker = true) AS
SELECT platform, server, server_name, count(DISTINCT user_id) AS people, count(*) AS calls, sum(tokens) AS tokens,
       sum(dollars) AS dollars, count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend WHERE created_at > now() - interval '30 days' AND server IS NOT NULL
GROUP BY platform, server, server_name ORDER BY tokens DESC;
COMMENT ON VIEW admin.spend_by_server IS 'What each server or workspace spent in the last 30 days.';

CREATE VIEW admin.spend_by_model WITH (security_invoker = true) AS
SELECT model, purpose, count(*) AS calls, sum(tokens) AS tokens, sum(cached_tokens) AS cached, sum(dollars) AS dollars,
       count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend WHERE created_at > now() - interval '30 days' GROUP BY model, purpose ORDER BY tokens DESC;
COMMENT ON VIEW admin.spend_by_model IS 'What each model cost in the last 30 days, and for what.';

CREATE VIEW admin.spend_by_day WITH (security_invoker = true) AS
SELECT date_trunc('day', created_at)::date AS day, count(DISTINCT user_id) AS people, count(*) AS calls, sum(tokens) AS tokens,
       sum(dollars) AS dollars, count(*) FILTER (WHERE dollars IS NULL) AS calls_of_unknown_price
FROM admin.spend GROUP BY 1 ORDER BY 1 DESC;
COMMENT ON VIEW admin.spend_by_day IS 'What each day cost, as far as the ledger is kept.';

CREATE VIEW admin.personas WITH (security_invoker = true) AS
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
COMMENT ON VIEW admin.personas IS 'Personas and where they answer; modules NULL = all that the permission allows.';

CREATE VIEW admin.turns WITH (security_invoker = true) AS
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

CREATE VIEW admin.stuck WITH (security_invoker = true) AS
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

CREATE VIEW admin.memories_by_user WITH (security_invoker = true) AS
SELECT person.name, memory.user_id, memory.source, memory.scope, count(*) AS memories, max(memory.said_at) AS newest
FROM public.memories AS memory LEFT JOIN admin.users AS person ON person.id = memory.user_id
GROUP BY person.name, memory.user_id, memory.source, memory.scope ORDER BY memories DESC;
COMMENT ON VIEW admin.memories_by_user IS 'How much is remembered about whom: by source (turn, fact, remembered) and scope.';

CREATE VIEW admin.grants WITH (security_invoker = true) AS
SELECT person.name, person.permission AS permission, 'person' AS by, NULL::text AS server, NULL::text AS role, person.budget
FROM admin.users AS person WHERE person.permission <> 'guest'
UNION ALL
SELECT NULL, roles.permission_level, 'role', coalesce(server.name, roles.server), roles.role, roles.token_budget
FROM public.role_grants AS roles
LEFT JOIN public.servers AS server ON server.platform = roles.platform AND server.platform_server_id = roles.server;
COMMENT ON VIEW admin.grants IS 'Who may more than a guest: people, and the roles of servers.';

CREATE VIEW admin.audit WITH (security_invoker = true) AS
SELECT entry.id, entry.created_at AS at, coalesce(entry.actor, entry.database_user) AS who, entry.action,
       entry.table_name AS "table", entry.row_id, entry.old_values AS before, entry.new_values AS after, entry.undoes,
       (SELECT min(later.id) FROM public.audit_log AS later WHERE later.undoes = entry.id) AS undone_by, named.name
FROM public.audit_log AS entry
CROSS JOIN LATERAL (
    SELECT CASE entry.table_name WHEN 'users' THEN (SELECT person.name FROM admin.users AS person WHERE person.id = entry.row_id)
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
COMMENT ON VIEW admin.audit IS 'What was changed, by whom, newest first; SELECT admin.undo(id) takes it back.';
