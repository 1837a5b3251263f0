-- name: follow_room
SELECT parley_follow_matrix_room(:old, :new);
