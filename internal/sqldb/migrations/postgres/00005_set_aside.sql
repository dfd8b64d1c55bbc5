-- +goose Up

-- Rows of devices that could not be read, as they were. Nothing of the program reads them: mend what is wrong by hand, and remove them.
CREATE TABLE set_aside (
	n    bigint PRIMARY KEY,
	num  bigint NOT NULL, -- of the device
	id   text NOT NULL,   -- of the device; empty if that could not be read
	at   bigint NOT NULL, -- Unix time in ns
	why  text NOT NULL,
	data text NOT NULL    -- the columns of devices and device_states, as JSON
);

-- +goose Down
DROP TABLE set_aside;
