-- name: is_admin
SELECT EXISTS (
    SELECT FROM user_platform_links AS link JOIN users ON users.id = link.user_id
    WHERE link.platform = 'matrix' AND link.platform_user_id = :account
      AND users.permission_level IN ('admin', 'owner')
);
