CREATE FUNCTION public.parley_drop_requests() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Whatever ends the message's turn (an answer, a stop, a failure), what its request brought ends with it: the history
-- that a program sends may be anybody's, and the next request brings it again.
BEGIN
    NEW.request := NULL;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_drop_requests IS
    'Removes what a program''s request brought beside its message, once the message is not open any more.';
