package mqttreport

// LimitIdentities bounds the devices whose identity is kept.
func (r *Reporter) LimitIdentities(n int) { r.identities.limit = n }
