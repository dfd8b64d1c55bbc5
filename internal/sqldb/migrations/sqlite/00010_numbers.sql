-- +goose Up
-- The number of a forgotten device's last event: should the device come back, its events go on from there. The row without an id has the
-- greatest one of those whose rows are gone.
ALTER TABLE forgotten ADD COLUMN seq INTEGER NOT NULL DEFAULT 0;
UPDATE forgotten SET seq = COALESCE((SELECT e.seq FROM events e WHERE e.pos = forgotten.head), 0);

-- Who fell silent since then belongs to the outage.
ALTER TABLE outages DROP COLUMN silent_before;
ALTER TABLE outages ADD COLUMN began INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE outages DROP COLUMN began;
ALTER TABLE outages ADD COLUMN silent_before INTEGER NOT NULL DEFAULT 0;
DELETE FROM forgotten WHERE id = '';
ALTER TABLE forgotten DROP COLUMN seq;
