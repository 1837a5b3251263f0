-- A row does not tell a column that a statement sets to what it was from one that the statement does not name; triggers of
-- columns do, before the rows. Their argument is `yes`, or empty once an end is named, or the statement is over.
CREATE FUNCTION admin.name_permission() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('parley.names_permission', TG_ARGV[0], true);
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION admin.name_permission IS 'Trigger: notes that an UPDATE of admin.users names a permission without an end.';
