-- Ends the reservation of a turn whose worker has died: charges the model call that it was made for as an estimate,
-- because the provider may bill it, or gives the tokens back when no request can have been sent: a tool call of the turn
-- is open, or one of its files is still to be fetched. Returns the tokens that were charged, 0 when nothing was.
--
-- A reservation that is younger than an open tool call is the tool's own: it asks a model itself, and its call is charged.
-- A reservation is made in the last statement before the request, and every orderly end of a call settles it. So one that
-- is still held means that the request was sent, or was about to be. Charging and giving back are one statement: whoever
-- comes second finds no reservation. A worker that was only slow and settles the call later replaces the estimate.
--
-- The estimate is the prompt alone. In the middle of a turn it is the last call with its answer and the results since;
-- at its beginning it is what was reserved, without the allowed output. For a tool's call it is what was reserved, because
-- the allowed output is known to the tool alone.
-- p_model: the model that is asked first, for a turn that no model has answered yet.
-- The order of locks is that of parley_charge.
CREATE FUNCTION public.parley_abandon(p_turn_id bigint, p_model text DEFAULT NULL)
RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    v_turn record;
    v_held record;
    v_last_tokens bigint;
    v_tokens bigint := 0;
    v_is_open boolean;
    v_is_of_tool boolean;
    v_calls jsonb := '[]';
BEGIN
    SELECT turns.user_id, turns.conversation_id, turns.persona_id,
           CASE WHEN turns.parent_turn_id IS NULL THEN 'answer' ELSE 'delegation' END AS purpose,
           coalesce(turns.model, p_model, personas.default_model, 'unknown') AS model,
           coalesce(personas.max_tokens_per_request, 2048) AS output_tokens
    INTO v_turn
    FROM public.turns LEFT JOIN public.personas ON personas.id = turns.persona_id
    WHERE turns.id = p_turn_id FOR KEY SHARE OF turns;
    PERFORM public.parley_lock_limits(ARRAY[v_turn.user_id], NULL, NULL);
    SELECT id, tokens, created_at INTO v_held FROM public.budget_reservations WHERE budget_reservations.turn_id = p_turn_id;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT count(*) > 0, coalesce(bool_or(call.created_at < v_held.created_at), false) INTO v_is_open, v_is_of_tool
    FROM public.messages AS call
    WHERE call.turn_id = p_turn_id AND call.role = 'tool_call' AND NOT EXISTS (
        SELECT FROM public.messages AS result
        WHERE result.turn_id = p_turn_id AND result.role = 'tool_result' AND result.tool_call_id = call.tool_call_id
    );
    IF v_is_of_tool THEN
        v_turn.purpose := 'tool';
        v_tokens := least(v_held.tokens, 2147483647);
    ELSIF NOT v_is_open AND NOT EXISTS (
        SELECT FROM public.file_records
        WHERE file_records.turn_id = p_turn_id AND file_records.status = 'pending'
    ) THEN
        SELECT input_tokens + output_tokens + (
            SELECT coalesce(sum(token_count), 0) FROM public.messages
            WHERE messages.turn_id = p_turn_id AND messages.role = 'tool_result' AND messages.seq > (
                SELECT max(answer.seq) FROM public.messages AS answer
                WHERE answer.turn_id = p_turn_id AND answer.role = 'assistant'
            )
        ) INTO v_last_tokens
        FROM public.token_logs WHERE token_logs.turn_id = p_turn_id AND NOT token_logs.is_estimated AND token_logs.purpose <> 'tool'
        ORDER BY token_logs.id DESC LIMIT 1;
        -- The ledger's columns are integers.
        v_tokens := greatest(0, least(coalesce(v_last_tokens, v_held.tokens - v_turn.output_tokens), 2147483647));
    END IF;
    IF v_tokens > 0 THEN
        v_calls := jsonb_build_array(jsonb_build_object(
            'reservation_id', v_held.id, 'purpose', v_turn.purpose, 'model', v_turn.model, 'input_tokens', v_tokens,
            'cached_tokens', 0, 'output_tokens', 0, 'cost', NULL, 'is_estimated', true
        ));
    END IF;
    PERFORM public.parley_charge(
        ROW(v_turn.user_id, v_turn.conversation_id, v_turn.persona_id, p_turn_id, false), v_calls
    );
    RETURN v_tokens;
END
$$;
COMMENT ON FUNCTION public.parley_abandon IS
    'Ends the reservation of a turn whose worker died: charges its call as an estimate, or gives it back if none was sent.';
