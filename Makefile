# SPDX-License-Identifier: Apache-2.0
# podd: build, run, test. `make help` lists the targets.
#
# One file, not recursive. BUILD picks a flavour (release debug asan tsan cov);
# its objects go to $(BUILD_DIR)/$(BUILD). The release flavour also leaves its
# programs at build/podd and build/podworker.

BUILD ?= release
BUILD_DIR ?= build
B := $(BUILD_DIR)/$(BUILD)
GEN := $(BUILD_DIR)/gen

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules
SHELL := /bin/bash

# -------------------------------------------------------------------- flags
CC := gcc
# Debian's own, which sees the packages of RUN_PACKAGES and TEST_PACKAGES.
PYTHON := /usr/bin/python3
CPPFLAGS_ALL = -I. -I$(GEN) -D_GNU_SOURCE \
  -DPOD_VERSION='"$(shell cat VERSION)"' $(CPPFLAGS)
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
  -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wundef -Wvla -Walloca \
  -Wcast-qual -Wcast-align=strict -Wnull-dereference -Wdouble-promotion \
  -Wlogical-op -Wduplicated-cond -Wduplicated-branches \
  -Wimplicit-fallthrough=5 -Wswitch-enum -Wwrite-strings -Wpointer-arith \
  -Wredundant-decls
WERROR := -Werror
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection
FLAVOUR_release := -O2 -g -fPIE $(HARDEN) -D_FORTIFY_SOURCE=2
FLAVOUR_debug := -O0 -g3 -DPOD_CHECK_LOCKS
FLAVOUR_asan := -O1 -g -fno-omit-frame-pointer -DPOD_CHECK_LOCKS \
  -fsanitize=address,undefined -fno-sanitize-recover=all
FLAVOUR_tsan := -O1 -g -fsanitize=thread -DPOD_CHECK_LOCKS
FLAVOUR_cov := -O0 -g --coverage
ifeq ($(origin FLAVOUR_$(BUILD)),undefined)
$(error BUILD=$(BUILD): there are release debug asan tsan cov)
endif
CFLAGS_ALL = -std=c17 -pthread $(FLAVOUR_$(BUILD))
# The loops over elements are worth vectorising.
$(BUILD_DIR)/release/obj/core/device/reference/%.o: CFLAGS_ALL += -O3
LINK_release := -pie -Wl,-z,relro,-z,now
LDFLAGS_ALL = -pthread $(FLAVOUR_$(BUILD)) $(LINK_$(BUILD)) -Wl,--as-needed
COMPILE = $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(WARN) $(WERROR) -MMD -MP \
  $(CFLAGS) -c -o $@ $<
