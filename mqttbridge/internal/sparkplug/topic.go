package sparkplug

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holter-iot/holter/mqttbridge/convention"
)

const namespace = "spBv1.0/"

// message is the kind of a message, the third level of its topic (Sparkplug 3.0.0 chapter 4).
type message uint8

const (
	nbirth message = iota + 1
	ndeath
	ndata
	dbirth
	ddeath
	ddata
)

func (m message) ofDevice() bool { return m >= dbirth }

// address is a parsed topic.
type address struct {
	kind                message
	group, node, device string
}

// parse parses a topic. ok is false for topics that are not of a node or a device, such as a host's
// STATE, a command or another namespace.
func parse(topic string) (a address, ok bool, err error) {
	rest, found := strings.CutPrefix(topic, namespace)
	if !found {
		return a, false, nil
	}
	var kind string
	var leaves bool
	a.group, rest, _ = strings.Cut(rest, "/")
	kind, rest, _ = strings.Cut(rest, "/")
	a.node, a.device, leaves = strings.Cut(rest, "/")
	if a.group == "STATE" {
		return a, false, nil
	}
	kinds := [...]string{nbirth: "NBIRTH", ndeath: "NDEATH", ndata: "NDATA", dbirth: "DBIRTH", ddeath: "DDEATH", ddata: "DDATA"}
	i := slices.Index(kinds[:], kind)
	if i <= 0 {
		return a, false, nil
	}
	a.kind = message(i)
	if strings.ContainsAny(topic, "+#\x00") { // no broker sends it
		return a, true, &convention.Rejected{Reason: "topic", Detail: fmt.Sprintf("%q has characters that only filters may have", topic)}
	}
	if a.group == "" || a.node == "" || leaves != a.kind.ofDevice() || leaves && (a.device == "" || strings.Contains(a.device, "/")) {
		return a, true, &convention.Rejected{Reason: "topic", Detail: fmt.Sprintf("%s is not %s<group>/%s/<node>%s", topic, namespace, kind, a.kind.suffix())}
	}
	return a, true, nil
}

func (m message) suffix() string {
	if m.ofDevice() {
		return "/<device>"
	}
	return ""
}

// split splits the id of a node or a device.
func split(id string) (group, node, device string, ok bool) {
	group, rest, _ := strings.Cut(id, "/")
	node, device, leaves := strings.Cut(rest, "/")
	ok = group != "" && node != "" && leaves == (device != "") && !strings.ContainsAny(device, "/") && !strings.ContainsAny(id, "+#\x00")
	return group, node, device, ok
}
