package mqttconformance

import (
	"fmt"
	"slices"
)

// property is a property of a packet of the broker. text is the value of one that is a text or binary data, number that
// of another. User properties have a key, too.
type property struct {
	id        byte
	number    int
	key, text string
}

func (p property) String() string {
	switch {
	case p.id == propUser:
		return fmt.Sprintf("user %q=%q", p.key, p.text)
	case p.text != "":
		return fmt.Sprintf("%#x: %q", p.id, p.text)
	}
	return fmt.Sprintf("%#x: %d", p.id, p.number)
}

type properties []property

// number returns the first value of a property that is a number, and whether there is one.
func (l properties) number(id byte) (int, bool) {
	for _, p := range l {
		if p.id == id {
			return p.number, true
		}
	}
	return 0, false
}

// text returns the value of a property that is a text, and whether there is one.
func (l properties) text(id byte) (string, bool) {
	for _, p := range l {
		if p.id == id {
			return p.text, true
		}
	}
	return "", false
}

// user returns the user properties, each as "key=value".
func (l properties) user() []string {
	var list []string
	for _, p := range l {
		if p.id == propUser {
			list = append(list, p.key+"="+p.text)
		}
	}
	return list
}

// subscriptions returns the subscription identifiers in ascending order.
func (l properties) subscriptions() []int {
	var list []int
	for _, p := range l {
		if p.id == propSubscriptionID {
			list = append(list, p.number)
		}
	}
	slices.Sort(list)
	return list
}

// properties reads properties of which each may come once, but for user properties and subscription identifiers.
func (r *reader) properties(allowed ...byte) properties {
	part := reader{rest: r.take(r.number()), version: r.version}
	if r.err != nil {
		return nil
	}
	var list properties
	for part.err == nil && len(part.rest) > 0 {
		p := part.property()
		if !slices.Contains(allowed, p.id) {
			part.fail("property %#x", p.id)
		}
		if _, ok := list.number(p.id); ok && p.id != propUser && p.id != propSubscriptionID {
			part.fail("property %#x twice", p.id)
		}
		list = append(list, p)
	}
	if part.err != nil {
		r.fail("%w", part.err)
	}
	return list
}

func (r *reader) property() property {
	p := property{id: r.byte()}
	switch p.id {
	case propPayloadFormat, propMaximumQoS, propRetainAvailable, propWildcardAvailable, propSubIDAvailable, propSharedAvailable,
		propRequestProblemInfo, propRequestResponseInfo:
		if p.number = int(r.byte()); p.number > 1 {
			r.fail("property %#x is %d", p.id, p.number)
		}
	case propServerKeepAlive, propTopicAliasMaximum:
		p.number = int(r.two())
	case propReceiveMaximum, propTopicAlias:
		p.number = int(r.two())
		r.positive(p)
	case propMessageExpiry, propSessionExpiry:
		p.number = int(r.four())
	case propMaximumPacketSize:
		p.number = int(r.four())
		r.positive(p)
	case propSubscriptionID:
		p.number = r.number()
		r.positive(p)
	case propContentType, propResponseTopic, propAssignedClientID, propAuthMethod, propResponseInformation, propServerReference, propReasonString:
		p.text = r.text()
	case propCorrelationData, propAuthData:
		p.text = r.binary()
	case propUser:
		p.key, p.text = r.text(), r.text()
	default:
		r.fail("property %#x", p.id)
	}
	return p
}

func (r *reader) positive(p property) {
	if p.number == 0 {
		r.fail("property %#x is 0", p.id)
	}
}
