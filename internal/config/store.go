package config

import (
	"strconv"
	"time"

	"github.com/holter-iot/holter/internal/store"
	"github.com/holter-iot/holter/internal/strictyaml"
)

func eventsFields(c *store.Config) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("keep", strictyaml.Number(&c.Keep, 1, 1_000_000_000), "10000000", "number of the newest events that are kept"),
		strictyaml.Key("max_age", strictyaml.Span(&c.MaxAge, time.Minute, 20*aYear), "30d",
			"age up to which they are kept. If the wall clock is ahead for a time of less than a day, at most events of that length of time are removed early"),
		strictyaml.Key("max_bytes", strictyaml.Number(&c.MaxBytes, 1<<20, 1<<40), "4294967296 (4 GiB)",
			"bytes that they may take in the database, [estimated on the safe side](../run/size.md#a-disk-that-must-not-fill); the oldest are deleted. "+
				"Those that jobs still have to deliver stay until twice as many"),
	}
}

func gapsFields(c *store.Config) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("max_age", strictyaml.Span(&c.GapsMaxAge, time.Hour, aYear), "30d", "how long they are kept"),
		strictyaml.Key("max_bytes", strictyaml.Number(&c.GapsMaxBytes, 1<<20, 1<<40), "2147483648 (2 GiB)",
			"bytes that they may take in the database; the oldest hours are deleted"),
	}
}

func jobsFields(j *Jobs) []strictyaml.Field {
	return []strictyaml.Field{
		strictyaml.Key("keep", strictyaml.Number(&j.Keep, 0, 100_000_000), strconv.Itoa(DefaultKeepJobs),
			"how many, the latest; some 200 bytes each in the database, and up to 1,000 more for the receiver's answer. "+
				"They cost up to a third of the highest rate of deliveries. 0 keeps none"),
		strictyaml.Key("max_age", strictyaml.Span(&j.MaxAge, time.Minute, aYear), "24h", "for how long after their end"),
	}
}
