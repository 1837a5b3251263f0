-- Whether a message tells nothing by itself: words of greeting or thanks, followed by no more than four others and no number.
-- Recall ranks it last.
CREATE FUNCTION public.parley_is_talk(p_content text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT length(p_content) <= 60 AND p_content !~ '\d' AND p_content ~* (
        '^\W*(thanks|thank you|thx|ok|okay|great|cool|nice|perfect|got it|noted|sure|alright|hi|hello|hey|bye'
        '|you''re welcome|you are welcome|good (morning|evening|night|day)|danke|merci|gracias|grazie|obrigad[oa]|谢谢'
        '|ありがとう)(\W+\w+){0,4}\W*$'
    )
$$;
COMMENT ON FUNCTION public.parley_is_talk IS 'Whether a message is only a greeting or thanks, which recall ranks last.';
