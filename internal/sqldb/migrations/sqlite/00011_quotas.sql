-- +goose Up
-- The number of the name of the quota that counts a device; 0 if none does.
ALTER TABLE device_states ADD COLUMN quota INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE device_states DROP COLUMN quota;
