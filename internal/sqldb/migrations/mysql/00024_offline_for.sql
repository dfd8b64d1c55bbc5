-- +goose Up

-- How long the device had been offline that is back by this event, in ns; 0 for all other events.
ALTER TABLE events ADD COLUMN offline_for BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE events DROP COLUMN offline_for;
