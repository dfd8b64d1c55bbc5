// Package mqtt makes the broker of package [github.com/holter-iot/holter/mqtt] a protocol of the
// gateway: MQTT 3.1, 3.1.1 and 5 on its event loops.
//
// The client identifier is the device's id. Its CONNECT opens the session and announces one and a half
// times its keep alive as timeout (MQTT 5, 3.1.2.10), every packet is a heartbeat, and a DISCONNECT with
// reason 0 is a goodbye. A client that lets the broker choose its identifier is no device.
package mqtt
