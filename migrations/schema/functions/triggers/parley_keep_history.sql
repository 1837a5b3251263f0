-- Trigger: a person or a persona with a history is not deleted by the way. Whoever means it says so in the transaction:
-- SET LOCAL parley.delete_history = 'yes'. An erasure that was asked for is such a word.
-- Runs with the rights of its owner, because memories are hidden from the program.
CREATE FUNCTION public.parley_keep_history() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('parley.delete_history', true) = 'yes' THEN
        RETURN OLD;
    END IF;
    IF TG_TABLE_NAME = 'personas' THEN
        IF EXISTS (SELECT FROM public.turns WHERE persona_id = OLD.id) THEN
            RAISE EXCEPTION 'the persona "%" has answered turns, which would no longer say who answered', OLD.name
                USING HINT = 'To delete it all the same: SET LOCAL parley.delete_history = ''yes'' in the same transaction.';
        END IF;
    ELSIF NOT EXISTS (SELECT FROM public.erasures WHERE user_id = OLD.id AND finished_at IS NULL) AND (
        EXISTS (SELECT FROM public.turns WHERE user_id = OLD.id)
        OR EXISTS (SELECT FROM public.memories WHERE user_id = OLD.id)
        OR EXISTS (SELECT FROM public.file_records WHERE user_id = OLD.id)
    ) THEN
        RAISE EXCEPTION 'user % has a history: turns, memories or files', OLD.id
            USING HINT = 'SELECT admin.erase_user(''PLATFORM'', ''ACCOUNT'') erases all of it, files in the storage too.';
    END IF;
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION public.parley_keep_history IS 'Trigger: refuses to delete a person or a persona with a history by the way.';
