package httpapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/klauspost/compress/gzip"

	"github.com/holter-iot/holter/liveness"
)

const (
	mapPath          = "/v1/fleet/map"
	mapVersionHeader = "Holter-Map-Version"
	mapGroupsHeader  = "Holter-Map-Groups"
)

func (a *API) registerMap(mux routes, api huma.API) {
	param := func(name, meaning string) *huma.Param {
		return &huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: huma.TypeString, Enum: []any{"group"}}, Description: meaning}
	}
	op := operation("overview", "get-fleet-map", "GET "+mapPath, "The states of all devices, 4 bits each",
		"Byte i has the device with number 2i in its lower four bits, and number 2i+1 in its upper ones; number 0 is never used. 0: there is no device; "+
			"1: never_seen, 2: online, 3: late, 4: sleeping, 5: offline, 6: unknown, 7: suspect, 8: pending. Devices without a number are not in it. "+
			"The header "+mapVersionHeader+" has the version, with which /v1/fleet/stream goes on from this map. With an If-None-Match of the ETag, the "+
			"answer is 304 while nothing has changed. "+pictureMeans)
	op.Parameters = []*huma.Param{
		param("of", "group: the groups instead of the states, two bytes a device, little endian. 0: no device or no group; i+1: the i-th group of /v1/groups, from 0 on."),
		param("by", "group: the states, ordered by group, as /v1/groups has them, those of none last, and then by number, without holes. "+
			"The header "+mapGroupsHeader+" has how many there are of each group, last those of none, separated by commas."),
	}
	op.Responses = textResponses("application/octet-stream", "The map", map[string]string{"422": "A bad parameter"})
	op.Responses["200"].Content["application/octet-stream"].Schema.Format = "binary"
	op.Responses["200"].Headers = map[string]*huma.Param{
		"ETag":           {Schema: &huma.Schema{Type: huma.TypeString}, Description: "Stands for this map."},
		mapVersionHeader: {Schema: &huma.Schema{Type: huma.TypeInteger}, Description: "The version of the states in it."},
		mapGroupsHeader:  {Schema: &huma.Schema{Type: huma.TypeString}, Description: "With by=group: how many devices there are of each group, last those of none."},
	}
	op.Responses["304"] = &huma.Response{Description: "Nothing has changed"}
	mux.describe(api, a.fleetMap, &op)
}

func (a *API) fleetMap(w http.ResponseWriter, r *http.Request) {
	kind, err := mapOf(r)
	if err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	p := a.fleet.latest(a.registry)
	m := p.maps[kind]
	header := w.Header()
	header.Set("Vary", "Accept-Encoding")
	header.Set("Cache-Control", "private, no-cache")
	header.Set("ETag", "W/"+m.tag) // weak, because it is compressed for some
	header.Set(mapVersionHeader, strconv.FormatUint(p.version, 10))
	if kind == mapByGroup {
		header.Set(mapGroupsHeader, p.sizes())
	}
	if hasTag(strings.ReplaceAll(r.Header.Get("If-None-Match"), "W/", ""), m.tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", "application/octet-stream")
	body := m.bytes()
	if takesGzip(r.Header.Get("Accept-Encoding")) {
		header.Set("Content-Encoding", "gzip")
		body = m.gzipped()
	}
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // the client may be gone
	}
}

// mapKind is one of the maps of a picture.
type mapKind int

const (
	mapOfStates mapKind = iota
	mapOfGroups
	mapByGroup
	mapKinds
)

// mapOf returns which map a request asks for.
func mapOf(r *http.Request) (mapKind, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return 0, fmt.Errorf("query: %w; percent-encode what is not a letter or a digit", err)
	}
	if err := onlyKnown(query, []string{"by", "of"}); err != nil {
		return 0, err
	}
	of, by := query.Get("of"), query.Get("by")
	for name, value := range map[string]string{"of": of, "by": by} {
		if value != "" && value != "group" {
			return 0, fmt.Errorf("query.%s: %.40q is unknown; want group, or nothing", name, value)
		}
	}
	switch {
	case of != "" && by != "":
		return 0, errors.New("query: want one of by and of")
	case of != "":
		return mapOfGroups, nil
	case by != "":
		return mapByGroup, nil
	}
	return mapOfStates, nil
}

// takesGzip reports whether a header Accept-Encoding has gzip, other than with q=0.
func takesGzip(header string) bool {
	for one := range strings.SplitSeq(header, ",") {
		name, weight, weighed := strings.Cut(one, ";")
		if !strings.EqualFold(strings.TrimSpace(name), "gzip") {
			continue
		}
		_, text, _ := strings.Cut(weight, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return !weighed || err == nil && q > 0
	}
	return false
}

// fleetMap is one map of a picture. It is made when it is asked for first, and compressed once for all. It
// may be used concurrently.
type fleetMap struct {
	tag     string
	bytes   func() []byte
	gzipped func() []byte
}

func newFleetMap(tag string, content func() []byte) *fleetMap {
	m := &fleetMap{tag: `"` + tag + `"`, bytes: sync.OnceValue(content)}
	m.gzipped = sync.OnceValue(func() []byte {
		var to bytes.Buffer
		w, err := gzip.NewWriterLevel(&to, gzip.BestSpeed)
		if err == nil {
			_, err = w.Write(m.bytes())
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			panic("httpapi: gzip into memory failed: " + err.Error())
		}
		return to.Bytes()
	})
	return m
}

// groupBytes returns the groups of all devices by number, as mapOfGroups.
func groupBytes(groups []uint16) []byte {
	to := make([]byte, 0, 2*len(groups))
	for _, g := range groups {
		to = binary.LittleEndian.AppendUint16(to, g)
	}
	return to
}

// byGroup returns the states of the devices ordered by group and number, and how many there are of each
// group; those of none come last.
func byGroup(cells []byte, groups []uint16, n int) (states []byte, sizes []int) {
	sizes = make([]int, n+1)
	place := func(number int) int { // of the group, those of none behind all
		return (int(groups[number]) + n) % (n + 1)
	}
	each := func(do func(number int)) {
		for number := range groups {
			if cellAt(cells, number) != noDevice {
				do(number)
			}
		}
	}
	each(func(number int) { sizes[place(number)]++ })
	next := make([]int, n+1) // where the next device of each group goes
	for i := range n {
		next[i+1] = next[i] + sizes[i]
	}
	all := next[n] + sizes[n]
	states = make([]byte, (all+1)/2)
	each(func(number int) {
		at := &next[place(number)]
		setCell(states, *at, cellAt(cells, number))
		*at++
	})
	return states, sizes
}

// A cell is the four bits of a device: noDevice, or 1 more than its state.
const noDevice = 0

func cellOf(s liveness.State) byte { return byte(s) + 1 }

func cellAt(cells []byte, number int) byte { return cells[number/2] >> (number % 2 * 4) & 0xf }

func setCell(cells []byte, number int, cell byte) {
	shift := number % 2 * 4
	cells[number/2] = cells[number/2]&^(0xf<<shift) | cell<<shift
}

// joined returns numbers separated by commas.
func joined(numbers []int) string {
	texts := make([]string, 0, len(numbers))
	for _, n := range numbers {
		texts = append(texts, strconv.Itoa(n))
	}
	return strings.Join(texts, ",")
}
