-- +goose Up

-- Runs of jobs: since when one is under way, in steady Unix time in ns, 0 if none is; and how one ended: its exit status, and how
-- long it took in ns.
ALTER TABLE device_states ADD COLUMN started BIGINT NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN exit_status SMALLINT;
ALTER TABLE events ADD COLUMN duration BIGINT;
-- A policy with quiet windows and a schedule may be long.
ALTER TABLE device_states MODIFY own VARCHAR(4000) NOT NULL;

-- +goose Down
ALTER TABLE events DROP COLUMN duration;
ALTER TABLE events DROP COLUMN exit_status;
ALTER TABLE device_states DROP COLUMN started;
