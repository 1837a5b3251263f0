-- Pauses or resumes what is remembered of the conversation of a place. Returns how many there are: one, or none.
CREATE FUNCTION public.parley_pause_memory_here(
    p_platform text, p_server text, p_channel text, p_thread text, p_is_paused boolean
) RETURNS bigint
LANGUAGE sql
BEGIN ATOMIC
    WITH paused AS (
        UPDATE public.conversations SET is_memory_paused = p_is_paused
        WHERE platform = p_platform AND platform_channel_id = p_channel
          AND platform_server_id IS NOT DISTINCT FROM p_server AND platform_thread_id IS NOT DISTINCT FROM p_thread
        RETURNING id
    )
    SELECT count(*) FROM paused;
END;
COMMENT ON FUNCTION public.parley_pause_memory_here IS 'Pauses or resumes what is remembered of the conversation of a place.';
