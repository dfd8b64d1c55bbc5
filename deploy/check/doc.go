// Package check holds the tests of deploy/compose and deploy/kubernetes. It is a module of its own, so that nothing
// else needs the types of Compose and Kubernetes.
package check
