-- +goose Up

-- Silences of devices that were longer than the limit from which they are recorded. A page has those that ended in one hour, of 4,096
-- device numbers; one with a negative number has those of one checkpoint, of all devices, which are sorted into pages later.
CREATE TABLE IF NOT EXISTS gaps (
	page BIGINT NOT NULL,
	hour BIGINT NOT NULL, -- Unix time of its beginning, in hours
	size BIGINT NOT NULL, -- of data, in bytes
	head BIGINT NOT NULL, -- offset of the latest event before they were taken, or sorted
	data MEDIUMBLOB NOT NULL,
	PRIMARY KEY (page, hour),
	KEY gaps_hour (hour, size, head)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Device numbers that were free again, and the offset of the event since which they were: what gaps has from before is of another device.
CREATE TABLE IF NOT EXISTS freed (
	num  BIGINT PRIMARY KEY,
	head BIGINT NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What put verdicts off on devices of a source: mostly times in which it was deaf. See liveness.Break.
CREATE TABLE IF NOT EXISTS breaks (
	ended    BIGINT NOT NULL, -- Unix time, in ns
	source   VARBINARY(255) NOT NULL,
	kind     SMALLINT NOT NULL, -- 0 stall, 1 cut, 2 blank, 3 spare
	listened BIGINT NOT NULL,
	clock    BIGINT NOT NULL,
	length   BIGINT NOT NULL,
	PRIMARY KEY (ended, source, kind, listened)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What is learned of devices: a page has 4,096 device numbers.
CREATE TABLE IF NOT EXISTS habits (
	page BIGINT PRIMARY KEY,
	data MEDIUMBLOB NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What is learned of groups; the devices of no group have the empty name.
CREATE TABLE IF NOT EXISTS shapes (
	grp  VARBINARY(255) PRIMARY KEY,
	data MEDIUMBLOB NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- The deadline that was learned and is in force, in ns; 0 for none.
ALTER TABLE device_states ADD COLUMN learned BIGINT NOT NULL DEFAULT 0;
ALTER TABLE device_states MODIFY own VARCHAR(2000) NOT NULL;
ALTER TABLE device_states MODIFY announced VARCHAR(2000) NOT NULL;

-- +goose Down
ALTER TABLE device_states DROP COLUMN learned;
DROP TABLE IF EXISTS shapes;
DROP TABLE IF EXISTS habits;
DROP TABLE IF EXISTS breaks;
DROP TABLE IF EXISTS freed;
DROP TABLE IF EXISTS gaps;
