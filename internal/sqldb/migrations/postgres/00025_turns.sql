-- +goose Up

-- The turns of the listening clock, oldest first, as JSON: the listening time, when it was, and until when others followed that were merged
-- into it, 0 if none were.
ALTER TABLE sources ADD COLUMN turns TEXT NOT NULL DEFAULT '';
-- When the sign of life was that heard tells of; 0 if only the clock of its source says.
ALTER TABLE device_states ADD COLUMN seen BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE device_states DROP COLUMN seen;
ALTER TABLE sources DROP COLUMN turns;
