CREATE FUNCTION admin.set_channel_mode(
    platform text, server text, channel text, mode text, thread_per_question boolean DEFAULT false,
    answers_others boolean DEFAULT false
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    v_place text := CASE WHEN channel IS NULL THEN format('all channels of %s', server) ELSE format('the channel %s', channel) END;
BEGIN
    IF platform IS NULL OR num_nonnulls(server, channel) = 0 THEN
        RAISE EXCEPTION 'a place is a platform with a server, a channel, or both';
    ELSIF mode IS NOT NULL AND mode NOT IN ('mention', 'always', 'off') THEN
        RAISE EXCEPTION 'there is no mode %; there are: mention, always, off, and NULL for none of its own', quote_literal(mode);
    END IF;
    IF mode IS NULL THEN
        DELETE FROM public.channel_modes AS here
        WHERE here.platform = platform AND here.platform_server_id IS NOT DISTINCT FROM server
          AND here.platform_channel_id IS NOT DISTINCT FROM channel;
        RETURN format('%s has no mode of its own any more', v_place);
    END IF;
    INSERT INTO public.channel_modes (
        platform, platform_server_id, platform_channel_id, mode, thread_per_question, answers_others
    )
    VALUES (platform, server, channel, mode, thread_per_question, answers_others)
    ON CONFLICT ON CONSTRAINT uq_channel_modes_place DO UPDATE SET mode = excluded.mode,
        thread_per_question = excluded.thread_per_question, answers_others = excluded.answers_others;
    RETURN format('in %s it answers %s', v_place, CASE mode
        WHEN 'mention' THEN 'when it is called' WHEN 'always' THEN 'every message' ELSE 'never' END);
END
$$;
COMMENT ON FUNCTION admin.set_channel_mode IS
    'Where it answers: mention, always, off, NULL = as around it; channel NULL = the server: admin.set_channel_mode(''discord'', ''4711'', NULL, ''off'').';
