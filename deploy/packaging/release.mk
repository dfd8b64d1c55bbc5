# Targets that make a release, and check one. docs/contribute/release.md says when to run which.

CYCLONEDX_VERSION := v1.10.0
VULN_VERSION      := v1.9.0

CYCLONEDX := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)/cyclonedx-gomod
VULN      := $(TOOLS)/govulncheck-$(VULN_VERSION)/govulncheck

# The event loops of the gateway are those of Linux (epoll); on the others the program is a client.
PLATFORMS   ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64
DIST        ?= $(CURDIR)/dist
RELEASE     := $(CURDIR)/.cache/release
# A program for Linux may have 42 MiB: a guard against a library that nobody wanted.
SIZE_LIMIT  ?= 44040192
SBOM_FLAGS  := -json -licenses -std -noserial -notimestamp

# All that a release is made of has the time of its commit.
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

.PHONY: release
release: release-programs $(CYCLONEDX) ## Make a release of this commit, its version from its tag: archives, packages, image, SBOM, checksums, into dist/
	@rm -rf $(DIST)
	@$(MAKE) release-pack
	@v=$$(cat $(RELEASE)/version); for p in $(RELEASE)/bin/*; do \
		$(CYCLONEDX) bin $(SBOM_FLAGS) -version "v$$v" -output "$(DIST)/holter_$${v}_$$(basename $$p | tr - _).cdx.json" $$p/holter* 2> $(RELEASE)/sbom.log \
			|| { cat $(RELEASE)/sbom.log; exit 1; }; \
	done
	@cd $(DIST) && LC_ALL=C && sha256sum NOTICE holter* > SHA256SUMS
	@ls -l $(DIST)

# The programs of all PLATFORMS, the manual pages and the completions. -buildvcs stamps the version:
# the tag of this commit; else one made of the time and the commit; +dirty if files were changed.
.PHONY: release-programs
release-programs:
	@rm -rf $(RELEASE) && mkdir -p $(RELEASE)/share/completions $(RELEASE)/host
	@for p in $(PLATFORMS); do \
		echo "go build $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -tags grpcnotrace -buildvcs=true -ldflags "-s -w" -o $(RELEASE)/bin/$$(echo $$p | tr / -)/ ./cmd/holter || exit 1; \
	done
	@CGO_ENABLED=0 $(GO) build -trimpath -tags grpcnotrace -buildvcs=true -ldflags "-s -w" -o $(RELEASE)/host/ ./cmd/holter
	@$(RELEASE)/host/holter manual $(RELEASE)/share/man
	@$(RELEASE)/host/holter completion bash > $(RELEASE)/share/completions/holter.bash
	@$(RELEASE)/host/holter completion zsh > $(RELEASE)/share/completions/_holter
	@$(RELEASE)/host/holter completion fish > $(RELEASE)/share/completions/holter.fish

.PHONY: release-pack
release-pack:
	@cd deploy/packaging && CGO_ENABLED=0 $(GO) build -trimpath -o $(RELEASE)/host/ .
	@$(RELEASE)/host/packaging -root $(CURDIR) -bin $(RELEASE)/bin -share $(RELEASE)/share -dist $(DIST) -size-limit $(SIZE_LIMIT) > $(RELEASE)/version

.PHONY: reproducible
reproducible: ## Make the release of this commit twice, in two folders and at two times, the second without a build cache, and compare
	@deploy/packaging/test/reproducible.sh

.PHONY: test-package
test-package: ## Install the Debian package in a bare Debian, as root, by the commands of the pages, and take it through alerts, crash, backup, upgrade, rollback, removal and purge
	@deploy/packaging/test/debian.sh

.PHONY: vuln
vuln: $(VULN) ## Look for known vulnerabilities in what the programs call; VULN_DB is another database than vuln.go.dev
	@deploy/packaging/test/vuln.sh $(VULN) $(VULN_DB)

$(CYCLONEDX):
	GOBIN=$(@D) $(GO) install github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@$(CYCLONEDX_VERSION)

$(VULN):
	GOBIN=$(@D) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(VULN_VERSION)
