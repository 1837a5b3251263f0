-- How many days of turns a partition is made for: a twelfth of the days that its rows are kept, so that they stay no longer than
-- so much more, and that a table has some fourteen partitions; a day at least, and three months at most.
CREATE FUNCTION public.parley_partition_days(p_days bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$
    SELECT least(greatest(p_days / 12, 1), 92)
$$;
COMMENT ON FUNCTION public.parley_partition_days IS
    'How many days of turns a partition is made for whose rows are kept for so many days.';
