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
	@echo 'make soak    property tests and simulation, many more cases and seeds'

need:
	@.ci/need

need-test:
	@.ci/need test

demo: need
	cargo build --release --quiet
	target/release/nilometer run config/demo.toml --summary target/demo/summary.json --check-totals

test: need-test
	@start=$$SECONDS; set -e; \
	$(phase) fmt cargo fmt --all --check; \
	$(phase) clippy cargo clippy --workspace --all-targets --quiet -- -D warnings; \
	$(phase) doc env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet; \
	$(phase) build cargo test --workspace --quiet --no-run; \
	$(phase) tests cargo test --workspace --quiet; \
	echo "== all of make test: ok after $$((SECONDS - start)) s"

bench: need
	cargo run --release --quiet -- bench flows

docs: need
	cargo doc --workspace --no-deps

# Property tests read the number of cases from the environment, the simulation that of its seeds.
soak: need
	PROPTEST_CASES=$${PROPTEST_CASES:-10000} SIM_SEEDS=$${SIM_SEEDS:-20000} \
		cargo test --release --workspace
