-- +goose Up
-- Who recorded an event: the term of the judge, and the number of the name of its node; 0 if it is not known.
ALTER TABLE events ADD COLUMN term BIGINT NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN node BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE events DROP COLUMN node;
ALTER TABLE events DROP COLUMN term;
