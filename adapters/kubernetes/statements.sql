-- name: name_actor
SELECT set_config('parley.actor', :actor, true);

-- name: list_modules
-- A row of one that is on, for whom its tools say, is as if it were none.
SELECT module.id, module.name, module.required_permission AS permission, module.is_enabled AS enabled, NULL AS secretless,
       false AS is_hidden, entry.id AS version, entry.who, entry.at
FROM modules AS module
LEFT JOIN LATERAL (
    SELECT log.id, coalesce(log.actor, log.database_user) AS who, log.created_at AS at FROM audit_log AS log
    WHERE log.table_name = 'modules' AND log.row_id = module.id ORDER BY log.id DESC LIMIT 1
) AS entry ON true
WHERE NOT module.is_enabled OR module.required_permission <> 'guest'
ORDER BY module.name;

-- name: list_mcp_servers
-- `secretless` is what an export writes instead of columns that may hold a secret.
SELECT server.id, server.name, server.command, server.args, server.env, server.url, server.headers,
       server.required_permission AS permission, server.read_only_tools, server.tells_nobody_tools, server.reads_untrusted,
       server.reads_private, server.timeout_seconds, server.tells_user, server.enabled,
       parley_without_secrets(
           jsonb_build_object('args', server.args, 'env', server.env, 'url', server.url, 'headers', server.headers),
           '{mcp_servers}'
       ) AS secretless,
       false AS is_hidden, entry.id AS version, entry.who, entry.at
FROM mcp_servers AS server
LEFT JOIN LATERAL (
    SELECT log.id, coalesce(log.actor, log.database_user) AS who, log.created_at AS at FROM audit_log AS log
    WHERE log.table_name = 'mcp_servers' AND log.row_id = server.id ORDER BY log.id DESC LIMIT 1
) AS entry ON true
ORDER BY server.name;

-- name: list_personas
-- Hidden is the persona that an agent says all of.
SELECT persona.id, persona.name, persona.system_prompt AS instructions, persona.default_model AS model,
       persona.allowed_modules AS tools, persona.max_iterations AS steps, persona.skills, persona.platform,
       persona.platform_server_id AS server, persona.platform_channel_id AS channel, persona.is_default AS is_default,
       persona.max_tokens_per_request AS max_tokens, persona.max_temperature, persona.loop_mode, persona.allow_mentions,
       persona.suggestions, persona.open_to,
       NULL AS secretless,
       EXISTS (
           SELECT FROM admin.agents AS agent WHERE agent.persona_id = persona.id AND agent.has_own_persona
       ) AS is_hidden,
       entry.id AS version, entry.who, entry.at
FROM personas AS persona
LEFT JOIN LATERAL (
    SELECT log.id, coalesce(log.actor, log.database_user) AS who, log.created_at AS at FROM audit_log AS log
    WHERE log.table_name = 'personas' AND log.row_id = persona.id ORDER BY log.id DESC LIMIT 1
) AS entry ON true
ORDER BY persona.name;

-- name: list_agents
-- The last change of an agent with a persona of its own may be one of that.
SELECT agent.id, agent.name, agent.description, agent.required_permission AS permission, agent.url, agent.headers,
       agent.peers, CASE WHEN agent.env <> '{}' THEN jsonb_build_object('env', agent.env) END AS config,
       agent.is_enabled AS enabled, CASE WHEN NOT own.has_own_persona THEN persona.name END AS persona,
       CASE WHEN own.has_own_persona THEN persona.system_prompt END AS instructions,
       CASE WHEN own.has_own_persona THEN persona.default_model END AS model,
       CASE WHEN own.has_own_persona THEN persona.allowed_modules END AS tools,
       CASE WHEN own.has_own_persona THEN persona.max_iterations END AS steps,
       parley_without_secrets(jsonb_build_object('url', agent.url, 'headers', agent.headers), '{agents}') AS secretless,
       false AS is_hidden, entry.id AS version, entry.who, entry.at
