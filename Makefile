# Drives CMake and the scripts; `make help` lists what there is.
PREFIX ?= /usr/local
DESTDIR ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export JOBS

.DEFAULT_GOAL := build
.PHONY: help build dependencies demo test check install check-long fuzz bench experiments claims pools format lint clean wheel deb onnx-check wasm
.PHONY: test-tree test-includes test-format test-gcc test-unit test-faults test-clang test-asan test-tsan test-valgrind
.PHONY: test-tidy test-python test-cppcheck coverage

help: ## This list
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' Makefile

build: ## The libraries and the tool, optimised, in build/
	@scripts/dependencies.sh --check build
	@mkdir -p build
	@cmake --preset release -Wno-dev >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
	@cmake --build --preset release --parallel $(JOBS)

dependencies: ## Installs through apt what building and testing need and is missing
	@scripts/dependencies.sh build test

demo: ## Installs what is missing, builds, then fits, predicts and scores the example pool
	@scripts/dependencies.sh build
	@$(MAKE) --no-print-directory build
	@scripts/demo.sh

test: ## Installs what is missing, builds, and runs the quick tests: a few minutes
	@scripts/dependencies.sh build test
	@scripts/test.sh

check: ## Everything else a change must pass: sanitizers, valgrind, static analysis, full Python, faults
	@scripts/dependencies.sh build test networks
	@scripts/test.sh --check

# One part of `make test` or `make check`, for example `make test-asan`.
test-tree test-includes test-format test-gcc test-unit test-faults test-clang test-asan test-tsan test-valgrind test-tidy test-python test-cppcheck: test-%:
	@scripts/test.sh $*

lint: ## clang-tidy, clang-format and the include graph
	@scripts/test.sh includes format tidy

format: ## Rewrites the sources as .clang-format says
	@scripts/format.sh --write

install: build ## Installs below PREFIX (/usr/local), staged below DESTDIR
	@DESTDIR="$(DESTDIR)" cmake --install build --prefix "$(PREFIX)"
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ] && [ -x /sbin/ldconfig ]; then /sbin/ldconfig; fi

wheel: ## A binary wheel of the Python package, which needs glibc and zlib alone, in build-wheel/
	@scripts/dependencies.sh build packages
	@scripts/wheel.sh

deb: ## A Debian package: tool, library, headers, manual pages, Python modules, in build-deb/
	@scripts/dependencies.sh build packages
	@scripts/deb.sh

check-long: ## The long checks: oracles computed again, everything under every sanitizer, fuzzing, coverage
	@scripts/dependencies.sh build test oracles fuzz long packages
	@scripts/images.sh || echo "No images: the part weight_space of tests/long/run.sh is going to fail" >&2
	@scripts/check_long.sh

coverage: ## Lines and branches that the tests reach, into docs/reliability.md
	@scripts/dependencies.sh build test long
	@scripts/coverage.sh --write

fuzz: ## Every fuzz target for a minute (SECONDS=60), figures into fuzz/figures.md
	@scripts/dependencies.sh build test fuzz
	@scripts/fuzz.sh $(or $(SECONDS),60)
	@scripts/fuzz.sh --figures

wasm: ## What corestack export --format wasm puts a model into, in build/wasm (needs emscripten)
	@scripts/wasm.sh

onnx-check: build ## Compares exported graphs in onnxruntime, fetched through npm, with predictions (20 minutes)
	@scripts/dependencies.sh test images
	@experiments/serving/onnx_check.py

bench: ## Speed and memory, both sides of each ratio in one run
	@scripts/bench.sh

experiments: build ## Runs every experiment on the pools that are there, into experiments/results.md and claims.md (an hour)
	@experiments/all.sh

claims: ## Writes experiments/results.md and claims.md again from the stored figures
	@experiments/all.sh --write-only

pools: ## Packs the pools of data/pools into archives with checksums, in data/archives
	@experiments/pools/pack.py $(wildcard data/pools/*/)

clean: ## Removes the build folders
	rm -rf build build-debug build-gcc build-clang build-asan-ubsan build-tsan build-python build-fuzz build-wheel build-deb
