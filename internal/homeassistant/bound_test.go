package homeassistant_test

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/holter-iot/holter/internal/homeassistant"
	"github.com/holter-iot/holter/mqttbridge/convention"
)

// heap returns the bytes of the heap that are in use.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one finalized
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// long returns a template of 1 kB with a part that is repeated.
func long(before, part, after string) string {
	return before + strings.Repeat(part, (1024-len(before)-len(after))/len(part)) + after
}

// floods are discovery messages by their number, that ever name something new.
func floods() map[string]func(i int) string {
	comparisons, nodes := long("{{[", "1<1,", "]}}"), long("", "{{1}}", "")
	components := func(i int, format string) string {
		var all []string
		for j := range 100 {
			all = append(all, fmt.Sprintf(`"c%d":`+format, j, fmt.Sprintf("%d/%d", i, j)))
		}
		return fmt.Sprintf(`{"dev":{"ids":"d%d"},"avty":[{"t":"~/a"},{"t":"~/b"}],"cmps":{%s}}`, i, strings.Join(all, ","))
	}
	return map[string]func(i int) string{
		"devices":      func(i int) string { return fmt.Sprintf(`{"stat_t":"s/%d","dev":{"ids":"d%d"}}`, i, i) },
		"availability": func(i int) string { return fmt.Sprintf(`{"avty_t":"a/%d","dev":{"ids":"d%d"}}`, i, i) },
		"entities":     func(i int) string { return fmt.Sprintf(`{"stat_t":"s","exp_aft":%d,"dev":{"ids":"d%d"}}`, i+1, i/4000) },
		"components":   func(i int) string { return components(i, `{"p":"light","~":"%s"}`) },
		"state topics": func(i int) string { return components(i, `{"p":"light","stat_t":"%s"}`) },
		"long topics": func(i int) string {
			return fmt.Sprintf(`{"avty_t":"%s/%d","dev":{"ids":"d"}}`, strings.Repeat("t", 900), i)
		},
		"long ids": func(i int) string {
			return fmt.Sprintf(`{"stat_t":"s","dev":{"ids":"%s%d"}}`, strings.Repeat("%", 40), i)
		},
		"control texts": func(i int) string {
			return fmt.Sprintf(`{"avty_t":"a","pl_avail":"%s%d"}`, strings.Repeat(`\u0001`, 900), i)
		},
		"comparisons": func(i int) string { return fmt.Sprintf(`{"avty_t":"a/%d","avty_tpl":"%s"}`, i, comparisons) },
		"nodes":       func(i int) string { return fmt.Sprintf(`{"avty_t":"a/%d","avty_tpl":"%s"}`, i, nodes) },
		"readings":    func(i int) string { return fmt.Sprintf(`{"avty_t":"a","pl_avail":"%d","dev":{"ids":"d%d"}}`, i, i%100) },
		"connectivity": func(i int) string {
			return fmt.Sprintf(`{"stat_t":"s/%d","dev_cla":"connectivity","val_tpl":"%s"}`, i, comparisons)
		},
		"who is lost": func(i int) string {
			return fmt.Sprintf(`{"stat_t":"s","dev_cla":"connectivity","pl_off":"%d","dev":{"ids":"d"}}`, i)
		},
		"many for one":      func(i int) string { return fmt.Sprintf(`{"avty_t":"a","dev":{"ids":"d%d"}}`, i) },
		"one after another": func(i int) string { return components(i%3*1000+i, `{"p":"light","~":"%s"}`) },
	}
}

// One publisher floods the bridge: what is counted never passes the bound, and what is held is not more than what is counted.
func TestFlood(t *testing.T) {
	const limit = 2 << 20
	all := floods()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			before, c := heap(), homeassistant.NewLimited(500_000, limit, 4096)
			first := all[name](0)
			kind := "light"
			if strings.Contains(first, "cmps") {
				kind = "device"
			}
			send := func(i int, payload string) error {
				topic := fmt.Sprintf("homeassistant/%s/l%d/config", kind, i)
				return c.Apply(convention.Message{Topic: topic, Payload: []byte(payload)}, false, func(convention.Sign) {})
			}
			refused, n := 0, 0
			for ; refused < 3; n++ {
				err := send(n, all[name](n))
				if rejected, ok := errors.AsType[*convention.Rejected](err); ok && rejected.Reason == "limit" {
					refused++
				} else if err != nil {
					t.Fatal(err)
				}
				if counted := homeassistant.Size(c)[3]; counted > limit {
					t.Fatalf("%d bytes are counted after %d messages, at most %d are allowed", counted, n, limit)
				}
			}
			counted := homeassistant.Size(c)[3]
			if held := heap() - before; held > counted {
				t.Errorf("%d messages hold %d bytes, and %d are counted", n, held, counted)
			}
			if err := send(0, strings.Replace(first, "{", `{"qos":1,`, 1)); err != nil {
				t.Errorf("what is known cannot change: %v", err)
			}
			for i := range n {
				if err := send(i, ""); err != nil {
					t.Fatal(err)
				}
			}
			if got := homeassistant.Size(c); got != [4]int{} {
				t.Errorf("%v is known after all was removed", got)
			}
		})
	}
}

func TestJoinFlood(t *testing.T) {
	const limit = 2 << 20
	for name, payload := range map[string]string{
		"devices":  `{"avty_t":"tele/d%d/LWT","dev":{"ids":["d%[1]d"]}}`,
		"one":      `{"avty_t":"tele/d/LWT","dev":{"ids":["d%d"]}}`,
		"gateways": `{"avty_t":"tele/d%d/LWT","dev":{"ids":["d%[1]d"],"via_device":"` + strings.Repeat("v", 1000) + `%[1]d"}}`,
		"long":     `{"avty_t":"tele/%d` + strings.Repeat("d", 100) + `/LWT","dev":{"ids":["` + strings.Repeat("d", 100) + `%[1]d"]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			before, j := heap(), newJoin(t, "tasmota")
			homeassistant.Limit(j, limit)
			refused, n := false, 0
			for ; !refused; n++ {
				err := j.Apply(convention.Message{Topic: fmt.Sprintf("homeassistant/sensor/%d/config", n), Payload: fmt.Appendf(nil, payload, n)}, false, func(convention.Sign) {})
				if refused = err != nil; refused && !strings.HasPrefix(err.Error(), "limit: ") {
					t.Fatal(err)
				}
			}
			counted := homeassistant.Held(j)
			if held := heap() - before; held > counted || counted > limit {
				t.Errorf("%d messages hold %d bytes, %d are counted, and at most %d are allowed", n, held, counted, limit)
			}
			runtime.KeepAlive(j)
		})
	}
}
