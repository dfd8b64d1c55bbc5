-- +goose Up
-- A random number of the process whose fence it is: should a failover of the database lose commits, the same fence may be given twice.
ALTER TABLE meta ADD COLUMN nonce BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE meta DROP COLUMN nonce;
