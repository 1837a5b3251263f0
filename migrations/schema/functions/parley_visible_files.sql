-- The files of a person that a conversation may see. The same rule as for memories: in direct messages all of them,
-- elsewhere those of the server. The planner puts it into the statement that calls it.
CREATE FUNCTION public.parley_visible_files(p_user_id bigint, p_conversation_id bigint)
RETURNS SETOF public.file_records
LANGUAGE sql STABLE AS $$
    SELECT file.* FROM public.file_records AS file
    WHERE file.user_id = p_user_id AND EXISTS (
        SELECT FROM public.conversations AS here
        LEFT JOIN public.conversations AS origin ON origin.id = file.conversation_id
        WHERE here.id = p_conversation_id AND (here.is_direct OR (
            NOT origin.is_direct AND origin.platform = here.platform
            AND coalesce(origin.platform_server_id, origin.platform_channel_id)
                = coalesce(here.platform_server_id, here.platform_channel_id)
        ))
    )
$$;
COMMENT ON FUNCTION public.parley_visible_files IS
    'The files of a person that a conversation may see: in direct messages all, elsewhere those of the server.';
