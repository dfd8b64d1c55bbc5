package liveness_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holter-iot/holter/liveness"
)

// matches is what a filter means, by the picture of a device.
func matches(f *liveness.Filter, v *liveness.View) bool {
	is := func(want *bool, got bool) bool { return want == nil || *want == got }
	return strings.HasPrefix(v.ID, f.Prefix) &&
		(len(f.States) == 0 || slices.Contains(f.States, v.State)) &&
		(len(f.Groups) == 0 || slices.Contains(f.Groups, v.Group)) &&
		(len(f.Sources) == 0 || slices.Contains(f.Sources, v.Source)) &&
		(f.SeenBefore.IsZero() || !v.LastSeen.IsZero() && v.LastSeen.Before(f.SeenBefore)) &&
		(f.SeenAfter.IsZero() || v.LastSeen.After(f.SeenAfter)) &&
		is(f.Connected, v.Connected) && is(f.Maintenance, v.Maintenance) && is(f.Flapping, v.Flapping) &&
		(f.Number == 0 || v.Num == f.Number)
}

// inMotley runs a test with devices of all states, groups and flags, some of them unknown.
func inMotley(t *testing.T, test func(*rig)) {
	t.Helper()
	fleet := liveness.Config{
		Policy:   liveness.Policy{LateAfter: 20 * unit},
		Flapping: liveness.FlappingConfig{Threshold: 3, Window: 1000 * unit},
		Groups:   []liveness.GroupConfig{{Name: "a", Match: "a*"}, {Name: "empty", Match: "e*"}, {Name: "b", Match: "b*"}},
		Devices:  map[string]liveness.Policy{"a-never": {}, "never": {}},
	}
	inRig(t, fleet, liveness.SourceConfig{}, func(r *rig) {
		random := rand.New(rand.NewPCG(1, 2))
		other := r.addSource(liveness.SourceConfig{Name: "other", MaxGap: 1000 * unit})
		for i := range 300 {
			id := fmt.Sprintf("%c/%03d", "abcd"[i%4], random.IntN(200))
			s := r.open(id)
			switch random.IntN(8) {
			case 0:
				s.Bye(r.now())
			case 1:
				s.Close(r.now(), liveness.Closed)
			case 2:
				if _, err := s.Sleep(r.now(), time.Hour); err != nil {
					r.Fatal(err)
				}
			case 3:
				if err := r.registry.SetMaintenance(id, true); err != nil {
					r.Fatal(err)
				}
			case 4:
				for range 3 {
					s.Bye(r.now())
					s = r.open(id)
				}
			case 5:
				if _, err := other.Open(new(liveness.Session), id, liveness.Hello{}, nil, other.Time(time.Now())); err != nil {
					r.Fatal(err)
				}
			}
			if i%10 == 0 {
				r.listen(unit)
			}
			if i == 200 {
				r.cut(5 * unit)
			}
		}
		r.pulse()
		test(r)
	})
}

// someFilter returns a filter of up to three conditions.
func someFilter(random *rand.Rand, views []liveness.View) (f liveness.Filter) {
	v := views[random.IntN(len(views))]
	flag := func() *bool { return new(random.IntN(2) == 0) }
	for range random.IntN(4) {
		switch random.IntN(10) {
		case 0:
			f.Prefix = v.ID[:random.IntN(len(v.ID)+1)]
		case 1:
			f.States = []liveness.State{v.State, liveness.State(random.IntN(8))}
		case 2:
			f.Groups = []string{v.Group, "nobody's"}
		case 3:
			f.Sources = []string{v.Source}
		case 4:
			f.SeenBefore = v.LastSeen
		case 5:
			f.SeenAfter = v.LastSeen
		case 6:
			f.Connected = flag()
		case 7:
			f.Maintenance = flag()
		case 8:
			f.Flapping = flag()
		case 9:
			f.Number = v.Num
		}
	}
	return f
}

// sorted returns the ids of the devices that a query asks for, by their pictures.
func sorted(q *liveness.Query, views []liveness.View) (ids []string) {
	var chosen []liveness.View
	for i := range views {
		if matches(&q.Filter, &views[i]) {
			chosen = append(chosen, views[i])
		}
	}
	slices.SortFunc(chosen, func(a, b liveness.View) int {
		by := strings.Compare(a.ID, b.ID)
		switch q.By {
		case liveness.ByID:
		case liveness.ByLastSeen:
			by = cmp.Or(a.LastSeen.Compare(b.LastSeen), by)
		case liveness.BySince:
			by = cmp.Or(a.Since.Compare(b.Since), by)
		}
		if q.Descending {
			return -by
		}
		return by
	})
	for i := range chosen {
		ids = append(ids, chosen[i].ID)
	}
	return ids
}

