-- +goose Up
-- What the clock that tells how old things are has shown, Unix time in ns; 0 if it has not begun.
ALTER TABLE meta ADD COLUMN steady INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE meta DROP COLUMN steady;
