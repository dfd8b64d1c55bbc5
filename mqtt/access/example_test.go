package access_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/holter-iot/holter/mqtt/access"
)

const exampleRules = `
groups:
  technicians: [anna, ben]
rules:
  - users: [meter-gateway]
    client_ids: ["%u", "%u-*"]
    publish: ["site/%c/#"]
    subscribe: ["cmd/%c/#", "$share/workers/jobs/#"]
    deny_publish: ["site/%c/secret"]
  - groups: [technicians]
    subscribe: ["site/#"]
`

func Example() {
	folder, err := os.MkdirTemp("", "access")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	users, rules := filepath.Join(folder, "users"), filepath.Join(folder, "rules.yaml")
	hash, err := access.HashPassword("secret")
	if err != nil {
		panic(err)
	}
	if err := os.WriteFile(users, []byte("meter-gateway:"+hash+"\n"), 0o600); err != nil {
		panic(err)
	}
	if err := os.WriteFile(rules, []byte(exampleRules), 0o600); err != nil {
		panic(err)
	}

	a, err := access.New(access.Config{Users: users, Rules: rules, Anonymous: access.Never})
	if err != nil {
		panic(err)
	}
	client := access.Login{ClientID: "meter-gateway-7", User: "meter-gateway", Password: []byte("secret")}
	g, ok, err := a.Decide(client)
	if !ok { // the password has to be computed
		g, err = a.Login(context.Background(), client)
	}
	if err != nil {
		panic(err)
	}
	for _, topic := range []string{"site/meter-gateway-7/power", "site/meter-gateway-7/secret", "site/other/power"} {
		fmt.Println("publish to", topic, g.MayPublish(topic))
	}
	for _, filter := range []string{"cmd/meter-gateway-7/+", "cmd/#", "$share/workers/jobs/+"} {
		fmt.Println("subscribe to", filter, g.MaySubscribe(filter))
	}
	client.ClientID = "other"
	_, err = a.Login(context.Background(), client)
	fmt.Println(err)

	// Output:
	// publish to site/meter-gateway-7/power true
	// publish to site/meter-gateway-7/secret false
	// publish to site/other/power false
	// subscribe to cmd/meter-gateway-7/+ true
	// subscribe to cmd/# false
	// subscribe to $share/workers/jobs/+ true
	// access: the client id is not one that this user may use
}
