-- +goose Up
-- What the clock of a source read at the latest start that did not know what was heard before; 0 if there was none.
ALTER TABLE sources ADD COLUMN blank BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sources DROP COLUMN blank;