FROM agents AS agent
JOIN admin.agents AS own ON own.id = agent.id
LEFT JOIN personas AS persona ON persona.id = agent.persona_id
LEFT JOIN LATERAL (
    SELECT log.id, coalesce(log.actor, log.database_user) AS who, log.created_at AS at FROM audit_log AS log
    WHERE log.table_name = 'agents' AND log.row_id = agent.id
          OR own.has_own_persona AND log.table_name = 'personas' AND log.row_id = persona.id
    ORDER BY log.id DESC LIMIT 1
) AS entry ON true
ORDER BY agent.name;

-- name: list_budgets
-- A limit of a person with several accounts is found by each of them; it is written with the oldest. What people set for
-- themselves is theirs alone.
SELECT budget.id, budget.kind, budget.period, budget.token_limit AS tokens,
       CAST(budget.cost_limit AS double precision) AS dollars, coalesce(budget.platform, link.platform) AS platform,
       link.platform_user_id AS account, budget.platform_server_id AS server, budget.platform_channel_id AS channel,
       budget.role, persona.name AS persona, budget.permission_level AS permission, NULL AS secretless,
       link.id <> min(link.id) OVER (PARTITION BY budget.id) AS is_hidden, entry.id AS version, entry.who, entry.at
FROM budgets AS budget
LEFT JOIN personas AS persona ON persona.id = budget.persona_id
LEFT JOIN user_platform_links AS link ON link.user_id = budget.user_id
LEFT JOIN LATERAL (
    SELECT log.id, coalesce(log.actor, log.database_user) AS who, log.created_at AS at FROM audit_log AS log
    WHERE log.table_name = 'budgets' AND log.row_id = budget.id ORDER BY log.id DESC LIMIT 1
) AS entry ON true
WHERE budget.kind <> 'own'
ORDER BY budget.kind, budget.period, budget.platform, budget.platform_server_id, budget.platform_channel_id, budget.role,
         persona.name, budget.permission_level, link.id;

-- name: define_module
SELECT admin.set_module(:name, :enabled, :permission);

-- name: define_mcp_server
SELECT admin.define_mcp_server(
    :name, command => :command, args => :args, env => CAST(:env AS jsonb), url => :url, headers => CAST(:headers AS jsonb),
    permission => :permission, read_only_tools => :read_only_tools, tells_nobody_tools => :tells_nobody_tools,
    reads_untrusted => :reads_untrusted, reads_private => :reads_private, timeout_seconds => :timeout_seconds,
    tells_user => :tells_user, is_enabled => :enabled
);

-- name: define_persona
SELECT admin.define_persona(
    :name, :instructions, platform => :platform, server => :server, channel => :channel, modules => :tools,
    skills => :skills, model => :model, max_tokens => :max_tokens, max_temperature => :max_temperature,
    max_iterations => :steps, loop_mode => :loop_mode, allow_mentions => :allow_mentions, is_default => :is_default,
    suggestions => :suggestions, open_to => :open_to
);

-- name: define_agent
SELECT admin.define_agent(
    :name, :description, instructions => :instructions, model => :model, tools => :tools, steps => :steps,
    persona => :persona, url => :url, headers => CAST(:headers AS jsonb), permission => :permission, peers => :peers,
    env => CAST(:env AS jsonb), is_enabled => :enabled
);

-- name: define_budget
SELECT admin.set_limit(
    :kind, tokens => :tokens, dollars => :dollars, period => :period, platform => :platform, account => :account,
    server => :server, channel => :channel, role => :role, persona => :persona, permission => :permission
);

-- name: delete_module
SELECT admin.set_module(:name, true, 'guest');

-- name: delete_mcp_server
SELECT admin.delete_mcp_server(:name);

-- name: delete_persona
SELECT admin.delete_persona(:name);

-- name: delete_agent
SELECT admin.delete_agent(:name);

-- name: delete_budget
SELECT admin.set_limit(
    :kind, period => :period, platform => :platform, account => :account, server => :server, channel => :channel,
    role => :role, persona => :persona, permission => :permission
);
