-- +goose Up

-- The servers of the fleet, for people and for each other; nothing is decided by it. Times are Unix
-- time in ns, by the database's clock.
CREATE TABLE nodes (
	process text PRIMARY KEY, -- unique for each run of a server
	node    text NOT NULL,
	role    text NOT NULL, -- judge or standby
	term    bigint NOT NULL, -- the latest that it knows
	version text NOT NULL,
	api     text NOT NULL, -- URL at which the others reach it
	started bigint NOT NULL,
	renewed bigint NOT NULL
);

-- +goose Down
DROP TABLE IF EXISTS nodes;
