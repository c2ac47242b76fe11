# Each target does all of its own set-up in .venv. Needed: Python 3.11, a C++ compiler, make, pip (or what they find offline).
VENV ?= .venv
TORCH := torch==2.13.0
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PRESET ?= release
PY := $(abspath $(VENV))/bin/python
BIN := $(abspath $(VENV))/bin
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
# Commands here use the checkout, whatever else is installed.
export PYTHONPATH := $(CURDIR)
export PATH := $(BIN):$(PATH)
unexport STATOR_BREAK_EVERY STATOR_STRICT

# Tests that also run with an exit forced at every n-th legal offset.
BREAK_TESTS := tests/python/test_programs.py tests/python/test_module_wrapper.py tests/python/test_capture_cases.py
BREAK_MODES := 1 7 random:1

say = @printf '\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help
help: ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- environment: the pinned torch first and alone, so that the CPU build is taken where one is offered and nothing replaces it
$(VENV)/bin/python:
	$(call say,environment in $(VENV))
	@for p in $(PYTHON) python3.11 python3 python; do \
	  if $$p -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then exec $$p -m venv $(VENV); fi; \
	done; echo "Python 3.11 not found; name it with PYTHON=..."; exit 1

$(VENV)/.$(TORCH): | $(VENV)/bin/python
	$(call say,$(TORCH))
	@$(PY) -m pip install -qq --disable-pip-version-check $(TORCH)
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.$(TORCH)
	$(call say,development tools)
	@$(PY) -m pip install -qq --disable-pip-version-check -r requirements-dev.txt
	@touch $@

# ---- build
.PHONY: build
build: $(VENV)/.dev ## The extension module, optimised, into stator/; the checkout becomes importable in .venv
	$(call say,build ($(PRESET)))
	@$(BIN)/cmake --preset $(PRESET) -DPython_EXECUTABLE=$(PY) --log-level=WARNING
	@$(BIN)/cmake --build build/$(PRESET) -j $(JOBS)
	@if [ "$(VENV)" = .venv ]; then echo "$(CURDIR)" > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/stator-checkout.pth"; fi

.PHONY: wheel
wheel: $(VENV)/.dev ## A wheel in dist/, built by scikit-build-core without isolation
	@rm -f dist/stator-*.whl
	@$(PY) -m pip wheel -q --no-build-isolation --no-deps -w dist .
	@$(PY) tools/wheel_bytecode.py dist/stator-*.whl
	@ls -l dist

# ---- tests
.PHONY: test
test: build rooms cpp-test py-test break-test ## Build, C++ unit tests, pytest, and pytest with forced breaks
	$(call say,all tests passed)

.PHONY: rooms cpp-test py-test break-test
rooms: $(VENV)/.dev
	@$(PY) tools/check_rooms.py

cpp-test: build ## C++ unit tests alone
	$(call say,C++ unit tests)
	@$(PY) tools/get_googletest.py
	@$(BIN)/cmake --preset $(PRESET) -DPython_EXECUTABLE=$(PY) --log-level=WARNING
	@$(BIN)/cmake --build build/$(PRESET) -j $(JOBS) --target stator_cpp_tests
	@GTEST_BRIEF=1 $(PY) tools/cpp_tests.py build/$(PRESET)

py-test: build ## pytest alone
	$(call say,pytest)
	@failed=0; for file in tests/python/test_*.py; do \
	  printf '%s\n' $$file; $(BIN)/pytest -q --no-header $$file || failed=1; \
	done; exit $$failed

break-test: build ## The same programs, with an exit forced at every n-th legal offset
	@for mode in $(BREAK_MODES); do \
	  printf '\033[1m== pytest, STATOR_BREAK_EVERY=%s\033[0m\n' $$mode; \
	  STATOR_BREAK_EVERY=$$mode $(BIN)/pytest -q --no-header -m 'not slow' $(BREAK_TESTS) || exit 1; \
	done

