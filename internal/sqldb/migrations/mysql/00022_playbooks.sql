-- +goose Up

-- Playbooks that were written through the API, beside those of the configuration file.
CREATE TABLE IF NOT EXISTS playbooks (
	name       VARBINARY(255) PRIMARY KEY,
	definition MEDIUMBLOB NOT NULL, -- JSON, with the fields of the configuration file
	changed    BIGINT NOT NULL -- Unix time in ns
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE IF EXISTS playbooks;
