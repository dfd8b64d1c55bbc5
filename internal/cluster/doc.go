// Package cluster lets several servers share one database. One of them holds its lease and judges
// the fleet; the others stand by, hand requests on to it, and take over when it ends or is lost.
//
// Nothing here makes verdicts safe: that is what the fence of package sqldb is for, which every
// transaction passes. The rows of a [Roster] are for people, for standbys that hand requests on, and
// for a judge that is cut off and has to find out whether there is another one, see [Roster.Ask].
package cluster
