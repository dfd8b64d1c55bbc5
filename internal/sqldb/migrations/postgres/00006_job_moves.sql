-- +goose Up

-- Where the latest job of each route is in line.
CREATE TABLE route_lanes (
	route bigint PRIMARY KEY,
	lane  bigint NOT NULL
);

-- Lanes that routes were moved from, as long as jobs from before wait there, and those to which they were moved, whose jobs after since stay
-- behind those of the other one up to upto that have the same key. These have held, all up to seen until now: also those that are claimed,
-- or that nobody has looked at.
CREATE TABLE job_moves (
	from_lane bigint NOT NULL,
	to_lane   bigint NOT NULL,
	upto      bigint NOT NULL,
	since     bigint NOT NULL,
	seen      bigint NOT NULL,
	PRIMARY KEY (from_lane, to_lane)
);

-- +goose Down
DROP TABLE job_moves;
DROP TABLE route_lanes;
