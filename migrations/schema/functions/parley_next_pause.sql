-- When a worker looks again whether a conversation has paused. It stays due when a turn is running, or is just about to begin:
-- that one has set `last_active_at`.
CREATE FUNCTION public.parley_next_pause(p_last_active_at timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE
BEGIN ATOMIC
    SELECT greatest(p_last_active_at + interval '30 minutes', now() + interval '1 minute');
END;
COMMENT ON FUNCTION public.parley_next_pause IS 'When a worker looks again whether a conversation has paused.';
