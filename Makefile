# Everything a newcomer needs is `make demo` and `make test`. Both install what they lack on Debian
# and Ubuntu (.ci/need); neither asks a question.
SHELL := /bin/bash
export PATH := $(HOME)/.cargo/bin:$(PATH)
export CARGO_TERM_PROGRESS_WHEN ?= auto

phase := .ci/phase

.PHONY: help demo test bench docs soak need need-test

help:
	@echo 'make demo    eight groupings of real and generated flows, checked to the last byte'
	@echo 'make test    everything that continuous integration checks'
	@echo 'make bench   the engine against a hand-written loop'
	@echo 'make docs    the documentation of the code, in target/doc'
	@echo 'make soak    property tests, simulation and kills, many more of each'

need:
	@.ci/need

need-test:
	@.ci/need test

demo: need
	cargo build --release --quiet
	target/release/nilometer run config/demo.toml --summary target/demo/summary.json --check-totals

test: need-test
	@start=$$SECONDS; left_out=; set -e; \
	$(phase) fmt cargo fmt --all --check; \
	$(phase) clippy cargo clippy --workspace --all-targets --quiet -- -D warnings; \
	$(phase) doc env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet; \
	$(phase) broker tests/services/kafka fetch; \
	$(phase) collector tests/services/otelcol build || \
		{ [ $$? = 3 ]; left_out=", but for the real collector of OpenTelemetry: there is no Go to build it"; }; \
	$(phase) build cargo test --workspace --quiet --no-run; \
	$(phase) tests env RUST_TEST_THREADS=$$(($$(nproc) * 2)) cargo test --workspace --quiet; \
	echo "== all of make test: ok after $$((SECONDS - start)) s$$left_out"

bench: need
	cargo run --release --quiet -- bench flows

docs: need
	cargo doc --workspace --no-deps

# How deep `make soak` goes: cases of each property, seeds of the simulation, kills of the crash test,
# damages to a stored state. It uses all cores, and says how far it has come. `make soak
# PROPTEST_CASES=200 SIM_SEEDS=200 NILOMETER_KILLS=10 NILOMETER_DAMAGES=100 SOAK_PROFILE=` is a taste of it.
# What fails prints the seed that runs it again.
PROPTEST_CASES ?= 10000
SIM_SEEDS ?= 10000
NILOMETER_KILLS ?= 1000
NILOMETER_DAMAGES ?= 3000
# Of a run that writes to Kafka: kills, and times that the broker goes away.
KAFKA_KILLS ?= 50
KAFKA_OUTAGES ?= 5
SOAK_PROFILE ?= --profile soak
soak: export PROPTEST_CASES := $(PROPTEST_CASES)
soak: export SIM_SEEDS := $(SIM_SEEDS)
soak: export NILOMETER_KILLS := $(NILOMETER_KILLS)
soak: export NILOMETER_DAMAGES := $(NILOMETER_DAMAGES)
soak: export KAFKA_KILLS := $(KAFKA_KILLS)
soak: export KAFKA_OUTAGES := $(KAFKA_OUTAGES)

soak: need
	@start=$$SECONDS; set -e; \
	export NILOMETER_SEED=$${NILOMETER_SEED:-$$RANDOM}; \
	$(phase) build cargo test $(SOAK_PROFILE) --workspace --quiet --no-run; \
	$(phase) simulation cargo test $(SOAK_PROFILE) --quiet --test sim -- --nocapture every_interleaving; \
	$(phase) kills cargo test $(SOAK_PROFILE) --quiet --test crash -- --nocapture; \
	$(phase) damage cargo test $(SOAK_PROFILE) --quiet --test stored -- --nocapture left_as_it_was; \
	$(phase) properties cargo test $(SOAK_PROFILE) --workspace --quiet \
		-- --skip every_interleaving --skip counted_once --skip count_once --skip left_as_it_was; \
	echo "== all of make soak: ok after $$((SECONDS - start)) s, kills from seed $$NILOMETER_SEED"
