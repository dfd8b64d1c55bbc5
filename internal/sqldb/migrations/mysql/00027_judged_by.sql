-- +goose Up

-- The span of the policy that the state of a late or offline device follows from, as it was then, in ns; 0 if it follows from none, or from
-- which is not known.
ALTER TABLE device_states ADD COLUMN judged_by BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE device_states DROP COLUMN judged_by;
