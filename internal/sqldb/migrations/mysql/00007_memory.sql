-- +goose Up
-- The key of the memory in which the process that is at work, or was killed, keeps its heartbeats; empty after an orderly end.
ALTER TABLE meta ADD COLUMN memory VARCHAR(64) NOT NULL DEFAULT '';

-- For how long, in ns, the process has listened without the source, which is configured no more.
ALTER TABLE sources ADD COLUMN missed BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sources DROP COLUMN missed;
ALTER TABLE meta DROP COLUMN memory;
