# Everything a developer or a CI machine does here. `make help` lists it.

SHELL := /bin/bash

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
COMMIT ?= $(shell git rev-parse --short HEAD 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# What `make race` covers. The rest starts few goroutines, or starts the program
# itself, where the detector sees nothing.
RACE ?= $(shell go list ./... | grep -v -e /crashtest -e /archtest)

# SQLite is C made Go, and its memory is not Go's. The detector cannot judge its
# accesses, and makes the tests that use it ten times as slow.
RACE_FLAGS := -race -gcflags='modernc.org/...=-race=false -d=checkptr=0'

.PHONY: help build run test race bench lint fmt deploy-check check deps clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 16

build: ## the static binary, in bin/tidemark
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/tidemark ./cmd/tidemark

run: build ## the daemon, with an example config
	bin/tidemark run -c deploy/examples/tidemark.yaml

test: ## all tests, against a real PostgreSQL
	scripts/test.sh

race: ## the tests under the race detector
	scripts/test.sh $(RACE_FLAGS) $(RACE)

bench: ## the benchmarks, against a PostgreSQL on a disk
	scripts/test.sh -disk -run '^$$' -bench . -benchmem ./...

lint: ## Go and shell sources
	scripts/deps.sh lint
	.bin/golangci-lint run
	go mod tidy -diff
	shellcheck scripts/*.sh .ci/run

fmt: ## format the Go sources
	scripts/deps.sh lint
	.bin/golangci-lint fmt

deploy-check: build ## shipped configs, units and alert rules; the image, built and run
	scripts/deps.sh deploy
	bin/tidemark check deploy/examples/tidemark.yaml
	TIDEMARK_STORE_URL=postgres://db.example.test/tidemark bin/tidemark check deploy/docker/tidemark.yaml
	scripts/systemd-check.sh bin/tidemark
	@for m in $$(grep -oh 'tidemark_[a-z_]*' deploy/prometheus/alerts.yaml | sort -u); do \
	  grep -q "\"$$m\"" metrics/*.go || { echo "alerts.yaml uses $$m, which metrics does not have"; exit 1; }; \
	done
	.bin/promtool check rules deploy/prometheus/alerts.yaml
	.bin/promtool test rules deploy/prometheus/alerts_test.yaml
	scripts/image-check.sh

check: test lint race deploy-check ## all of the above that can fail

deps: ## what tests and checks need, installed where missing
	scripts/deps.sh all

clean: ## what was built; the tools in .bin stay
	rm -rf bin
