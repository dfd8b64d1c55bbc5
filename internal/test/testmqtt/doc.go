// Package testmqtt helps to test MQTT. It runs a real mosquitto in a temporary directory on free
// ports (see [Mosquitto]), puts a network in front of it that can be cut (see [Proxy]), and
// simulates devices that publish through it (see [Fleet]).
//
// Brokers end with the test, also if the test binary is killed: each is started by a shell that waits for a pipe to be closed.
//
// A test whose broker is not installed is skipped, or fails, as package testenv says.
// deploy/testing/setup.sh installs the programs where that is possible.
package testmqtt
