# SPDX-License-Identifier: Apache-2.0
# podd: build, run, test. `make help` lists the targets.
#
# One file, not recursive. BUILD picks a flavour; objects go to build/$(BUILD),
# and the release flavour also leaves build/podd and build/podworker.

BUILD ?= release
B := build/$(BUILD)
GEN := build/gen

CC ?= gcc
CPPFLAGS_ALL := -I. -I$(GEN) -D_GNU_SOURCE -DPOD_VERSION='"$(shell cat VERSION)"'
WARN := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion \
  -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wundef -Wvla -Walloca \
  -Wcast-qual -Wcast-align=strict -Wnull-dereference -Wdouble-promotion \
  -Wlogical-op -Wduplicated-cond -Wduplicated-branches \
  -Wimplicit-fallthrough=5 -Wswitch-enum -Wwrite-strings -Wpointer-arith \
  -Wredundant-decls
HARDEN := -fstack-protector-strong -fstack-clash-protection -fcf-protection
CFLAGS_release := -O2 -g $(HARDEN) -D_FORTIFY_SOURCE=2
CFLAGS_debug := -O0 -g3 -DPOD_CHECK_LOCKS
CFLAGS_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined \
  -fno-sanitize-recover=all -DPOD_CHECK_LOCKS
CFLAGS_tsan := -O1 -g -fsanitize=thread -DPOD_CHECK_LOCKS
CFLAGS_cov := -O0 -g --coverage
ifeq ($(origin CFLAGS_$(BUILD)),undefined)
$(error BUILD=$(BUILD): there are release debug asan tsan cov)
endif
CFLAGS_ALL := -std=c17 -pthread $(CFLAGS_$(BUILD)) $(CFLAGS)
WERROR ?= -Werror
LDFLAGS_release := -Wl,-z,relro,-z,now -pie
LDFLAGS_ALL := -pthread $(CFLAGS_$(BUILD)) $(LDFLAGS_$(BUILD)) -Wl,--as-needed \
  $(LDFLAGS)
ifeq ($(BUILD),release)
CFLAGS_ALL += -fPIE
endif

# ------------------------------------------------------------------ sources
# Generated protobuf-c code: the messages of XLA and of the wire protocols.
PROTOS := $(wildcard proto/*.proto)
GEN_C := $(PROTOS:proto/%.proto=$(GEN)/%.pb-c.c)
GEN_H := $(GEN_C:.c=.h)

CORE_C := $(wildcard core/base/*.c core/sched/*.c core/pod/*.c core/hlo/*.c \
  core/driver/*.c core/device/*.c core/device/reference/*.c core/journal/*.c)
API_C := $(wildcard api/*.c)
PROTO_C := $(wildcard proto/*.c)

obj = $(patsubst %.c,$(B)/obj/%.o,$(filter-out $(GEN)/%,$(1))) \
  $(patsubst $(GEN)/%.c,$(B)/obj/gen/%.o,$(filter $(GEN)/%,$(1)))
CORE_O := $(call obj,$(CORE_C) $(GEN_C))
API_O := $(call obj,$(API_C))
PROTO_O := $(call obj,$(PROTO_C))

CORE_LIBS := -lprotobuf-c -lopenblas -lm
API_LIBS := -lmicrohttpd -ljansson
PROTO_LIBS := -lgrpc -lgpr

include $(wildcard tests/tests.mk)

.DEFAULT_GOAL := all
.PHONY: all
