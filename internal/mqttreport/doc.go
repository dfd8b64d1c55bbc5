// Package mqttreport publishes the states of devices to an MQTT broker, for clients that subscribe
// instead of polling.
//
// A [Reporter] keeps one retained message per device, on the topic PREFIX/DEVICE/state (see [StateTopic] and [State]), and if wanted a
// second one by which Home Assistant discovers a connectivity sensor for it. One more message per source, on [SourceTopic], reports whether the
// source listens: the devices of one that does not are unknown, however many they are, and Home Assistant shows their sensors as unavailable.
// Once it listens again they have the state that they had, as a device that falls silent has until its verdict. A sensor joins the device
// that Home Assistant has already, if [Reporter.Identify] says what it knows that by.
//
// The reporter follows the log of events, so a verdict never waits for it: a broker that is slow or away delays only the reporter. When it
// was away for so long that events are gone, and after each connect, it compares what the broker retains with the registry and publishes
// the difference; what is retained for devices that are gone is cleared.
//
// A [Paho] is the connection that it publishes through. It says on PREFIX/status whether the reporter is there: online, or offline, which
// is its last will, too.
package mqttreport
