-- The bytes are shown as they are. The admin pages give what they have decoded and written anew.
CREATE FUNCTION admin.set_picture(persona text, picture bytea) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    v_id bigint := admin.get_persona(persona);
    v_content constant bytea := picture;
BEGIN
    IF v_content IS NULL THEN
        UPDATE public.personas SET picture = NULL WHERE id = v_id;
        RETURN format('the persona %s has no picture', persona);
    END IF;
    INSERT INTO public.pictures (content) VALUES (v_content) ON CONFLICT (sha256) DO NOTHING;
    UPDATE public.personas SET picture = encode(sha256(v_content), 'hex') WHERE id = v_id;
    RETURN format('the persona %s has this picture', persona);
EXCEPTION WHEN not_null_violation OR check_violation THEN
    RAISE EXCEPTION 'a picture is a PNG or JPEG of at most 512 KB';
END
$$;
COMMENT ON FUNCTION admin.set_picture IS
    'Gives a persona a picture, PNG or JPEG, NULL: none: admin.set_picture(''Sage'', NULL).';
