package judgement

// State is the state of a device.
type State uint8

const (
	// NeverSeen is a device that is configured and was not heard yet.
	NeverSeen State = iota
	// Online is a device that is heard in time, or whose connection ended a moment ago and that may
	// still come back.
	Online
	// Late is a device whose heard silence passed the policy's LateAfter.
	Late
	// Sleeping is a device that announced how long it would be silent.
	Sleeping
	// Offline is a device with a verdict.
	Offline
	// Unknown is a device that was alive when it was heard last, and whose source is deaf or has
	// lost its connections since. It is never stored: a device leaves it by being heard or judged.
	Unknown
	// Suspect is a device that is online or late, and was probed before its verdict, see
	// [Policy.Probes]. It is never stored, and has no event: a device leaves it by being heard or
	// judged, or by losing its connection.
	Suspect
	// Pending is a device whose state was decided and is not committed by the sink yet. It is never
	// stored.
	Pending

	// States is how many states there are.
	States = int(Pending) + 1
)

func (s State) String() string {
	names := [...]string{
		NeverSeen: "never_seen",
		Online:    "online",
		Late:      "late",
		Sleeping:  "sleeping",
		Offline:   "offline",
		Unknown:   "unknown",
		Suspect:   "suspect",
		Pending:   "pending",
	}
	if int(s) < len(names) {
		return names[s]
	}
	return "invalid"
}

// Reason is why a device is offline.
type Reason uint8

const (
	// NoReason is that of a device that is not offline.
	NoReason Reason = iota
	// Silence: heard silence passed the policy's Timeout.
	Silence
	// Bye: the device said goodbye.
	Bye
	// Closed: the connection ended, and the device did not come back within the policy's
	// CloseGrace.
	Closed
	// Protocol: the device broke its protocol and was cut off.
	Protocol
	// Will: a broker published the device's last will, so its connection ended, and the device did
	// not come back within the policy's CloseGrace.
	Will
	// Admin: an operator ended the device's session, and it did not come back within the policy's
	// CloseGrace.
	Admin
	// Reported: whoever watches over the device, such as its gateway or its broker, says that it is
	// offline.
	Reported

	// Reasons is how many reasons there are.
	Reasons = int(Reported) + 1
)

func (r Reason) String() string {
	names := [...]string{
		NoReason: "",
		Silence:  "silence",
		Bye:      "bye",
		Closed:   "closed",
		Protocol: "protocol",
		Will:     "will",
		Admin:    "admin",
		Reported: "reported",
	}
	if int(r) < len(names) {
		return names[r]
	}
	return "invalid"
}
