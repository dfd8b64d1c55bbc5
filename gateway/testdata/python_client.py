"""A client of Eclipse Paho for Python at an MQTT broker.

    python3 python_client.py HOST PORT 3.1.1|5 play
    python3 python_client.py HOST PORT 3.1.1|5 hold|hold-will

play tries all that clients do, and prints what went wrong; its exit status is 1 then. hold and
hold-will connect, print "connected" and stay until they are killed.
"""

import sys
import time

import paho.mqtt.client as mqtt
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

HOST, PORT, VERSION, MODE = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
V5 = VERSION == "5"
PATIENCE = 60  # seconds for each thing that must come


def properties(kind, **values):
    """Returns the properties of a packet, none before MQTT 5."""
    if not V5:
        return None
    p = Properties(kind)
    for name, value in values.items():
        setattr(p, name, value)
    return p


def number(code):
    """Returns a return or reason code, which Paho has in several forms."""
    return int(getattr(code, "value", code))


class Client:
    """A client that works in the caller's thread, and only while that waits for something."""

    def __init__(self, client_id, clean=True, will=None):
        callbacks = getattr(mqtt, "CallbackAPIVersion", None)  # of Paho 2, which has to be told
        first = [callbacks.VERSION1] if callbacks else []
        if V5:
            self.paho = mqtt.Client(*first, client_id=client_id, protocol=mqtt.MQTTv5)
        else:
            self.paho = mqtt.Client(*first, client_id=client_id, clean_session=clean, protocol=mqtt.MQTTv311)
        if will:
            self.paho.will_set(*will, qos=1)
        self.clean = clean
        self.code, self.present, self.ended = None, None, None
        self.granted, self.sent, self.messages = {}, set(), []
        self.paho.on_connect = self.on_connect
        self.paho.on_disconnect = lambda *args: setattr(self, "ended", number(args[2]))
        self.paho.on_subscribe = self.on_subscribe
        self.paho.on_publish = lambda client, userdata, mid: self.sent.add(mid)
        self.paho.on_message = lambda client, userdata, message: self.messages.append(message)

    def on_connect(self, client, userdata, flags, code, *_):
        self.code, self.present = number(code), bool(flags["session present"])

    def on_subscribe(self, client, userdata, mid, codes, *_):
        self.granted[mid] = [number(code) for code in codes]

    def until(self, what, done):
        """Works until done() is true."""
        end = time.monotonic() + PATIENCE
        while not done():
            if time.monotonic() > end:
                raise AssertionError("in vain it waited for " + what)
            if self.ended is not None:
                raise AssertionError("its connection ended with %d while it waited for %s" % (self.ended, what))
            self.paho.loop(0.1)

    def connect(self):
        self.code, self.ended = None, None
        if V5:
            kept = properties(PacketTypes.CONNECT, SessionExpiryInterval=0 if self.clean else 600)
            self.paho.connect(HOST, PORT, keepalive=60, clean_start=self.clean, properties=kept)
        else:
            self.paho.connect(HOST, PORT, keepalive=60)
        self.until("CONNACK", lambda: self.code is not None)
        equal("code of CONNACK", self.code, 0)
        return self

    def disconnect(self):
        self.paho.disconnect()
        for _ in range(PATIENCE * 10):
            if self.ended is not None:
                break
            self.paho.loop(0.1)
        equal("code of the end", self.ended, 0)

    def kill(self):
        """Ends the connection without a DISCONNECT."""
        self.paho.socket().close()

    def subscribe(self, topic, qos):
        _, mid = self.paho.subscribe(topic, qos)
        self.until("SUBACK", lambda: mid in self.granted)
        equal("codes of SUBACK for " + topic, self.granted[mid], [qos])

    def publish(self, topic, payload, qos=0, retain=False, **values):
        info = self.paho.publish(topic, payload, qos, retain, properties(PacketTypes.PUBLISH, **values))
        self.until("the acknowledgement of a message on " + topic, lambda: info.mid in self.sent)

    def message(self, topic, payload, qos):
        """Wants a message to be the next, and returns it."""
        self.until("a message on " + topic, lambda: self.messages)
        got = self.messages.pop(0)
        equal("topic", got.topic, topic)
        equal("payload on " + topic, got.payload[:40], payload[:40])
        equal("length of the payload on " + topic, len(got.payload), len(payload))
        equal("QoS on " + topic, got.qos, qos)
        return got


