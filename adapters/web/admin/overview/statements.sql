-- name: read_queue
SELECT messages, conversations, jobs, replies FROM admin.queue_depth;
