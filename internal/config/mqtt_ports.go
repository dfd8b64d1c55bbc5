package config

import "slices"

// listenMQTT adds the port for MQTT clients that mqtt.listen names. If that is not given, it is at
// byDefault, unless another port speaks MQTT.
func (r *resolver) listenMQTT(byDefault string) {
	address := r.cfg.mqttListen
	if address == "" && !slices.ContainsFunc(r.cfg.Listen, Listener.speaksMQTT) {
		address = byDefault
	}
	if address != "" && address != off {
		r.cfg.Listen = append(r.cfg.Listen, Listener{Address: address, Protocols: []string{ProtocolMQTT}, at: r.at("mqtt.listen")})
	}
}

// fillAnonymous fills in which MQTT clients need not prove who they are.
func (r *resolver) fillAnonymous() {
	m := &r.cfg.MQTT
	if m.Anonymous != "" {
		return
	}
	m.Anonymous = AnonymousLoopback
	if r.cfg.Open && m.Users == "" && !r.hasSecrets() {
		m.Anonymous = AnonymousAnyone
	}
}

// checkMQTT rejects anonymous clients from everywhere without --open, a broker that admits nobody, and
// settings of logins without a port to log in at.
func (r *resolver) checkMQTT() {
	m, c := &r.cfg.MQTT, &r.cfg
	r.checkRoute()
	if !slices.ContainsFunc(c.Listen, Listener.speaksMQTT) {
		if (m.Users != "" || m.Rules != "") && len(r.errs) == 0 {
			r.fail("no port speaks mqtt: add --mqtt HOST:PORT, or remove this", "mqtt.users", "mqtt.rules")
		}
		return
	}
	certified := slices.ContainsFunc(c.Listen, func(l Listener) bool { return l.speaksMQTT() && l.TLS != nil && l.TLS.Clients != "" })
	switch {
	case m.Anonymous == AnonymousAnyone && !c.Open && !r.unsure:
		r.fail("anyone needs --open (or open: true), which admits every client", "mqtt.anonymous")
	case m.Anonymous == AnonymousNever && m.Users == "" && !r.hasSecrets() && !certified && !r.unsure:
		r.fail("no client could log in: add users: FILE; holter password makes its lines", "mqtt.anonymous")
	}
}

// checkRoute rejects messages for the clients of other processes where there are none, or no clients.
func (r *resolver) checkRoute() {
	speaks := slices.ContainsFunc(r.cfg.Listen, Listener.speaksMQTT)
	switch {
	case !r.cfg.MQTT.Routed || len(r.errs) > 0:
	case r.ear && !speaks:
		r.fail("no port speaks mqtt: add --mqtt HOST:PORT, or remove this", "mqtt.route")
	case !r.ear && r.cfg.Link.Listen == "":
		r.fail("there are no ears whose clients messages could go to: add --link HOST:PORT or unix:PATH, where ears connect, or remove this", "mqtt.route")
	}
}

// hasSecrets reports whether devices have secrets, which are passwords of MQTT clients, too.
func (r *resolver) hasSecrets() bool { return r.cfg.Token.IsSet() || r.cfg.DevicesFile != "" }

// checkReach rejects a port that other machines reach, although neither devices nor clients have to
// prove there who they are, and nobody said that this is meant.
func (r *resolver) checkReach(l *Listener) {
	onlyMQTT := len(l.Protocols) == 1 && l.speaksMQTT()
	reach := l.reach()
	switch {
	case reach == "", r.cfg.Open, r.hasSecrets(), l.Certified(), r.unsure:
	case onlyMQTT && r.cfg.MQTT.Users == "":
		r.errs = append(r.errs, l.Mistake(reach+", and no client has to log in: "+
			"add users: FILE below mqtt (holter password makes its lines), --devices-file FILE with the devices that may come in, "+
			"or --open to admit every client"))
	case !onlyMQTT:
		r.errs = append(r.errs, l.Mistake(reach+", and there is no token: "+
			"add --token SECRET (HOLTER_TOKEN, or token: in the file), --devices-file FILE with the devices that may come in, "+
			"or --open to let every device in"))
	}
}
