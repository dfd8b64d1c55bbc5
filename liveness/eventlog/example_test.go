package eventlog_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/holter-iot/holter/liveness"
	"github.com/holter-iot/holter/liveness/eventlog"
)

// A reader follows the log at its own pace. One that was away for too long is told so, and goes on
// with the oldest event there is.
func ExampleLog() {
	log, err := eventlog.New(3)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	place := uint64(0) // offset of the last event that was read
	follow := func() {
		events, err := log.Wait(ctx, nil, place, 100)
		if errors.Is(err, eventlog.ErrMissed) {
			fmt.Println(err)
			oldest, _ := log.Bounds()
			place = oldest - 1
			events, err = log.Wait(ctx, nil, place, 100)
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		for i := range events {
			fmt.Println(events[i].Offset, events[i].ID(), events[i].Type)
			place = events[i].Offset
		}
	}
	happen := func(t liveness.Type, seq uint64) { // a registry does this
		_ = log.Append(ctx, []liveness.Event{{Type: t, Subject: "pump", Seq: seq}})
	}

	happen(liveness.DeviceOnline, 1)
	happen(liveness.DeviceLate, 2)
	follow()
	happen(liveness.DeviceOnline, 3)
	follow()
	for seq := uint64(4); seq < 8; seq += 2 {
		happen(liveness.DeviceOffline, seq)
		happen(liveness.DeviceOnline, seq+1)
	}
	follow()
	// Output:
	// 1 pump:1 device.online
	// 2 pump:2 device.late
	// 3 pump:3 device.online
	// eventlog: events were missed: 1 after offset 3, the oldest kept is 5
	// 5 pump:5 device.online
	// 6 pump:6 device.offline
	// 7 pump:7 device.online
}
