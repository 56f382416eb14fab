# Every target installs its missing packages with tools/setup, so each target works on a fresh Debian 12.
# `make help` lists the targets.

BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)

# `make bench-NAME` builds the CMake target bench-NAME, and runs $(BUILD)/bench-NAME with the output file
# for its figures as argument.
BENCHES = engine rules gateway serve redis watch lease queue cost lab scale clients shield

# `make all` builds without tests and without -Werror. A build folder that `make test` has configured keeps
# its settings.
CONFIGURE = cmake -S . -B $(BUILD) -G Ninja \
	$(if $(wildcard $(BUILD)/CMakeCache.txt),,-DBUILD_TESTING=OFF) -Wno-dev --log-level=WARNING
COMPILE = cmake --build $(BUILD) --parallel $(JOBS)
PYTHON  = /usr/bin/python3
TEST    = $(PYTHON) tools/test --build $(BUILD) --jobs $(JOBS)

.NOTPARALLEL: # ninja and ctest use all cores, and benchmarks must run alone
.PHONY: all run check test test-sanitized test-full soak bench figures fuzz lint format install clean help

all: ## build into build/
	@tools/setup build
	@$(CONFIGURE)
	@$(COMPILE)

run: all ## run the gateway in front of a demo API; [PORT=8080]
	@tools/setup run
	@$(PYTHON) examples/quickstart/run $(BUILD) $(or $(PORT),8080)

check: ## run the unit suites; three minutes with the build
	@tools/setup build test
	@$(TEST) check

test: ## run unit and end-to-end suites, some models; ten minutes with the build; [STAGES="asan tsan"]
	@tools/setup build test
	@$(TEST) $(or $(STAGES),test)

test-sanitized: ## run unit and some end-to-end suites with AddressSanitizer, threads with ThreadSanitizer
	@tools/setup build test full
	@$(TEST) sanitized

test-full: ## run everything: all compilers, sanitizers, valgrind, chaos, models, fuzzing, a stock machine; an hour
	@tools/setup build test lint full
	@$(TEST) full

soak: ## run chaos, simulation and fuzzing with new seeds; [HOURS=2]
	@tools/setup build test full
	@$(TEST) --soak-hours $(or $(HOURS),2) --fuzz-time 60 soak

fuzz: ## run the fuzz targets; [TARGET=name] [TIME=seconds, 60]
	@tools/setup build test full
	@$(TEST) --fuzz-time $(or $(TIME),60) $(if $(TARGET),--fuzz-target $(TARGET)) fuzz

lint: ## run clang-format, layers, cppcheck, clang-tidy without its analyser (make test-full includes it)
	@tools/setup build test lint
	@$(PYTHON) tools/lint --build $(BUILD) --jobs $(JOBS)

format: ## format every source with clang-format
	@tools/setup lint
	@git ls-files -z -co --exclude-standard -- '*.c' '*.h' | xargs -0 clang-format -i

bench: $(BENCHES:%=bench-%) ## run every benchmark; bench-NAME runs one

bench-%:
	@tools/setup build bench
	@$(CONFIGURE)
	@$(COMPILE) --target $@
	@mkdir -p $(BUILD)/bench
	@$(BUILD)/$@ $(BUILD)/bench/$*.json

figures: bench ## run every benchmark, write docs/figures.md and docs/scale.md; 20 minutes on an idle machine
	@$(PYTHON) -B bench/figures.py $(BUILD)/bench docs/figures.md
	@$(PYTHON) -B bench/fleet.py --page docs/scale.md

# The prefix is configured, not only passed to the install step, because it is written into weir.pc.
install: ## install the library and its headers; [PREFIX=/usr/local] [DESTDIR=]
	@tools/setup build
	@$(CONFIGURE) -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@$(COMPILE)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD)
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then /sbin/ldconfig; fi

clean: ## remove build/
	rm -rf $(BUILD)

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16