.PHONY: test-symbolic
test-symbolic: build ## 100,000 random expressions over symbolic sizes against Python and sympy
	$(call say,symbolic expressions)
	@$(PY) tests/python/symbolic_cases.py $(or $(EXPRESSIONS),100000)

.PHONY: test-dist
test-dist: build ## Several ranks: two and four processes over gloo, 200 iterations of DDP and FSDP (some minutes)
	$(call say,several ranks)
	@$(BIN)/pytest -q --no-header tests/python/test_ranks.py tests/dist

.PHONY: test-debug
test-debug: build ## The minifier on graphs of 300 calls, each fault at each stage, and with real inductor (half an hour)
	$(call say,debugging tools)
	@$(BIN)/pytest -q --no-header -rA --show-capture=no tests/debug

# libasan has to come first in the process, and libstdc++ with it, or exceptions thrown in torch's libraries are not intercepted.
# CPython and torch keep memory until exit by design: leak detection is left to tests that count.
# stator is imported before the checkout, with another build in it, comes into the path.
SANITIZED_PYTEST := import sys, stator, pytest; assert stator._build_info.SANITIZED; sys.exit(pytest.main(sys.argv[1:]))
.PHONY: asan
asan: $(VENV)/.dev ## AddressSanitizer and UBSan build, and the tests under it
	$(call say,build (asan))
	@$(PY) tools/get_googletest.py
	@$(BIN)/cmake --preset asan -DPython_EXECUTABLE=$(PY) --log-level=WARNING
	@$(BIN)/cmake --build build/asan -j $(JOBS) --target all stator_cpp_tests
	$(call say,tests (asan))
	@export PYTHONPATH=$(CURDIR)/build/asan/package:$(CURDIR) PYTHONSAFEPATH=1 PYTHONMALLOC=malloc STATOR_STRICT=1; \
	export LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)"; \
	export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:handle_segv=1:allocator_may_return_null=1; \
	export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1; \
	GTEST_BRIEF=1 $(PY) tools/cpp_tests.py build/asan; \
	failed=0; for file in tests/python/test_*.py; do \
	  printf '%s\n' $$file; $(PY) -c '$(SANITIZED_PYTEST)' -q --no-header -p no:cacheprovider -m 'not slow' $$file || failed=1; \
	done; [ $$failed = 0 ]; \
	STATOR_BREAK_EVERY=1 $(PY) -c '$(SANITIZED_PYTEST)' -q -p no:cacheprovider -m 'not slow' $(BREAK_TESTS)

.PHONY: fuzz
fuzz: build ## Differential fuzzer: 20,000 programs with fixed seeds against eager
	@$(PY) -m tests.fuzz.run --count $(or $(PROGRAMS),20000) --seed 0 --jobs 2 --break-every

# ---- what it is for
.PHONY: demo bench
demo: build ## Captures a real model beside TorchDynamo and prints a table and the captured code
	@$(PY) -m benchmarks.demo

bench: build ## Capture, guard and warm-start times beside TorchDynamo; JSON and charts in bench-out/
	@$(PY) -m benchmarks.bench --out bench-out

.PHONY: bench-dist
bench-dist: build ## DDP on 2 ranks beside TorchDynamo, and the agreement of many simulated ranks; figures in bench-out/
	@mkdir -p bench-out
	@$(PY) -m benchmarks.dist --out bench-out/dist.json
	@$(PY) -m benchmarks.ranks --out bench-out/ranks.json

# ---- style
.PHONY: lint format
lint: build rooms ## clang-format, clang-tidy, ruff, room check, figures of the house
	$(call say,the house)
	@$(PY) tools/house.py
	$(call say,clang-format)
	@$(PY) tools/format.py --check
	$(call say,ruff)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(call say,clang-tidy)
	@$(PY) tools/tidy.py

format: $(VENV)/.dev ## Formats C++ and Python files in place
	@$(PY) tools/format.py
	@$(BIN)/ruff check --fix-only -q . && $(BIN)/ruff format .

.PHONY: clean
clean: ## Removes what was built (not .venv)
	rm -rf build dist bench-out stator/_core*.so stator/_build_info.py .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
