CREATE FUNCTION public.parley_drop_given_credentials() RETURNS trigger
LANGUAGE plpgsql AS $$
-- Whatever ends the message's turn (an answer, a stop, a failure), its credentials end with it.
BEGIN
    NEW.credentials := NULL;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION public.parley_drop_given_credentials IS
    'Removes the credentials that a program gave for a message, once it is not open any more.';
