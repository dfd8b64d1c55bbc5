-- +goose Up

-- Rows of devices that could not be read, as they were. Nothing of the program reads them: mend what is wrong by hand, and remove them.
CREATE TABLE set_aside (
	n    INTEGER PRIMARY KEY,
	num  INTEGER NOT NULL, -- of the device
	id   TEXT NOT NULL,    -- of the device; empty if that could not be read
	at   INTEGER NOT NULL, -- Unix time in ns
	why  TEXT NOT NULL,
	data TEXT NOT NULL     -- the columns of devices and device_states, as JSON
);

-- +goose Down
DROP TABLE set_aside;
