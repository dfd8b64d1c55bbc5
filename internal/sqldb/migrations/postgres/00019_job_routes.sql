-- +goose Up

-- Where jobs go whose names match a pattern, as far as their senders leave that open.
CREATE TABLE job_routes (
	num      bigint PRIMARY KEY,
	name     text NOT NULL UNIQUE,
	jobs     text NOT NULL, -- pattern
	queue    bigint NOT NULL, -- 0: that of the endpoint
	endpoint bigint NOT NULL, -- of jobs without an endpoint or URL; 0 for none
	weight   integer NOT NULL
);

-- The queue of jobs whose senders and routes name none; 0 for the one that always exists.
ALTER TABLE endpoints ADD COLUMN queue bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE endpoints DROP COLUMN queue;
DROP TABLE job_routes;
