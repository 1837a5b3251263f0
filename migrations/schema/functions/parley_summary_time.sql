-- When a conversation is looked at again for its summary: half an hour after the last thing was said. It stays due while
-- a turn is running, or is just about to begin: that one has set `last_active_at`.
CREATE FUNCTION public.parley_summary_time(p_last_active_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
    SELECT greatest(p_last_active_at + interval '30 minutes', now() + interval '1 minute')
$$;
COMMENT ON FUNCTION public.parley_summary_time IS
    'When a conversation is looked at again for its summary: 30 minutes after the last thing was said.';
