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
.PHONY: all run test check bench fuzz lint format install clean help

all: ## build into build/
	@tools/setup build
	@$(CONFIGURE)
	@$(COMPILE)

run: all ## the gateway before a demo API, with limits to try; [PORT=8080]
	@tools/setup run
	@$(PYTHON) examples/quickstart/run $(BUILD) $(or $(PORT),8080)

test: ## everything: plain, sanitizers, models, fuzz targets; [STAGES="plain asan"]
	@tools/setup build test
	@$(TEST) $(STAGES)

check: ## the quick part, for every day
	@tools/setup build test
	@$(TEST) quick

fuzz: ## fuzz for as long as you like; [TARGET=name] [TIME=seconds, 60]
	@tools/setup build test
	@$(TEST) --fuzz-time $(or $(TIME),60) $(if $(TARGET),--fuzz-target $(TARGET)) fuzz

lint: ## clang-format, clang-tidy, cppcheck, layers
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
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 10
