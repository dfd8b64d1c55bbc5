-- +goose Up

-- Playbooks that were written through the API, beside those of the configuration file.
CREATE TABLE playbooks (
	name       TEXT PRIMARY KEY,
	definition TEXT NOT NULL, -- JSON, with the fields of the configuration file
	changed    INTEGER NOT NULL -- Unix time in ns
) WITHOUT ROWID;

-- +goose Down
DROP TABLE playbooks;
