-- What the database refuses, each with the words of its error below it; run by tests/test_refusals.py.

INSERT INTO personas (name, system_prompt, allowed_modules) VALUES ('One', 'First.', '["knowlege"]');
-- refused: there is no module "knowlege"; do you mean knowledge?

INSERT INTO channel_modes (platform, platform_channel_id, mode) VALUES ('dicsord', '381870553235193857', 'always');
-- refused: there is no platform "dicsord"; do you mean discord?

INSERT INTO personas (name, system_prompt, default_model) VALUES ('One', 'First.', 'gpt-4o-mnii');
-- refused: there is no model "gpt-4o-mnii"; do you mean gpt-4o-mini?

INSERT INTO personas (name, system_prompt) VALUES ('One', ' ');
-- refused: the persona "One" needs instructions: system_prompt is empty

INSERT INTO personas (name, system_prompt, platform, is_default) VALUES ('One', 'First.', 'slack', true);
-- refused: the persona "One" belongs to a place on slack; the default one has no place

UPDATE users SET permission_level = 'owner' WHERE id = (SELECT min(id) FROM users);
UPDATE users SET permission_level = 'admin' WHERE permission_level = 'owner';
-- refused: is the last owner; make somebody else owner first

INSERT INTO memories (user_id, content) SELECT min(id), 'Likes tea.' FROM users;
DELETE FROM users;
-- refused: has a history: turns, memories or files

UPDATE users SET token_budget_monthly = -1;
-- refused: violates check constraint "users_token_budget_monthly_is_not_negative"

UPDATE users SET permission_level = 'boss';
-- refused: violates check constraint "permission_level_is_guest_user_admin_or_owner"

UPDATE users SET time_zone = 'PST';
-- refused: users_time_zone_is_known: there is no time zone "PST"

UPDATE users SET week_start = 'friday';
-- refused: violates check constraint "week_start_is_monday_saturday_or_sunday"

INSERT INTO user_platform_links (user_id, platform, platform_user_id)
SELECT max(id), 'discord', '80351110224678912' FROM users;
-- refused: violates unique constraint "uq_user_platform_links_platform_platform_user_id"

INSERT INTO personas (name, system_prompt, is_default) VALUES ('One', 'First.', true), ('Two', 'Second.', true);
-- refused: violates unique constraint "uq_personas_one_default"

INSERT INTO personas (name, system_prompt, platform, platform_server_id)
VALUES ('One', 'First.', 'discord', '1'), ('Two', 'Second.', 'discord', '1');
-- refused: violates unique constraint "uq_personas_one_per_place"

UPDATE users SET permission_level = 'admin', permission_until = now() + interval '1 day';
-- refused: violates check constraint "users_a_permission_with_an_end_has_one_after_it"

UPDATE users SET permission_until = now() + interval '1 day', permission_after = 'boss';
-- refused: violates check constraint "permission_level_is_guest_user_admin_or_owner"

INSERT INTO personas (name, system_prompt) VALUES ('One', 'First.'), ('One', 'Second.');
-- refused: violates unique constraint "uq_personas_name"

INSERT INTO personas (name, system_prompt) VALUES (' ', 'You have no name.');
-- refused: violates check constraint "personas_name_is_not_empty"

INSERT INTO personas (name, system_prompt, platform_server_id) VALUES ('One', 'First.', '81384788765712384');
-- refused: violates check constraint "personas_server_needs_a_platform"

INSERT INTO personas (name, system_prompt, platform_channel_id) VALUES ('One', 'First.', '381870553235193857');
-- refused: violates check constraint "personas_channel_needs_a_platform"

INSERT INTO personas (name, system_prompt, allowed_modules) VALUES ('One', 'First.', '"knowledge"');
-- refused: violates check constraint "personas_allowed_modules_is_an_array_of_module_names"

INSERT INTO personas (name, system_prompt, allowed_modules) VALUES ('One', 'First.', '["knowledge", 7]');
-- refused: violates check constraint "personas_allowed_modules_is_an_array_of_module_names"

INSERT INTO personas (name, system_prompt, skills) VALUES ('One', 'First.', '"house-rules"');
-- refused: violates check constraint "personas_skills_is_an_array_of_at_most_50_names"

INSERT INTO personas (name, system_prompt, loop_mode) VALUES ('One', 'First.', 'react');
-- refused: violates check constraint "personas_loop_mode_is_native_or_planner"

INSERT INTO personas (name, system_prompt, suggestions) VALUES ('One', 'First.', '"What can you do?"');
-- refused: violates check constraint "personas_suggestions_are_at_most_6_lines_of_1_to_80_characters"

