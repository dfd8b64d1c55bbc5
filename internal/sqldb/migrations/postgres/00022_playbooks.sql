-- +goose Up

-- Playbooks that were written through the API, beside those of the configuration file.
CREATE TABLE playbooks (
	name       text PRIMARY KEY,
	definition text NOT NULL, -- JSON, with the fields of the configuration file
	changed    bigint NOT NULL -- Unix time in ns
);

-- +goose Down
DROP TABLE playbooks;