// Pages of any filter and order are those of a list that is filtered and sorted by pictures, and full.
func TestSelect(t *testing.T) {
	inMotley(t, func(r *rig) {
		views, _ := r.registry.List(nil, 0, 1<<20)
		random := rand.New(rand.NewPCG(3, 4))
		seen := make(map[liveness.State]bool)
		for i := range views {
			seen[views[i].State] = true
		}
		if !seen[liveness.Unknown] || !seen[liveness.Offline] || !seen[liveness.Sleeping] || !seen[liveness.NeverSeen] {
			r.Fatalf("states %v", seen)
		}
		for range atLevel(500, 1000) {
			q := liveness.Query{
				Filter: someFilter(random, views), By: liveness.Order(random.IntN(3)), Descending: random.IntN(2) == 0, Limit: 1 + random.IntN(90),
			}
			want := sorted(&q, views)
			var got []string
			for {
				page, next := r.registry.Select(q)
				for _, v := range page {
					got = append(got, v.ID)
				}
				if next == nil {
					break
				}
				if len(page) != q.Limit {
					r.Fatalf("a page of %d devices, want %d: %+v", len(page), q.Limit, q)
				}
				q.After = next
			}
			if !slices.Equal(got, want) {
				r.Fatalf("%+v:\n%v, want\n%v", q, got, want)
			}
			picked := pick(r, &q.Filter, q.Limit)
			if slices.Sort(picked); !slices.Equal(picked, slices.Sorted(slices.Values(want))) {
				r.Fatalf("Pick(%+v) =\n%v, want\n%v", q.Filter, picked, want)
			}
		}
	})
}

// pick reads a list without an order, and wants its pages to be full.
func pick(r *rig, f *liveness.Filter, limit int) (ids []string) {
	r.Helper()
	for from, more := liveness.Cursor(0), true; more; more = from != 0 {
		var page []liveness.View
		page, from = r.registry.Pick(nil, from, limit, f)
		for i := range page {
			ids = append(ids, page[i].ID)
		}
		if from != 0 && len(page) != limit {
			r.Fatalf("a page of %d devices, want %d", len(page), limit)
		}
	}
	return ids
}

// Devices that come, go and change meanwhile do not make a page repeat or leave out one that stays.
func TestSelectWhileDevicesChange(t *testing.T) {
	inRig(t, liveness.Config{}, liveness.SourceConfig{}, func(r *rig) {
		var want []string
		for i := range 500 {
			id := fmt.Sprintf("stays-%03d", i)
			r.open(id)
			want = append(want, id)
		}
		var got []string
		q := liveness.Query{Limit: 7}
		for i := 0; ; i++ {
			page, next := r.registry.Select(q)
			for _, v := range page {
				if strings.HasPrefix(v.ID, "stays") {
					got = append(got, v.ID)
				}
			}
			if next == nil {
				break
			}
			q.After = next
			comes := fmt.Sprintf("stays-%03d-not", i*13%500)
			r.open(comes).Bye(r.now())
			if i%2 == 0 {
				r.device(comes)
				if err := r.registry.Forget(comes); err != nil {
					r.Fatal(err)
				}
			}
		}
		got = slices.DeleteFunc(got, func(id string) bool { return strings.HasSuffix(id, "not") })
		if !slices.Equal(got, want) {
			r.Errorf("got %d devices, want %d", len(got), len(want))
		}
	})
}

// A survey shows each device as its picture does.
func TestSurvey(t *testing.T) {
	inMotley(t, func(r *rig) {
		views, _ := r.registry.List(nil, 0, 1<<20)
		var groups []string
		for _, g := range r.registry.Groups() {
			groups = append(groups, g.Name)
		}
		want := make(map[string]int)
		for i := range views {
			want[fmt.Sprintln(views[i].Num, views[i].State, views[i].Group)]++
		}
		r.registry.Operator().Survey(groups, func(number uint32, state liveness.State, group int) {
			name := ""
			if group >= 0 {
				name = groups[group]
			}
			want[fmt.Sprintln(number, state, name)]--
		})
		for device, n := range want {
			if n != 0 {
				r.Errorf("%+d of %s", n, device)
			}
		}
	})
}

// BenchmarkSelect is a page of 100 from the middle of a million devices.
func BenchmarkSelect(b *testing.B) {
	f := startFleet(b)
	f.open(b)
	for i := range f.sessions {
		f.sessions[i].Beat(time.Duration(rand.Int64N(int64(time.Second))))
	}
	middle := func(by liveness.Order, descending bool) *liveness.Place {
		_, next := f.registry.Select(liveness.Query{By: by, Descending: descending, Limit: benchDevices / 2})
		return next
	}
	orders := []struct {
		name       string
		by         liveness.Order
		descending bool
	}{{"id", liveness.ByID, false}, {"last_seen", liveness.ByLastSeen, false}, {"since", liveness.BySince, true}}
	filters := []struct {
		name string
		f    liveness.Filter
	}{{"none", liveness.Filter{}}, {"offline", liveness.Filter{States: []liveness.State{liveness.Offline}}}, {"prefix", liveness.Filter{Prefix: "device-01"}}, {"seen", liveness.Filter{SeenAfter: f.start.Add(time.Second / 2)}}}
	for _, o := range orders {
		for _, page := range []string{"first", "middle"} {
			var after *liveness.Place
			if page == "middle" {
				after = middle(o.by, o.descending)
			}
			for _, filter := range filters {
				b.Run(fmt.Sprintf("sort=%s/page=%s/filter=%s/n=1e6", o.name, page, filter.name), func(b *testing.B) {
					for b.Loop() {
						f.registry.Select(liveness.Query{Filter: filter.f, By: o.by, Descending: o.descending, After: after, Limit: 100})
					}
				})
			}
		}
	}
	for _, filter := range filters {
		b.Run(fmt.Sprintf("sort=none/page=first/filter=%s/n=1e6", filter.name), func(b *testing.B) {
			for b.Loop() {
				f.registry.Pick(nil, 0, 100, &filter.f)
			}
		})
	}
}
