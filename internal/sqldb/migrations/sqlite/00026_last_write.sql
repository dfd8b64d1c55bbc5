-- +goose Up

-- A random number of the latest transaction that took its turn: it tells whether one was committed whose answer was lost.
ALTER TABLE meta ADD COLUMN last_write INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE meta DROP COLUMN last_write;
