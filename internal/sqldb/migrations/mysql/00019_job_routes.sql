-- +goose Up

-- Where jobs go whose names match a pattern, as far as their senders leave that open.
CREATE TABLE IF NOT EXISTS job_routes (
	num      BIGINT PRIMARY KEY,
	name     VARBINARY(255) NOT NULL UNIQUE,
	jobs     BLOB NOT NULL, -- pattern
	queue    BIGINT NOT NULL, -- 0: that of the endpoint
	endpoint BIGINT NOT NULL, -- of jobs without an endpoint or URL; 0 for none
	weight   INT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The queue of jobs whose senders and routes name none; 0 for the one that always exists.
ALTER TABLE endpoints ADD COLUMN queue BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE endpoints DROP COLUMN queue;
DROP TABLE IF EXISTS job_routes;
