package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holter-iot/holter/schedule"
)

func Example() {
	e, err := schedule.New(schedule.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	done := make(chan struct{})
	handle, err := e.Every(20).Milliseconds().DoRun(func(_ context.Context, run schedule.Run) {
		if run.Number == 3 {
			close(done)
		}
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		<-done
		fmt.Println("ran three times; cancelled:", handle.Cancel())
		cancel()
	}()
	fmt.Println("ended:", e.Run(ctx))
	// Output:
	// ran three times; cancelled: true
	// ended: <nil>
}

// The clock in New York goes from 2 to 3 on 8 March 2026.
func ExampleParse() {
	s, err := schedule.Parse("CRON_TZ=America/New_York 30 2 * * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	at := time.Date(2026, time.March, 7, 0, 0, 0, 0, time.UTC)
	for range 3 {
		at = s.Next(at)
		fmt.Println(at)
	}
	// Output:
	// 2026-03-07 02:30:00 -0500 EST
	// 2026-03-08 03:00:00 -0400 EDT
	// 2026-03-09 02:30:00 -0400 EDT
}

func ExampleParse_mistakes() {
	for _, text := range []string{"0 25 * * *", "0 0 30 2 *", "*/5 * * * MON-FRY"} {
		_, err := schedule.Parse(text)
		fmt.Println(err)
	}
	// Output:
	// schedule: field 2 (hour) is 25: want 0 to 23
	// schedule: it never fires: fields 3 and 4 (day of month, month) are 30 and 2, and no such month has such a day
	// schedule: field 5 (day of week) is MON-FRY: FRY is wrong, want 0 to 7 or SUN to SAT
}

// What a program does that was down since half past nine.
func ExampleDue() {
	s, err := schedule.Parse("TZ=UTC */20 * * * *")
	if err != nil {
		fmt.Println(err)
		return
	}
	last := time.Date(2026, time.May, 4, 9, 30, 0, 0, time.UTC)
	runs, next, err := schedule.Due(s, last, last.Add(time.Hour), schedule.MisfireAll(2), time.Minute)
	fmt.Println(err)
	for _, at := range runs {
		fmt.Println("run for", at.Format(time.TimeOnly))
	}
	fmt.Println("next at", next.Format(time.TimeOnly))
	// Output:
	// <nil>
	// run for 10:00:00
	// run for 10:20:00
	// next at 10:40:00
}

func ExampleStarting() {
	s, err := schedule.Parse("@every 90s")
	if err != nil {
		fmt.Println(err)
		return
	}
	created := time.Date(2026, time.May, 4, 9, 30, 10, 0, time.UTC)
	fmt.Println(schedule.Starting(s, created).Next(created).Format(time.TimeOnly))
	// Output:
	// 09:31:40
}

func ExampleEngine_Every() {
	now := time.Date(2026, time.May, 4, 9, 30, 0, 0, time.UTC) // a Monday
	e, err := schedule.New(schedule.Config{Now: func() time.Time { return now }, Location: time.UTC})
	if err != nil {
		fmt.Println(err)
		return
	}
	report := func() { /* … */ }
	for _, plan := range []*schedule.Plan{
		e.Every(2).Seconds().From(now.Add(time.Hour)),
		e.Every(1).Day().At(10, 11).In(time.FixedZone("", 3600)),
		e.Every(2).Monday().At(8, 0),
		e.Cron("0 12 1 * *"),
		e.Once(now.Add(time.Minute)),
	} {
		h, err := plan.Overlap(schedule.OverlapQueue(3)).Misfire(schedule.MisfireSkip).Jitter(time.Second).Do(report)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(h.Next().Format(time.DateTime))
	}
	// Output:
	// 2026-05-04 10:30:00
	// 2026-05-05 09:11:00
	// 2026-05-11 08:00:00
	// 2026-06-01 12:00:00
	// 2026-05-04 09:31:00
}

// A backup that is tried three times more, and is checked only when it was made.
func ExampleTask() {
	failures := 1
	backup := schedule.Task(func(context.Context, schedule.Run) error {
		if failures--; failures >= 0 {
			fmt.Println("backup: no network")
			return errors.New("no network")
		}
		fmt.Println("backup: made")
		return nil
	})
	check := schedule.Task(func(context.Context, schedule.Run) error {
		fmt.Println("check: fine")
		return nil
	})
	nightly := backup.Retry(3, time.Millisecond).Then(check)
	fmt.Println(nightly(context.Background(), schedule.Run{Number: 1}))
	// Output:
	// backup: no network
	// backup: made
	// check: fine
	// <nil>
}
