package delivery

import "github.com/holter-iot/holter/liveness"

// endsIncident reports whether an event may end an incident at endpoints of a kind. They get it even if it is
// suppressed: the device was offline before its maintenance or before the outage of its group was reported, and
// nothing else closes the incident that this has opened.
func endsIncident(kind string, ev *liveness.Event) bool {
	if kind != "pagerduty" && kind != "opsgenie" {
		return false
	}
	return ev.Type == liveness.DeviceOnline || ev.Type == liveness.DeviceSleeping || ev.Type == liveness.DeviceForgotten
}
