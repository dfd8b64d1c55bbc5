package cli

import "github.com/holter-iot/holter/internal/terminal"

// painted paints the state of a device, a run or a step, or the type of an event.
func painted(text string) terminal.Cell {
	switch text {
	case "online", "done", "recovered", "active", "listening",
		"device.online", "source.heard", "group.outage.ended", "device.flapping.stopped":
		return terminal.Cell{Text: text, Paint: terminal.Green}
	case "late", "suspect", "running", "waiting", "skipped", "paused", "disabled", "recovering",
		"device.late", "device.failed", "device.flapping.started":
		return terminal.Cell{Text: text, Paint: terminal.Yellow}
	case "offline", "failed", "lost", "failing", "outage",
		"device.offline", "source.deaf", "group.outage.started":
		return terminal.Cell{Text: text, Paint: terminal.Red}
	case "sleeping", "device.sleeping":
		return terminal.Cell{Text: text, Paint: terminal.Blue}
	case "unknown", "pending":
		return terminal.Cell{Text: text, Paint: terminal.Magenta}
	}
	return terminal.Cell{Text: text, Paint: terminal.Faint}
}

// activity shows whether something that can be paused is.
func activity(paused bool) terminal.Cell {
	if paused {
		return painted("paused")
	}
	return painted("active")
}
