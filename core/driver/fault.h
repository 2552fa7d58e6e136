// SPDX-License-Identifier: Apache-2.0
// The fault driver: wraps another driver and makes it fail by a script.
//
// The script is one line without commas or blanks:
//
//   script   = rule *( ";" rule )
//   rule     = [ "host" NUMBER ":" ] match "=" action
//   match    = kind [ "#" NUMBER [ "+" ] ]
//   kind     = "allocate" | "free" | "write" | "read" | "copy" | "compile"
//            | "load" | "unload" | "execute" | "any"
//   action   = "delay:" DURATION   completes that much later; others go on
//            | "fail:" CODE        fails, and never reaches the driver below
//            | "drop"              gets lost: ends by cancel, reset, close or
//                                  loss only
//            | "die" [ ":" DURATION ]    the host is lost, and comes back empty
//                                  after that time, else when reconnected
//            | "stall" [ ":" DURATION ]  the host is frozen: no heartbeat, no
//                                  completion, for that time, else until it is
//                                  reconnected
//
// Without a host a rule is for all. "execute#3" is the third execution of the
// host since it was made, "execute#3+" that and all later ones, "execute" each
// one. Tuples count as allocate; buffers and programs as free; resets do not
// count. A copy between two hosts is a read at the one and a write at the
// other, and counts as these. The first rule that matches a call decides. CODE
// is canonical, such as UNAVAILABLE, and not OK; DURATION is as
// pod_parse_duration reads it. Example:
//
//   host1:execute#3=die:2s;any=delay:5ms
//
// A loss overrides all else: whatever is delayed, dropped or held is then lost.
#ifndef POD_DRIVER_FAULT_H
#define POD_DRIVER_FAULT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/driver/driver.h"
#include "core/driver/rendezvous.h"

enum { POD_FAULT_MAX_RULES = 64 };

enum pod_fault_kind {
    POD_FAULT_ALLOCATE,
    POD_FAULT_FREE,
    POD_FAULT_WRITE,
    POD_FAULT_READ,
    POD_FAULT_COPY,
    POD_FAULT_COMPILE,
    POD_FAULT_LOAD,
    POD_FAULT_UNLOAD,
    POD_FAULT_EXECUTE,
    POD_FAULT_ANY,
    POD_FAULT_KIND_COUNT
};

enum pod_fault_action {
    POD_FAULT_NONE,
    POD_FAULT_DELAY,
    POD_FAULT_FAIL,
    POD_FAULT_DROP,
    POD_FAULT_DIE,
    POD_FAULT_STALL,
};

struct pod_fault_rule {
    bool one_host; // only for `host`
    uint32_t host;
    enum pod_fault_kind kind;
    uint64_t first; // the first and the last of its kind, from 1
    uint64_t last;
    enum pod_fault_action action;
    int64_t duration_ns; // POD_NEVER: none was given
    enum pod_code code;  // of FAIL
};

// A plain value; owns nothing.
struct pod_fault_script {
    size_t count;
    struct pod_fault_rule rules[POD_FAULT_MAX_RULES];
};

// Reads a script. BAD_VALUE names the piece that is wrong, and the column where
// it starts (line 1).
enum pod_code pod_fault_parse(const char *text, size_t length,
                              struct pod_fault_script *out, struct pod_err *err)
    __attribute__((warn_unused_result));

// Wraps `owned_inner`, which stays the caller's on failure. `host` is its index
// in the script and in `hub`, through which the rest of a gang learns of an
// execution that is made to fail (a reference is taken; NULL: no gangs). A call
// for which there is no memory is passed on untouched. OUT_OF_MEMORY, also when
// there is no thread.
enum pod_code pod_fault_new(struct pod_driver *owned_inner,
                            struct pod_gang_hub *hub, uint32_t host,
                            const struct pod_fault_script *script,
                            struct pod_driver **out_driver, struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