def equal(what, got, want):
    if got != want:
        raise AssertionError("%s is %r, want %r" % (what, got, want))


def messages(c):
    """QoS 0, 1 and 2, both ways."""
    for qos in range(3):
        c.subscribe("x/%d" % qos, qos)
    for qos in range(3):
        for payload in (b"", b"short", b"long" * 30000):
            c.publish("x/2", payload, qos)
            equal("retain of a live message", c.message("x/2", payload, qos).retain, False)
            c.publish("x/%d" % qos, payload, 2)
            c.message("x/%d" % qos, payload, qos)


def retained(c):
    c.publish("kept/a", b"1", 1, retain=True)
    c.publish("kept/b", b"2", 1, retain=True)
    c.publish("kept/b", b"", 1, retain=True)
    c.subscribe("kept/#", 1)
    equal("retain of a retained message", c.message("kept/a", b"1", 1).retain, True)
    c.publish("kept/end", b"end", 1)
    c.message("kept/end", b"end", 1)
    c.publish("kept/a", b"", 1, retain=True)
    c.message("kept/a", b"", 1)


def wills(c):
    c.subscribe("will/of/+", 1)
    Client("py-bye", will=("will/of/py-bye", b"gone")).connect().disconnect()
    Client("py-killed", will=("will/of/py-killed", b"gone")).connect().kill()
    c.message("will/of/py-killed", b"gone", 1)


def session(c):
    """A session outlives its connection."""
    other = Client("py-kept", clean=False).connect()
    equal("session present at first", other.present, False)
    other.subscribe("later", 2)
    other.disconnect()
    for qos in (1, 2):
        c.publish("later", b"%d" % qos, qos)
    other.connect()
    equal("session present", other.present, True)
    for qos in (1, 2):
        other.message("later", b"%d" % qos, qos)
    other.disconnect()


def request(c):
    """What only MQTT 5 has: a request with user properties, and its response."""
    c.subscribe("ask", 1)
    c.subscribe("answer/py", 2)
    users = [("a", "1"), ("b", "ü"), ("a", "2")]
    c.publish("ask", b"?", 1, ResponseTopic="answer/py", CorrelationData=b"\x00\xff", UserProperty=users, ContentType="text/plain",
              MessageExpiryInterval=600)
    got = c.message("ask", b"?", 1).properties
    equal("user properties", got.UserProperty, users)
    equal("response topic", got.ResponseTopic, "answer/py")
    equal("correlation data", got.CorrelationData, b"\x00\xff")
    equal("content type", got.ContentType, "text/plain")
    c.publish(got.ResponseTopic, b"!", 2, CorrelationData=got.CorrelationData)
    equal("correlation data of the response", c.message("answer/py", b"!", 2).properties.CorrelationData, b"\x00\xff")


def play():
    failed = False
    c = Client("py").connect()
    for step in [messages, retained, wills, session] + ([request] if V5 else []):
        try:
            step(c)
        except AssertionError as e:
            print("%s: %s" % (step.__name__, e))
            failed = True
            break  # what comes late would make the next one fail
    c.disconnect()
    sys.exit(failed)


def hold(will=None):
    c = Client("py", will=will).connect()
    print("connected", flush=True)
    while True:
        c.paho.loop(1)


{"play": play, "hold": hold, "hold-will": lambda: hold(("will/of/py", b"gone"))}[MODE]()
