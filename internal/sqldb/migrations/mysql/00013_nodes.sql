-- +goose Up

-- The servers of the fleet, for people and for each other; nothing is decided by it. Times are Unix
-- time in ns, by the database's clock.
CREATE TABLE IF NOT EXISTS nodes (
	process VARBINARY(255) PRIMARY KEY, -- unique for each run of a server
	node    VARBINARY(255) NOT NULL,
	role    VARBINARY(255) NOT NULL, -- judge or standby
	term    BIGINT NOT NULL, -- the latest that it knows
	version VARBINARY(255) NOT NULL,
	api     VARBINARY(255) NOT NULL, -- URL at which the others reach it
	started BIGINT NOT NULL,
	renewed BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS nodes;
