-- Deletes the rows of files whose content is deleted from storage, and counts them in the erasure.
CREATE FUNCTION public.parley_erase_files(p_erasure_id bigint, p_file_ids bigint[]) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    WITH removed AS (DELETE FROM public.file_records WHERE id = ANY (p_file_ids) RETURNING id)
    UPDATE public.erasures SET erased = erased || jsonb_build_object(
        'files', coalesce((erased ->> 'files')::bigint, 0) + (SELECT count(*) FROM removed)
    )
    WHERE id = p_erasure_id;
END;
COMMENT ON FUNCTION public.parley_erase_files IS 'Deletes rows of files for an erasure, and counts them in it.';
