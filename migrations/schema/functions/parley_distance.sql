-- How many letters have to be added, left out, changed or swapped with the next one to make one word of another, whatever
-- their case. fuzzystrmatch, which has most of it, is missing in the embedded server.
CREATE FUNCTION public.parley_distance(p_one text, p_other text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    v_one text[] := regexp_split_to_array(lower(p_one), '');
    v_other text[] := regexp_split_to_array(lower(p_other), '');
    v_before integer[];
    v_last integer[] := ARRAY(SELECT generate_series(0, length(p_other)));
    v_row integer[];
    v_change integer;
BEGIN
    FOR i IN 1..length(p_one) LOOP
        v_row := ARRAY[i];
        FOR j IN 1..length(p_other) LOOP
            v_change := (v_one[i] <> v_other[j])::integer;
            v_row[j + 1] := least(v_last[j + 1] + 1, v_row[j] + 1, v_last[j] + v_change);
            IF i > 1 AND j > 1 AND v_one[i] = v_other[j - 1] AND v_one[i - 1] = v_other[j] THEN
                v_row[j + 1] := least(v_row[j + 1], v_before[j - 1] + 1);
            END IF;
        END LOOP;
        v_before := v_last;
        v_last := v_row;
    END LOOP;
    RETURN v_last[length(p_other) + 1];
END
$$;
COMMENT ON FUNCTION public.parley_distance IS 'How many letters have to be changed to make one word of another.';
