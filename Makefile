# Every target sets up what it needs (tools/setup, a no-op when all is there), so that each works on
# a fresh Debian 12. `make help` lists them.

BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)

# One word per benchmark: `make bench-NAME` builds the CMake target bench-NAME, which makes
# $(BUILD)/bench-NAME, and runs it with the file for its figures as its argument.
BENCHES = engine rules gateway serve redis watch lease queue

# `make all` needs neither test libraries nor our idea of a warning-free compiler. A folder that
# `make test` has been in keeps its settings.
CONFIGURE = cmake -S . -B $(BUILD) -G Ninja \
	$(if $(wildcard $(BUILD)/CMakeCache.txt),,-DBUILD_TESTING=OFF) -Wno-dev --log-level=WARNING
COMPILE = cmake --build $(BUILD) --parallel $(JOBS)
PYTHON  = /usr/bin/python3
TEST    = $(PYTHON) tools/test --build $(BUILD) --jobs $(JOBS)

.NOTPARALLEL: # ninja and ctest have the cores; two benchmarks at once measure each other
.PHONY: all run check test test-sanitized test-full soak bench fuzz lint format install clean help

all: ## build into build/
	@tools/setup build
	@$(CONFIGURE)
	@$(COMPILE)

run: all ## the gateway before a demo API, with limits to try; [PORT=8080]
	@tools/setup run
	@$(PYTHON) examples/quickstart/run $(BUILD) $(or $(PORT),8080)

check: ## the unit suites, three minutes with the build; for every day
	@tools/setup build test
	@$(TEST) check

test: ## unit and end-to-end suites, some models; ten minutes with the build; [STAGES="asan tsan"]
	@tools/setup build test
	@$(TEST) $(or $(STAGES),test)

test-sanitized: ## unit and some end-to-end suites with AddressSanitizer, threads with ThreadSanitizer
	@tools/setup build test full
	@$(TEST) sanitized

test-full: ## everything: all compilers, sanitizers, valgrind, chaos, models, fuzzing, a stock machine; an hour
	@tools/setup build test lint full
	@$(TEST) full

soak: ## chaos, simulation and fuzzing with new seeds; [HOURS=2]
	@tools/setup build test full
	@$(TEST) --soak-hours $(or $(HOURS),2) --fuzz-time 60 soak

fuzz: ## fuzz for as long as you like; [TARGET=name] [TIME=seconds, 60]
	@tools/setup build test full
	@$(TEST) --fuzz-time $(or $(TIME),60) $(if $(TARGET),--fuzz-target $(TARGET)) fuzz

lint: ## clang-format, layers, cppcheck, clang-tidy without its analyser (make test-full has it)
	@tools/setup build test lint
	@$(PYTHON) tools/lint --build $(BUILD) --jobs $(JOBS)

format: ## lay out every source as lint wants it
	@tools/setup lint
	@git ls-files -z -co --exclude-standard -- '*.c' '*.h' | xargs -0 clang-format -i

bench: $(BENCHES:%=bench-%) ## every benchmark; bench-NAME for one

bench-%:
	@tools/setup build bench
	@$(CONFIGURE)
	@$(COMPILE) --target $@
	@mkdir -p $(BUILD)/bench
	@$(BUILD)/$@ $(BUILD)/bench/$*.json

# The prefix is configured, not only passed to the install step, because it is written into weir.pc.
install: ## install the library and its headers; [PREFIX=/usr/local] [DESTDIR=]
	@tools/setup build
	@$(CONFIGURE) -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	@$(COMPILE)
	@DESTDIR="$(DESTDIR)" cmake --install $(BUILD)
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then /sbin/ldconfig; fi

clean: ## remove build/
	rm -rf $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16