INSERT INTO personas (name, system_prompt, open_to) VALUES ('One', 'First.', 'everyone');
-- refused: violates check constraint "personas_open_to_is_guest_user_admin_or_owner"

SELECT admin.open_model('openai/gpt-5', 'everyone');
-- refused: violates check constraint "open_models_open_to_is_guest_user_admin_or_owner"

INSERT INTO personas (name, system_prompt, max_tokens_per_request) VALUES ('One', 'First.', 0);
-- refused: violates check constraint "personas_max_tokens_per_request_is_positive"

INSERT INTO personas (name, system_prompt, max_temperature) VALUES ('One', 'First.', 3);
-- refused: violates check constraint "personas_max_temperature_is_0_to_2"

INSERT INTO personas (name, system_prompt, max_iterations) VALUES ('One', 'First.', 0);
-- refused: violates check constraint "personas_max_iterations_is_1_to_100"

INSERT INTO agents (name, description) VALUES ('nobody', 'Does nothing.');
-- refused: violates check constraint "agents_either_a_persona_or_a_url"

INSERT INTO agents (name, description, url) VALUES ('The Archivist', 'Finds things.', 'https://far.example.org');
-- refused: violates check constraint "agents_name_is_lower_case_words_joined_by_hyphen_or_underscore"

INSERT INTO agents (name, description, url) VALUES (repeat('a', 41), 'Finds things.', 'https://far.example.org');
-- refused: violates check constraint "agents_name_has_at_most_40_characters"

INSERT INTO agents (name, description, url) VALUES ('far', 'Here.', 'https://a.example.org'), ('far', 'There.', 'https://b.example.org');
-- refused: violates unique constraint "uq_agents_name"

INSERT INTO agents (name, description, url) VALUES ('far', ' ', 'https://far.example.org');
-- refused: violates check constraint "agents_description_is_not_empty"

INSERT INTO agents (name, description, url) VALUES ('far', repeat('well ', 101), 'https://far.example.org');
-- refused: violates check constraint "agents_description_has_at_most_500_characters"

INSERT INTO agents (name, description, url) VALUES ('far', 'Far away.', 'https://ann:secret@far.example.org');
-- refused: violates check constraint "agents_url_begins_with_http_and_holds_no_password"

INSERT INTO agents (name, description, url, headers) VALUES ('far', 'Far away.', 'https://far.example.org', '["Authorization"]');
-- refused: violates check constraint "agents_headers_is_an_object_of_strings"

INSERT INTO personas (name, system_prompt) VALUES ('Clerk', 'You file things.');
INSERT INTO agents (name, description, persona_id, headers)
SELECT 'clerk', 'Files things.', id, '{"Authorization": "Bearer x"}' FROM personas WHERE name = 'Clerk';
-- refused: violates check constraint "agents_headers_need_a_url"

INSERT INTO personas (name, system_prompt) VALUES ('Clerk', 'You file things.');
INSERT INTO agents (name, description, persona_id, peers)
SELECT 'clerk', 'Files things.', id, '"scout"' FROM personas WHERE name = 'Clerk';
-- refused: violates check constraint "agents_peers_is_an_array_of_names"

INSERT INTO personas (name, system_prompt) VALUES ('Clerk', 'You file things.');
INSERT INTO agents (name, description, persona_id, env)
SELECT 'clerk', 'Files things.', id, '{"LLM_MODELS": "large"}' FROM personas WHERE name = 'Clerk';
-- refused: violates check constraint "agents_env_has_only_debug_mock_responses"

INSERT INTO personas (name, system_prompt) VALUES ('Clerk', 'You file things.');
INSERT INTO agents (name, description, persona_id, env)
SELECT 'clerk', 'Files things.', id, '{"DEBUG_MOCK_RESPONSES": "Hello."}' FROM personas WHERE name = 'Clerk';
-- refused: violates check constraint "agents_debug_mock_responses_is_a_json_list_as_text"

INSERT INTO agents (name, description, url, peers) VALUES ('far', 'Far away.', 'https://far.example.org', '["scout"]');
-- refused: violates check constraint "agents_peers_and_env_need_a_persona"

INSERT INTO agents (name, description, url, owns_persona) VALUES ('far', 'Far away.', 'https://far.example.org', true);
-- refused: violates check constraint "agents_an_own_persona_is_named"

INSERT INTO agents (name, description, url, required_permission) VALUES ('far', 'Far away.', 'https://far.example.org', 'boss');
-- refused: violates check constraint "agents_required_permission_is_guest_user_admin_or_owner"
