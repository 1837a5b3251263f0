-- The rows of a server are in another cell: here a pointer stays, which whoever comes later follows.
CREATE FUNCTION public.parley_end_departure(p_platform text, p_server text) RETURNS void
LANGUAGE sql
BEGIN ATOMIC
    UPDATE public.cell_servers SET state = 'moved', changed_at = now()
    WHERE platform = p_platform AND platform_server_id = p_server AND state IN ('leaving', 'returning');
END;
COMMENT ON FUNCTION public.parley_end_departure IS 'Notes that the rows of a server are in another cell.';
REVOKE EXECUTE ON FUNCTION public.parley_end_departure FROM parley_app, parley_admin;
