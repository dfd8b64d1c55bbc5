-- +goose Up

-- The servers of the fleet, for people and for each other; nothing is decided by it. Times are Unix
-- time in ns, by the database's clock.
CREATE TABLE nodes (
	process TEXT PRIMARY KEY, -- unique for each run of a server
	node    TEXT NOT NULL,
	role    TEXT NOT NULL, -- judge or standby
	term    INTEGER NOT NULL, -- the latest that it knows
	version TEXT NOT NULL,
	api     TEXT NOT NULL, -- URL at which the others reach it
	started INTEGER NOT NULL,
	renewed INTEGER NOT NULL
);

-- +goose Down
DROP TABLE IF EXISTS nodes;
