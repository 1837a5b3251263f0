-- What admins may write beside docs/admin-sql.md, by what it does; run by tests/test_admin_sql.py.

-- Lift the limit
UPDATE users SET token_budget_monthly = NULL
WHERE id = (SELECT user_id FROM user_platform_links WHERE platform = 'discord' AND platform_user_id = '80351110224678912');

-- Stop somebody from spending
UPDATE users SET token_budget_monthly = 0
WHERE id = (SELECT user_id FROM user_platform_links WHERE platform = 'discord' AND platform_user_id = '80351110224678912');

-- Begin somebody's period anew
UPDATE users SET tokens_used_this_month = 0, budget_reset_at = now() + interval '30 days'
WHERE id = (SELECT user_id FROM user_platform_links WHERE platform = 'discord' AND platform_user_id = '80351110224678912');

-- Set the budget of all guests
UPDATE users SET token_budget_monthly = 2000 WHERE permission_level = 'guest';

-- Demote somebody
UPDATE users SET permission_level = 'user', token_budget_monthly = 20000
WHERE id = (SELECT user_id FROM user_platform_links WHERE platform = 'discord' AND platform_user_id = '80351110224678912');

-- Make two accounts one user
UPDATE user_platform_links
SET user_id = (SELECT user_id FROM user_platform_links WHERE platform = 'discord' AND platform_user_id = '80351110224678912')
WHERE platform = 'slack' AND platform_user_id = 'U024BE7LH';

-- Add a persona for a channel
INSERT INTO personas (name, system_prompt, platform, platform_server_id, platform_channel_id)
VALUES ('Referee', 'You know the rules of chess and answer with the rule''s number.',
        'discord', '81384788765712384', '381870553235193857');

-- Add a persona for a platform
INSERT INTO personas (name, system_prompt, platform)
VALUES ('Colleague', 'You work here. Answer in short paragraphs.', 'slack');

-- Change the instructions
UPDATE personas SET system_prompt = 'You are the librarian. Answer in two sentences.' WHERE name = 'Librarian';

-- Allow every module again
UPDATE personas SET allowed_modules = NULL WHERE name = 'Librarian';

-- Let a persona plan
UPDATE personas SET loop_mode = 'planner' WHERE name = 'Librarian';

-- Leave the mode to the setting
UPDATE personas SET loop_mode = NULL WHERE name = 'Librarian';

-- Move a persona to another place
UPDATE personas SET platform = 'web', platform_server_id = NULL, platform_channel_id = NULL WHERE name = 'Referee';

-- Remove a persona
BEGIN;
SET LOCAL parley.delete_history = 'yes';
DELETE FROM personas WHERE name = 'Referee';
COMMIT;

-- Choose who may use an agent
UPDATE agents SET required_permission = 'admin' WHERE name = 'archivist';

-- Let a persona with a list of modules use agents
UPDATE personas SET allowed_modules = allowed_modules || '["agents"]'
WHERE name = 'Librarian' AND NOT allowed_modules ? 'agents';

-- Limit what a server spends
INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES ('discord', '81384788765712384', 2000000)
ON CONFLICT (platform, platform_server_id) DO UPDATE SET token_budget_monthly = excluded.token_budget_monthly;

-- Let Parley remember something about somebody
INSERT INTO memories (user_id, content)
SELECT user_id, 'Ada is allergic to peanuts.' FROM user_platform_links
WHERE platform = 'discord' AND platform_user_id = '80351110224678912';

-- Add an agent of another installation
INSERT INTO agents (name, description, url, headers, required_permission)
VALUES ('travel-desk', 'Books trains and hotels.', 'https://travel.example.org/a2a',
        '{"Authorization": "Bearer ${A2A_FAR_TOKEN}"}', 'user');

-- Switch the default persona
INSERT INTO personas (name, system_prompt) VALUES ('Host', 'You are a cheerful host.');
SELECT admin.set_default_persona('Host');

-- Check the limits against the ledger
SELECT * FROM parley_budget_differences();
SELECT * FROM parley_reconcile();

-- Send failed replies again
SELECT id, adapter, platform_channel_id, attempts, error FROM outbox WHERE status = 'failed' ORDER BY id DESC;
SELECT admin.retry_replies();

-- Discord: 1
INSERT INTO channel_modes (platform_channel_id, mode) VALUES ('381870553235193857', 'always');
INSERT INTO channel_modes (platform_server_id, mode) VALUES ('81384788765712384', 'off');
INSERT INTO channel_modes (platform_channel_id, thread_per_question) VALUES ('381870553235193858', true);

-- Discord: 2
UPDATE channel_modes SET answers_others = true WHERE platform_channel_id = '381870553235193857';

-- Discord: 3
INSERT INTO role_grants (server, role, permission_level, token_budget)
VALUES ('81384788765712384', '41771983423143936', 'user', 200000);
INSERT INTO servers (platform_server_id, token_budget_monthly) VALUES ('81384788765712384', 5000000)
ON CONFLICT (platform, platform_server_id) DO UPDATE SET token_budget_monthly = excluded.token_budget_monthly;

-- Slack: 1
INSERT INTO channel_modes (platform, platform_channel_id, mode) VALUES ('slack', 'C024BE91L', 'always');

-- Slack: 2
INSERT INTO role_grants (platform, server, role, permission_level, token_budget)
VALUES ('slack', 'T024BE7LD', 'S0614TZR7', 'user', 200000);
INSERT INTO servers (platform, platform_server_id, token_budget_monthly) VALUES ('slack', 'T024BE7LD', 5000000)
ON CONFLICT (platform, platform_server_id) DO UPDATE SET token_budget_monthly = excluded.token_budget_monthly;
