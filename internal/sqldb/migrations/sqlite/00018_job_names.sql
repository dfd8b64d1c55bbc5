-- +goose Up
-- What a job is called by its sender; empty for none. A new job with a name has in due minus the number of its share, which is a hash of its
-- name, and in held its key. From its first claim on, due and held are as those of others.
ALTER TABLE job_bodies ADD COLUMN name text NOT NULL DEFAULT '';
ALTER TABLE dead_jobs ADD COLUMN name text NOT NULL DEFAULT '';

-- +goose Down
UPDATE jobs SET due = 0 WHERE due < 0;
ALTER TABLE dead_jobs DROP COLUMN name;
ALTER TABLE job_bodies DROP COLUMN name;
