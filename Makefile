# Thin front door: Meson does the work, tools/setup brings what is missing, tools/test runs every test.
#
#   make            build into build/ (needs the build packages: see `make setup`)
#   make setup      install missing Debian packages (sudo when not root), fetch kernel, make the base image
#   make demo       set-up, build, then code runs in a micro-VM through the MCP server
#   make check      set-up, build, every test; last line "N passed, N failed, N skipped"
#   make bench      set-up, build, the measurements of docs/benchmarks.md
#   make install    PREFIX=/usr/local DESTDIR=
#   make wheel      the Python package for this platform, into build/dist
#   make dist       the source archive, into build/dist
#   make deb        Debian packages, into build/dist
#   make clean      remove build folders
PREFIX ?= /usr/local
DESTDIR ?=
BUILD := build
NINJA ?= ninja

.DEFAULT_GOAL := all
.NOTPARALLEL:
.PHONY: all setup home demo check quick bench install wheel dist deb clean format lint

all: $(BUILD)/build.ninja
	@$(NINJA) -C $(BUILD)

$(BUILD)/build.ninja:
	@meson setup $(BUILD) --prefix=$(PREFIX)

setup:
	@tools/setup $(SETUP)

# These need the packages of the tests as well.
check bench: SETUP := --test

home: setup all
	@tools/setup --home

demo: home
	@/usr/bin/python3 tools/demo

check: setup all
	@tools/setup --clients
	@tools/test

# The unit tests alone: seconds.
quick: all
	@meson test -C $(BUILD) --suite unit --print-errorlogs

bench: home
	@/usr/bin/python3 tests/bench/bench.py

# Another prefix than the build folder's changes what the programs know of their own place: they are built anew.
install: $(BUILD)/build.ninja
	@grep -qsF '"$(PREFIX)/libexec/boxlite"' $(BUILD)/config.h || meson configure $(BUILD) --prefix=$(PREFIX)
	@$(NINJA) -C $(BUILD)
	@DESTDIR=$(if $(DESTDIR),$(abspath $(DESTDIR))) meson install -C $(BUILD) --no-rebuild --quiet

wheel: all
	@tools/wheel $(BUILD)

dist:
	@tools/dist $(BUILD)/dist

deb:
	@tools/deb $(BUILD)/dist

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

lint: all
	@tools/lint

clean:
	@rm -rf $(BUILD) build-asan build-tsan build-clang
