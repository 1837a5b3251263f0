CREATE FUNCTION public.parley_drop_given() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Whatever ends the message's turn (an answer, a stop, a failure), its credentials end with it, and so does what its request
-- brought: the history that a program sends may be anybody's, and the next request brings it again.
BEGIN
    NEW.credentials := NULL;
    NEW.request := NULL;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_drop_given IS
    'Removes the credentials and the request that a program gave with a message, once the message is not open any more.';
