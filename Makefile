# `make` lists the targets. All of them need Go and make only: what else they use is installed, or built
# from source once per version and machine.

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

GO       ?= go
BENCH    ?= .
COUNT    ?= 1
# How long each fuzz target runs.
FUZZTIME ?= 10s
# Which parts of `make soak` run: a regular expression, as of go test -run.
SOAK     ?= ^TestSoak|^Fuzz

LINT_VERSION   := v2.15.0
BUF_VERSION    := v1.75.0
PB_VERSION     := v1.36.12
PBGRPC_VERSION := v1.6.2

TOOLS   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/holter-tools
LINT    := $(TOOLS)/golangci-lint-$(LINT_VERSION)/golangci-lint
BUF     := $(TOOLS)/buf-$(BUF_VERSION)/buf
PB      := $(TOOLS)/protoc-gen-go-$(PB_VERSION)/protoc-gen-go
PBGRPC  := $(TOOLS)/protoc-gen-go-grpc-$(PBGRPC_VERSION)/protoc-gen-go-grpc
MODULES := . bench internal/console/build deploy/check deploy/grafana/check deploy/packaging
# The packages whose tests take longest begin first, so that none of them is alone at the end.
RUN     := $(GO) run ./internal/test/run -first './internal/store ./internal/cli ./gateway ./internal/server'
# The race detector needs a C compiler; without one Go sets CGO_ENABLED=0.
RACE    := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the programs into bin/, without symbols and debug information
	@mkdir -p bin
	CGO_ENABLED=0 $(GO) build -trimpath -tags grpcnotrace -ldflags "-s -w" -o bin/ ./cmd/...

.PHONY: fmt
fmt: $(LINT) ## Format the code
	$(LINT) fmt

.PHONY: lint
lint: $(LINT) ## Check format and lint
	@status=0; $(LINT) fmt --diff || status=1; \
	for m in $(MODULES); do (cd $$m && $(LINT) run ./...) || status=1; done; exit $$status

.PHONY: cross
cross: ## Check that the program compiles for macOS and Windows, where it is a client
	$(GO) test -count=1 -run '^TestClientBuildsElsewhere$$' ./internal/archtest

.PHONY: proto
proto: $(BUF) $(PB) $(PBGRPC) ## Generate the code of the .proto files anew
	PATH="$(dir $(PB)):$(dir $(PBGRPC)):$$PATH" $(BUF) generate --path internal/cluster/link/linkpb --path internal/cluster/route/routepb

.PHONY: console
console: ## Build the web console anew from internal/console/src, and check its types where Node is
	$(GO) generate ./internal/console
	$(GO) test -count=1 -run 'TestDist|TestTypes|TestBudget' ./internal/console

.PHONY: console-test
console-test: ## Test the web console in a browser (chromium)
	$(GO) test -count=1 -v ./internal/console

.PHONY: fixture
fixture: ## Keep the fleet of a release for the test of upgrades: make fixture VERSION=v0.1.0
	$(GO) test -count=1 -run '^TestMakeFixture$$' ./internal/cli -fixture $(VERSION)

.PHONY: tidy
tidy: ## Tidy go.mod and go.sum of each module
	@for m in $(MODULES); do (cd $$m && $(GO) mod tidy) || exit 1; done

.PHONY: test
test: ## Test that the program works, with SQLite and one of each real server (10 minutes on 2 cores)
	@deploy/testing/setup.sh test || true # the tests say what they lack
	@$(RUN) .

.PHONY: check
check: ## All else that a change has to pass: lint, go.mod, known vulnerabilities, and the tests with -race, with all databases, programs and modules
	@deploy/testing/setup.sh all || true
	@status=0; $(MAKE) -k tidy-check lint vuln || status=1; \
	$(if $(RACE),,echo 'No C compiler: the race detector is off.';) \
	$(RUN) -level check $(RACE) $(MODULES) || status=1; exit $$status

.PHONY: soak
soak: ## Test what needs hours or real time, or a part of it, as SOAK=TestSoakChaos or SOAK=Fuzz, into bench/results/soak.md (90 minutes)
	@deploy/testing/setup.sh all || true
	@$(RUN) -level soak -run '$(SOAK)' -fuzz $(FUZZTIME) -timeout 6h -md bench/results/soak.md . bench

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (10s)
	@$(RUN) -run '^Fuzz' -fuzz $(FUZZTIME) .

.PHONY: bench
bench: ## Run the benchmarks that match BENCH (all), COUNT times (1)
	$(GO) test -run '^$$' -bench '$(BENCH)' -count $(COUNT) ./...

.PHONY: bench-rivals
bench-rivals: ## Measure timer beside other libraries, into bench/results/rivals.md (60 minutes)
	cd bench && $(GO) run . rivals -rounds 10 -md results/rivals.md -svg results/img

.PHONY: bench-gateway
bench-gateway: ## Measure the gateway and its protocols beside bare gnet, into bench/results/gateway.md (30 minutes)
	cd bench && $(GO) run . gateway -md results/gateway.md

CHAOS ?= 5m
.PHONY: chaos
chaos: ## Kill, stop, starve and restart holter serve for CHAOS (5m) with each database, and score every verdict
	cd bench && $(GO) run . chaos -for $(CHAOS) -md results/chaos.md
	cd bench && $(GO) run . chaos -for $(CHAOS) -database postgres -md results/chaos.md
	cd bench && $(GO) run . chaos -for $(CHAOS) -database mariadb -md results/chaos.md

