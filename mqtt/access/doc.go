// Package access decides which clients may connect to the MQTT server, with which client ids, and
// what they may publish and subscribe to. It knows neither sockets nor sessions: the server asks
// with a [Login] and gets a [Grant].
//
// # Proofs
//
// A client proves who it is by a client certificate, by its device's token, or by a user name and
// password of the users file. Other clients are anonymous, and [Config.Anonymous] says which of
// them may connect; [Access.Decide] has the details.
//
// # Users file
//
// The users file has a line for each user, NAME:HASH. A name has no colon. Empty lines and lines
// that begin with # are skipped. It may have 64 MiB.
//
//	anna:$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHQ$1y1FZ…
//
// These hashes are understood:
//
//	$argon2id$v=19$m=…,t=…,p=…$SALT$KEY   as HashPassword and `holter password` write them
//	$2a$… $2b$… $2y$…                     bcrypt, cost 4 to 16, of a password's first 72 bytes
//	$7$ITERATIONS$SALT$KEY                PBKDF2 with HMAC-SHA512, as mosquitto_passwd writes them
//
// # Rules file
//
// Without a rules file, whoever may connect may use every client id and topic. The server's own
// topics are for the server to protect. With one, nothing is allowed that no rule allows:
//
//	groups:
//	  technicians: [anna, ben]
//	rules:
//	  - users: [meter-gateway]
//	    client_ids: ["%u", "%u-*"]
//	    publish: ["site/%c/#"]
//	    subscribe: ["cmd/%c/#", "$share/workers/jobs/#"]
//	    deny_publish: ["site/%c/secret"]
//	  - groups: [technicians]
//	    subscribe: ["site/#"]
//	  - anonymous: true
//	    client_ids: ["guest-*"]
//	    publish: ["guests/%c"]
//
// A rule is for users, for groups of users, for clients that are anonymous (anonymous: true), and
// for all who may connect (everyone: true). All rules that are for a client apply to it, in any
// order: one that denies a topic wins over those that allow it. The file may have 4 MiB and 60,000
// keys, and a filter 32 levels.
//
// client_ids lists the client ids that the clients of the rule may use; a * at the end stands for
// any text. A client to which no rule with client_ids applies may use every id. It may then end the
// connection of another client with that id, so bind those that are not trusted. With "%u-*", a
// user called a may use the ids of a user called a-b.
//
// The other lists hold topic filters. A wildcard at the first level matches no topic that begins
// with $ (MQTT 5, 4.7.2): such topics are allowed and denied by filters that begin with $. A
// subscription is allowed if
//
//   - one filter of subscribe matches every topic that the subscription can match: a/# allows a,
//     a/+ and a/b/#, but a/+ does not allow a/#;
//   - and no filter of deny_subscribe matches any topic that it can match: if a/b is denied, a/+
//     and # are refused, and a/c is not.
//
// Several filters that allow a subscription only together do not allow it. A shared subscription is
// judged by its topic filter. A filter $share/GROUP/FILTER in a rule is for shared subscriptions of
// this group only.
//
// In topic filters, %u stands for the user and %c for the client id; in client_ids, there is only
// %u. %% is a percent sign. A user or a client id fills no topic filter if it is empty, begins with
// $, or contains /, + or #: it could stand for more than one level. A filter that cannot be filled
// allows nothing, and denies everything.
//
// # Changes
//
// [Access.Run] reads both files again when they have changed. If one is wrong, that is logged, and
// what held before stays in effect. A client whose user was removed, whose password was changed, or
// for which other rules apply now, has a Grant that is no longer Valid. All other grants stay
// valid, whatever else has changed in the files. [Access.Renew] judges a client by the new rules
// without another login.
//
// # Cost
//
// A grant takes 80 bytes. Anonymous clients share one, and so do clients with the same user and
// password, unless a rule for them says %c.
//
// Checking a password takes some 30 ms of a processor, by design; for an unknown user it takes as
// long as for a known one. As many are checked at a time as there are processors, 512 more wait,
// and others are told to come again. Those go first that follow the fewest wrong passwords, from
// their address (for IPv6, one /64) and for their user, in this minute and the one before; if all
// places are taken, the one that follows the most makes room. Of the passwords from one address, 8
// may be checked or wait for one user, and 8 for all unknown users together. So whoever tries
// passwords keeps out no other user, nor the same user from elsewhere.
//
// The outcome of a check is remembered for ten minutes. So a fleet that reconnects is let in at
// once, a device that repeats a wrong password costs nothing, and of those who say the same at once,
// one is checked for all. After 60 different wrong passwords in a minute from one address for one
// user name, no password for it is looked at from there, for up to two minutes.
package access
