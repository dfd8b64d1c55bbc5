package tasmota

// SetLimit bounds the devices that are known by their descriptions.
func (t *Tasmota) SetLimit(devices int) { t.limit = devices }