.PHONY: chaos-nodes
chaos-nodes: ## The same with two servers on one database: a judge and a standby
	cd bench && $(GO) run . chaos -nodes 2 -for $(CHAOS) -database postgres -md results/chaos.md
	cd bench && $(GO) run . chaos -nodes 2 -for $(CHAOS) -database mariadb -md results/chaos.md

.PHONY: chaos-ears
chaos-ears: ## The same with three ears that hold the devices' connections, with one server and with two on one database
	cd bench && $(GO) run . chaos -ears 3 -for $(CHAOS) -md results/chaos.md
	cd bench && $(GO) run . chaos -ears 3 -nodes 2 -for $(CHAOS) -database postgres -md results/chaos.md

FOR      ?= 60m
# The version before: a commit or tag. By default the latest release before this commit; none without a release.
PREVIOUS ?= $(shell git describe --tags --abbrev=0 HEAD^ 2>/dev/null)
.PHONY: chaos-cluster
chaos-cluster: ## The same for FOR (60m) with all at once: three servers, PostgreSQL and a replica, six ears behind HAProxy, each in a network namespace, 30,000 devices, upgrades from PREVIOUS
	@dir=; trap 'test -z "$$dir" || { git worktree remove --force "$$dir/source"; rm -rf "$$dir"; }' EXIT; trap 'exit 130' INT TERM; \
	if [ -n "$(PREVIOUS)" ]; then \
		dir=$$(mktemp -d) && git worktree add --quiet --detach "$$dir/source" $(PREVIOUS) && \
		(cd "$$dir/source" && CGO_ENABLED=0 $(GO) build -o "$$dir/holter-$(notdir $(PREVIOUS))" ./cmd/holter) || exit 1; \
		set -- -previous "$$dir/holter-$(notdir $(PREVIOUS))"; \
	else \
		echo 'There is no release: without PREVIOUS=COMMIT nothing is upgraded.'; \
	fi; \
	cd bench && $(GO) run . chaos -nodes 3 -ears 6 -balancer -namespaces -devices 30000 -for $(FOR) -database postgres -md results/chaos.md "$$@"

ATTACK ?= 15
.PHONY: attack
attack: ## Attack holter serve in fourteen ways for ATTACK seconds (15) each, and by way of HAProxy, into bench/results/attack.md (7 minutes)
	cd bench && $(GO) run . attack -seconds $(ATTACK) -md results/attack.md

.PHONY: bench-store
bench-store: ## Measure store and jobs on all their databases (5 minutes)
	$(GO) test -run '^$$' -bench . -benchtime 3s -count $(COUNT) ./internal/store ./internal/jobs

.PHONY: bench-delivery
bench-delivery: ## Measure delivery: a mass of verdicts, and webhooks, into bench/results/delivery.md (10 minutes)
	cd bench && $(GO) run . delivery -md results/delivery.md

.PHONY: bench-jobs
bench-jobs: ## Measure the queue of jobs beside River, on PostgreSQL, into bench/results/jobs.md (5 minutes)
	cd bench && $(GO) run . jobs -md results/jobs.md

.PHONY: bench-learn
bench-learn: ## Simulate learned deadlines beside RFC 6298, φ-accrual and NFD-E, into bench/results/learn.md (3 minutes)
	cd bench && $(GO) run . learn -md results/learn.md -svg results/img

.PHONY: bench-mqtt
bench-mqtt: ## Measure the bridge, and the broker beside mosquitto and mochi, into bench/results/mqtt.md (35 minutes)
	cd bench && $(GO) run . mqtt -md results/mqtt.md

.PHONY: bench-e2e
bench-e2e: ## Measure server, ears and load generator end to end with 500,000 connections, into bench/results/e2e.md (95 minutes)
	cd bench && $(GO) run . e2e -md results/e2e.md
	cd bench && $(GO) run . e2e -ears 2 -md results/e2e.md

.PHONY: bench-e2e-mqtt
bench-e2e-mqtt: ## Measure judge, two ears and 500,000 MQTT clients end to end, into bench/results/e2e.md (60 minutes)
	cd bench && $(GO) run . e2e -ears 2 -protocol mqtt -md results/e2e.md

.PHONY: clean
clean: ## Remove what the targets above leave behind, but not the tools
	rm -rf bin dist .cache holter *.test *.out *.prof

# --- parts of `make check` ----------------------------------------------------

.PHONY: tidy-check
tidy-check:
	@status=0; for m in $(MODULES); do (cd $$m && $(GO) mod tidy -diff) || status=1; done; exit $$status

# --- tools --------------------------------------------------------------------

$(LINT):
	GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)

$(BUF):
	GOBIN=$(@D) $(GO) install github.com/bufbuild/buf/cmd/buf@$(BUF_VERSION)

$(PB):
	GOBIN=$(@D) $(GO) install google.golang.org/protobuf/cmd/protoc-gen-go@$(PB_VERSION)

$(PBGRPC):
	GOBIN=$(@D) $(GO) install google.golang.org/grpc/cmd/protoc-gen-go-grpc@$(PBGRPC_VERSION)

include deploy/packaging/release.mk
