-- Trigger: a turn has an id that its sequence has given out, whoever writes the row. Partitions are made ahead of the last
-- one: behind a row of a number that is still to come, or of one at the end of all numbers, no more could be made.
--
-- The error is one that passes by itself: a sequence goes back by a few when its server crashes, and a worker that had
-- drawn one of these draws another.
CREATE FUNCTION public.parley_keep_turn_ids() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'turn % has an id that was not given out; ids of turns come from their sequence alone', NEW.id
        USING ERRCODE = 'serialization_failure';
END
$$;
COMMENT ON FUNCTION public.parley_keep_turn_ids IS 'Trigger: refuses ids of turns that their sequence has not given out.';