# Generated code trips some of our warnings.
COMPILE_GEN = $(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -w -MMD -MP $(CFLAGS) \
  -c -o $@ $<
Q := $(if $(V),,@)

# ------------------------------------------------------------------ sources
PROTOS := $(wildcard proto/*.proto)
GEN_C := $(PROTOS:proto/%.proto=$(GEN)/%.pb-c.c)
GEN_H := $(GEN_C:.c=.h)
# The contract as JSON in an array.
GEN_C += $(GEN)/contract.c
CORE_C := $(wildcard core/*/*.c core/device/*/*.c)
API_C := $(wildcard api/*.c)
PROTO_C := $(wildcard proto/*.c proto/*/*.c)
SERVER_C := $(filter-out server/podd.c server/podworker.c,$(wildcard server/*.c))
PROGRAMS := $(patsubst server/%.c,%,$(wildcard server/podd.c server/podworker.c))
TEST_C := $(wildcard tests/unit/test_*.c tests/sim/test_*.c \
  tests/rest/test_*.c tests/wire/test_*.c tests/fault/test_*.c)
TEST_LIB_C := $(wildcard tests/lib/*.c tests/bench/lib/*.c)
BENCH_C := $(wildcard tests/bench/*.c)
FUZZ_C := $(wildcard tests/fuzz/fuzz_*.c)

objects = $(patsubst %.c,$(B)/obj/%.o,$(1))
GEN_O := $(GEN_C:$(GEN)/%.c=$(B)/obj/gen/%.o)
LIB_O := $(call objects,$(CORE_C) $(API_C) $(PROTO_C) $(SERVER_C)) $(GEN_O)
LIB := $(B)/libpod.a
TEST_LIB := $(B)/libtest.a
LIBS := -lmicrohttpd -lgnutls -ljansson -lnettle -lgrpc -lgpr \
  -lprotobuf-c -lopenblas -lm
TEST_LIBS := -lcmocka -lcurl
BINARIES := $(PROGRAMS:%=$(B)/%)
ifeq ($(BUILD),release)
BINARIES += $(PROGRAMS:%=$(BUILD_DIR)/%)
endif
TESTS := $(TEST_C:%.c=$(B)/%)
BENCHES := $(BENCH_C:%.c=$(B)/%)

.PHONY: all tests benches
all: $(BINARIES)
tests: $(TESTS) $(B)/podd
benches: $(BENCHES) $(B)/podd

$(GEN)/%.pb-c.c $(GEN)/%.pb-c.h &: proto/%.proto
	@mkdir -p $(GEN)
	$(Q)protoc --proto_path=proto --c_out=$(GEN) $<

$(GEN)/contract.c: api/openapi.yaml api/openapi.py
	@mkdir -p $(GEN)
	$(Q)$(PYTHON) api/openapi.py $< > $@

$(B)/obj/gen/%.o: $(GEN)/%.c | $(GEN_H)
	@mkdir -p $(@D)
	$(Q)$(COMPILE_GEN)

$(B)/obj/%.o: %.c Makefile | $(GEN_H)
	@mkdir -p $(@D)
	@echo "  CC $<"
	$(Q)$(COMPILE)

$(LIB): $(LIB_O)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(TEST_LIB): $(call objects,$(TEST_LIB_C))
	@rm -f $@
	$(Q)ar rcs $@ $^

$(PROGRAMS:%=$(B)/%): $(B)/%: $(B)/obj/server/%.o $(LIB)
	@echo "  LD $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS) $(LDFLAGS)

$(BUILD_DIR)/%: $(BUILD_DIR)/release/%
	$(Q)cp -f $< $@.new && mv -f $@.new $@

$(TESTS) $(BENCHES): $(B)/%: $(B)/obj/%.o $(TEST_LIB) $(LIB)
	@mkdir -p $(@D)
	@echo "  LD $@"
	$(Q)$(CC) $(LDFLAGS_ALL) -o $@ $(filter %.o,$^) $(filter %.a,$^) \
	  $(TEST_LIBS) $(LIBS) $(LDFLAGS)

# Here, too, something stands in for gRPC (see below).
$(B)/tests/wire/test_driver_together: \
  $(call objects,tests/fuzz/lib/fake_rpc.c tests/fuzz/lib/fake_host.c)

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)
.SECONDARY:

# ------------------------------------------------------------- what is needed
RUN_PACKAGES := gcc libc6-dev libmicrohttpd-dev libgnutls28-dev \
  libjansson-dev nettle-dev \
  libgrpc-dev libprotobuf-c-dev protobuf-compiler protobuf-c-compiler \
  libopenblas-dev curl python3 python3-numpy python3-yaml
TEST_PACKAGES := $(RUN_PACKAGES) libcmocka-dev libcurl4-openssl-dev \
  xz-utils clang libclang-rt-14-dev clang-format clang-tidy prometheus \
  python3-jsonschema python3-grpcio python3-protobuf openssl iproute2 nodejs \
  locales

.PHONY: run-packages test-packages
run-packages:
	@tests/install-packages $(RUN_PACKAGES)
test-packages:
	@tests/install-packages $(TEST_PACKAGES)

# -------------------------------------------------------------------- running
# Everything after the packages is a make of its own, so that it sees what has
# just been installed.
.PHONY: run test check lint tidy asan tsan coverage fuzz-smoke bench
ARGS ?= --dev
run: run-packages
	@$(MAKE) --no-print-directory all
	@exec $(BUILD_DIR)/podd $(ARGS)

test: test-packages
	@$(MAKE) --no-print-directory check

DATA := $(BUILD_DIR)/programs
$(DATA)/.unpacked: tests/data/programs.tar.xz
	@mkdir -p $(DATA)
	$(Q)tar xJf $< -C $(DATA) && touch $@

check: all tests $(DATA)/.unpacked
	@POD_BUILD=$(B) POD_PROGRAMS=$(DATA) tests/run-tests $(TESTS)

asan tsan:
	@$(MAKE) --no-print-directory BUILD=$@ POD_SEEDS=$${POD_SEEDS:-200} check
asan tsan: export POD_SLOW = 1
asan tsan: export POD_TRAINER_OPS ?= 3000

# What was counted before may be of other sources.
coverage:
	@find $(BUILD_DIR)/cov -name '*.gcda' -delete 2>/dev/null; true
	@$(MAKE) --no-print-directory BUILD=cov check
	@tests/coverage $(BUILD_DIR)/cov

lint:
	@tests/lint

TIDY_C := $(CORE_C) $(API_C) $(PROTO_C) \
  $(wildcard server/*.c tests/*/*.c tests/*/lib/*.c)
tidy: $(GEN_H)
	@tests/tidy $(TIDY_C) -- -std=c17 -pthread $(CPPFLAGS_ALL)

bench: all benches
	@for b in $(BENCHES); do echo "== $$b"; $$b $(BUILD_DIR) || exit 1; done

# ----------------------------------------------------------------------- fuzz
F := $(BUILD_DIR)/fuzz
FUZZ_SECONDS ?= 15
FUZZERS := $(FUZZ_C:tests/fuzz/%.c=$(F)/%)
# gRPC is the other side's: there tests/fuzz/lib stands in for it.
FUZZ_LIB_C := $(CORE_C) $(API_C) $(GEN_C) $(wildcard tests/fuzz/lib/*.c) \
  $(filter-out $(wildcard proto/rpc_*.c),$(PROTO_C))
FUZZ_FLAGS := -std=c17 -O1 -g -fsanitize=address,undefined \
  -fno-sanitize-recover=all -w
FUZZ_O := $(patsubst %.c,$(F)/obj/%.o,$(FUZZ_LIB_C))

$(F)/obj/%.o: %.c | $(GEN_H)
	@mkdir -p $(@D)
	$(Q)clang $(CPPFLAGS_ALL) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link \
	  -MMD -MP -c -o $@ $<

$(F)/libpod.a: $(FUZZ_O)
	@rm -f $@
	$(Q)ar rcs $@ $^

$(FUZZERS): $(F)/%: tests/fuzz/%.c $(F)/libpod.a
	$(Q)clang $(CPPFLAGS_ALL) $(FUZZ_FLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS)

-include $(shell find $(F)/obj -name '*.d' 2>/dev/null)

fuzz-smoke: $(FUZZERS) $(DATA)/.unpacked
	@POD_PROGRAMS=$(DATA) FUZZ_SECONDS=$(FUZZ_SECONDS) tests/run-fuzzers \
	  $(FUZZERS)

# -------------------------------------------------------------------- install
prefix ?= /usr/local
.PHONY: install uninstall clean help
install: all
	install -d $(DESTDIR)$(prefix)/bin
	install -m 755 $(PROGRAMS:%=$(BUILD_DIR)/%) $(DESTDIR)$(prefix)/bin
uninstall:
	rm -f $(PROGRAMS:%=$(DESTDIR)$(prefix)/bin/%)
clean:
	rm -rf $(BUILD_DIR)

help:
	@echo "make            build $(BUILD_DIR)/podd (BUILD=release|debug|asan|tsan|cov)"
	@echo "make run        install what is missing, build, start podd --dev (ARGS=...)"
	@echo "make test       install what is missing, build, run all tests"
	@echo "make check      run all tests, installing nothing"
	@echo "make lint       format, include direction, own rules"
	@echo "make tidy       clang-tidy over all sources"
	@echo "make asan tsan  the same tests under sanitizers"
	@echo "make coverage   which lines and functions the tests run (gcov)"
	@echo "make fuzz-smoke short fuzzing (FUZZ_SECONDS=$(FUZZ_SECONDS) each)"
	@echo "make bench      benchmarks, each beside its bare ceiling"
	@echo "make install    to DESTDIR and prefix ($(prefix)); make uninstall"
	@echo "make clean      remove $(BUILD_DIR)"
