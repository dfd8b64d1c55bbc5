-- +goose Up

-- Rows of devices that could not be read, as they were. Nothing of the program reads them: mend what is wrong by hand, and remove them.
CREATE TABLE IF NOT EXISTS set_aside (
	n    BIGINT PRIMARY KEY,
	num  BIGINT NOT NULL, -- of the device
	id   VARBINARY(128) NOT NULL, -- of the device; empty if that could not be read
	at   BIGINT NOT NULL, -- Unix time in ns
	why  BLOB NOT NULL,
	data MEDIUMBLOB NOT NULL -- the columns of devices and device_states, as JSON
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS set_aside;
