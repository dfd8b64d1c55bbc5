package replay

import "time"

// Millis is a duration in milliseconds.
type Millis float64

func millis(d time.Duration) Millis { return Millis(float64(d) / float64(time.Millisecond)) }

// Duration returns the duration.
func (m Millis) Duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}

// Answer is what a replay has found.
type Answer struct {
	Field     Field     `json:"setting" enum:"timeout,late_after,close_grace,outage_share" doc:"The setting that was changed."`
	Group     string    `json:"group,omitempty" doc:"The group that it is about; left out if it is about all devices or one."`
	Device    string    `json:"device,omitempty" doc:"The device that it is about."`
	From      time.Time `json:"from" doc:"Silences that began since then are counted."`
	To        time.Time `json:"to" doc:"Silences that began before it are counted."`
	KnownFrom time.Time `json:"known_from" doc:"Silences are recorded since then; from is not before it."`
	Clipped   bool      `json:"clipped" doc:"The window was to begin earlier than anything is known."`

	Devices      int     `json:"devices" doc:"Devices that something is known of."`
	Unknown      int     `json:"unknown" doc:"Devices of which nothing is recorded yet; they are left out."`
	Untracked    int     `json:"untracked" doc:"Devices whose silence means nothing, because a broker tracks them; they are left out."`
	DeviceMonths float64 `json:"device_months" doc:"For how long devices were watched in the window, in months of 30 days."`
	Silences     int     `json:"silences" doc:"Silences that were judged again."`
	Outages      int     `json:"outages" doc:"Of them, those that were outages."`
	Undecided    int     `json:"undecided" doc:"Silences that are not over, and not judged yet; they are left out."`
	Suppressed   int     `json:"suppressed" doc:"Silences in maintenance: the device was when it was judged or, if it was not judged, at some time. They are left out."`
	Overlaps     int     `json:"overlaps" doc:"Records that contradict another one and are left out; it is 0 unless records were damaged."`
	Damaged      int     `json:"damaged" doc:"Parts of the records that cannot be read, and are left out."`
	ExactFrom    Millis  `json:"exact_from_ms" doc:"From this value on all counts are exact. Below, they are lower bounds: shorter silences of some devices are not recorded."`

	Today    Point   `json:"today" doc:"The policies that are in force."`
	Learned  *Point  `json:"learned,omitempty" doc:"Each device with the deadline that was learned of it, and those of which none was learned as today. Left out if none was learned, or if another setting was changed."`
	Points   []Point `json:"points" doc:"The values, in order."`
	Sentence string  `json:"sentence" doc:"The most interesting of it in words."`
}

// Point is what would have happened with a value.
type Point struct {
	Value  Millis  `json:"value_ms,omitempty" doc:"The value. Of today and learned, the one that half of the devices are below; least_ms and most_ms are the extremes then. Left out of outage_share."`
	Least  Millis  `json:"least_ms,omitempty"`
	Most   Millis  `json:"most_ms,omitempty"`
	Share  float64 `json:"share,omitempty" doc:"The value of outage_share."`
	Bound  bool    `json:"bound" doc:"The counts are lower bounds, because silences as short as that are not recorded of some devices."`
	Bounds int     `json:"bound_devices" doc:"How many devices these are."`

	FalseAlarms int     `json:"false_alarms" doc:"Verdicts that a heartbeat of the same session refuted."`
	Rate        float64 `json:"false_alarms_per_device_month"`
	Lates       int     `json:"lates" doc:"How often devices would have been late."`

	Seen   int    `json:"outages_seen" doc:"Outages that would have been judged."`
	Closed int    `json:"closed" doc:"Of them, those judged because the connection had ended, and for no silence."`
	Mean   Millis `json:"delay_mean_ms" doc:"From the last heartbeat to the verdict, of the outages that are seen."`
	P90    Millis `json:"delay_p90_ms" doc:"Nine of ten are not above it; to 1 %."`
	Max    Millis `json:"delay_max_ms"`

	Sooner   int    `json:"sooner" doc:"Outages that would have been seen sooner than today, or that are not seen today."`
	SoonerBy Millis `json:"sooner_by_ms" doc:"By how much, on average, of those that are seen today."`
	Later    int    `json:"later" doc:"Outages that would have been seen later than today, or not at all."`
	LaterBy  Millis `json:"later_by_ms" doc:"By how much, on average, of those that would have been seen."`

	GroupOutages  int     `json:"group_outages,omitempty" doc:"Of outage_share: outages of groups."`
	Notifications int     `json:"notifications" doc:"Devices that went offline, and that came back online."`
	Weekly        float64 `json:"notifications_per_week"`

	Sentence string `json:"sentence" doc:"What differs from today, in words."`
}
