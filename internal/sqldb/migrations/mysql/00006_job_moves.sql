-- +goose Up

-- Where the latest job of each route is in line.
CREATE TABLE IF NOT EXISTS route_lanes (
	route BIGINT PRIMARY KEY,
	lane  BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Lanes that routes were moved from, as long as jobs from before wait there, and those to which they were moved, whose jobs after since stay
-- behind those of the other one up to upto that have the same key. These have held, all up to seen until now: also those that are claimed,
-- or that nobody has looked at.
CREATE TABLE IF NOT EXISTS job_moves (
	from_lane BIGINT NOT NULL,
	to_lane   BIGINT NOT NULL,
	upto      BIGINT NOT NULL,
	since     BIGINT NOT NULL,
	seen      BIGINT NOT NULL,
	PRIMARY KEY (from_lane, to_lane)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS job_moves;
DROP TABLE IF EXISTS route_lanes;
