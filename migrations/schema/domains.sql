-- The types of columns that nearly every turn writes, with the rules of their values. A session reads such a rule once; a CHECK of
-- a table is read anew by each statement that writes there, also where the column stays as it is.

CREATE DOMAIN permission_level AS text CONSTRAINT permission_level_is_guest_user_admin_or_owner
    CHECK (value IN ('guest', 'user', 'admin', 'owner'));
CREATE DOMAIN week_start AS text CONSTRAINT week_start_is_monday_saturday_or_sunday
    CHECK (value IN ('monday', 'saturday', 'sunday'));
CREATE DOMAIN token_total AS bigint CONSTRAINT token_total_is_not_negative CHECK (value >= 0);
CREATE DOMAIN token_count AS integer CONSTRAINT token_count_is_not_negative CHECK (value >= 0);

CREATE DOMAIN turn_status AS text CONSTRAINT turn_status_is_running_answered_refused_failed_or_cancelled
    CHECK (value IN ('running', 'answered', 'refused', 'failed', 'cancelled'));
CREATE DOMAIN loop_mode AS text CONSTRAINT loop_mode_is_native_or_planner CHECK (value IN ('native', 'planner'));
CREATE DOMAIN step_role AS text CONSTRAINT step_role_is_user_assistant_tool_call_or_tool_result
    CHECK (value IN ('user', 'assistant', 'tool_call', 'tool_result'));
CREATE DOMAIN tool_outcome AS text CONSTRAINT tool_outcome_is_known
    CHECK (value IN ('result', 'failed', 'not_run', 'needs_approval'));

CREATE DOMAIN inbox_status AS text CONSTRAINT inbox_status_is_waiting_claimed_answered_failed_or_cancelled
    CHECK (value IN ('waiting', 'claimed', 'answered', 'failed', 'cancelled'));
CREATE DOMAIN outbox_status AS text CONSTRAINT outbox_status_is_noted_pending_claimed_delivered_or_failed
    CHECK (value IN ('noted', 'pending', 'claimed', 'delivered', 'failed'));
-- What a worker cannot read would fail the messages that wait beside it.
CREATE DOMAIN jsonb_object AS jsonb CONSTRAINT jsonb_object_is_an_object CHECK (jsonb_typeof(value) = 'object');
CREATE DOMAIN jsonb_objects AS jsonb CONSTRAINT jsonb_objects_is_an_array_of_objects
    CHECK (jsonb_typeof(value) = 'array' AND NOT jsonb_path_exists(value, '$[*] ? (@.type() != "object")'));
