-- name: list_spending
SELECT key, name, calls, tokens, cached, dollars, calls_of_unknown_price
FROM admin.spend_by(:by, CAST(:since AS timestamptz), CAST(:until AS timestamptz));

-- name: list_limits
-- Those of people stand on their own pages: everybody has one.
SELECT kind, name, period, unit, allowed, granted, used, reserved, "left", resets_at FROM admin.budgets
WHERE kind NOT IN ('person', 'own') LIMIT 12;
