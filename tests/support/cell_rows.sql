-- A row in each table that goes with the server `guild` of the platform `test` and that a turn does not write by itself.
INSERT INTO servers (platform, platform_server_id, name, token_budget_monthly) VALUES ('test', 'guild', 'The guild', 900000)
ON CONFLICT (platform, platform_server_id) DO UPDATE SET token_budget_monthly = 900000;
INSERT INTO channel_modes (platform, platform_server_id, platform_channel_id, mode) VALUES ('test', 'guild', 'loud', 'always');
INSERT INTO role_grants (platform, server, role, permission_level) VALUES ('test', 'guild', 'mods', 'admin');
INSERT INTO member_roles (platform, platform_user_id, server, user_id, roles)
SELECT 'test', 'ann', 'guild', user_id, '["mods"]' FROM user_platform_links WHERE platform_user_id = 'ann';
INSERT INTO memory_retention (platform, platform_server_id, kind, kept_days) VALUES ('test', 'guild', 'turn', 90);
INSERT INTO pictures (content) VALUES ('\x89504e470d0a1a0a');
INSERT INTO personas (name, system_prompt, platform, platform_server_id, picture)
SELECT 'Guide', 'You guide.', 'test', 'guild', sha256 FROM pictures;
INSERT INTO personas (name, system_prompt) VALUES ('Elsewhere', 'You are elsewhere.');
INSERT INTO budgets (kind, platform, platform_server_id, platform_channel_id, token_limit)
VALUES ('channel', 'test', 'guild', 'loud', 5000);
INSERT INTO budgets (kind, persona_id, token_limit) SELECT 'persona', id, 7000 FROM personas WHERE name = 'Guide';
INSERT INTO budget_grants (limit_server_id, status, tokens, ends_at, asked_by_id)
SELECT servers.id, 'granted', 10, now() + interval '9 days', link.user_id FROM servers, user_platform_links AS link;
INSERT INTO budget_notices (limit_server_id, percent) SELECT id, 50 FROM servers;
CREATE TEMP TABLE newest AS SELECT turns.* FROM turns JOIN conversations ON conversations.id = conversation_id
WHERE platform_server_id = 'guild' ORDER BY turns.id DESC LIMIT 1;
UPDATE turns SET persona_id = personas.id FROM personas WHERE personas.name = 'Elsewhere' AND turns.id IN (SELECT id FROM newest);
INSERT INTO summaries (conversation_id, last_turn_id, content) SELECT conversation_id, id, 'They greeted.' FROM newest;
INSERT INTO full_results (turn_id, seq, content) SELECT id, 1, '{"long": true}' FROM newest;
INSERT INTO forgotten_turns (turn_id) SELECT id FROM newest;
INSERT INTO confirmations (user_id, conversation_id, turn_id, call_id, tool, arguments, arguments_hash, question, reason)
SELECT user_id, conversation_id, id, 'call', 'a.b', '{}', encode(sha256('{}'), 'hex'), 'Really?', 'tool' FROM newest;
INSERT INTO feedback (turn_id, user_id, score) SELECT id, user_id, 1 FROM newest;
INSERT INTO scheduled_jobs (user_id, conversation_id, adapter, platform_user_id, content, starts_at, next_due_at)
SELECT user_id, conversation_id, 'fake', 'ann', 'the tea', now() + interval '1 day', now() + interval '1 day' FROM newest;
INSERT INTO file_records (user_id, conversation_id, turn_id, filename, minio_key, mime_type, status)
SELECT user_id, conversation_id, id, 'note.txt', 'files/note', 'text/plain', 'stored' FROM newest;
INSERT INTO memories (user_id, scope, platform, platform_server_id, content, source, is_indexed, ordinal, turn_length)
SELECT user_id, 'server', 'test', 'guild', 'Ann likes tea.', 'fact', true, 1, 3 FROM newest;
UPDATE memory_scopes SET memories = 1, words = 3 WHERE scope = 'server';
INSERT INTO memories (user_id, scope, content, source) SELECT user_id, 'private', 'Ann is afraid.', 'remembered' FROM newest;
INSERT INTO memory_words (scope_id, term, ordinal, memory_id, tf, length, said_at)
SELECT scope_id, 'tea', ordinal, id, 1, 3, said_at FROM memories WHERE content = 'Ann likes tea.';
INSERT INTO embedding_models (model, dimensions) VALUES ('m', 3);
INSERT INTO memory_vectors (memory_id, model, kind, user_id, scope_id, embedding)
SELECT id, 'm', 'turn', user_id, scope_id, '[0.1,0.25,-0.3333]' FROM memories WHERE content = 'Ann likes tea.';
INSERT INTO code_workspaces (user_id, conversation_id, file_ids, state)
SELECT user_id, conversation_id, ARRAY(SELECT id FROM file_records), '\x00ff' FROM newest;
INSERT INTO location_places (user_id, name, latitude, longitude) SELECT user_id, 'home', 1, 2 FROM newest;
INSERT INTO location_reminders (user_id, place_id, conversation_id, adapter, platform_user_id, event, content)
SELECT newest.user_id, location_places.id, conversation_id, 'fake', 'ann', 'enter', 'shoes off' FROM newest, location_places;
DROP TABLE newest;
-- What was remembered before a pause is kept.
UPDATE users SET is_memory_paused = true;
UPDATE conversations SET is_memory_paused = true;
