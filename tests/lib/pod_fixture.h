// SPDX-License-Identifier: Apache-2.0
// A pod on fake hosts with simulated time, and short ways to ask it for things.
#ifndef POD_TESTS_POD_FIXTURE_H
#define POD_TESTS_POD_FIXTURE_H

#include "core/pod/pod.h"
#include "tests/lib/fake_driver.h"

enum { FIXTURE_MAX_HOSTS = 4, FIXTURE_MEMORY = 1000 };
// Long beyond what other tests let pass.
#define FIXTURE_STALL_NS (1000 * POD_NS_PER_S)

struct fixture {
    struct pod *pod;
    struct pod_driver *host[FIXTURE_MAX_HOSTS];
    size_t host_count;
    int64_t now_ns;
    int64_t look_ns;      // by which time passes at each look at it
    int64_t wall_step_ns; // by which somebody has set the wall clock
    int notified;
};

// `hosts` hosts of two cores, ready, with FIXTURE_MEMORY bytes a core.
void fixture_init(struct fixture *fix, size_t hosts);
// The same with limits of its own; the hosts are not ready yet.
void fixture_init_options(struct fixture *fix, size_t hosts,
                          uint64_t history_count, int64_t history_age_ns,
                          size_t chunk_bytes, uint64_t staging_bytes);
void fixture_fini(struct fixture *fix);
// For cmocka: two hosts as fixture_init makes them.
int fixture_setup_two(void **state);
// The same: two hosts with those features, ready, that move 16 bytes at once.
int fixture_setup(void **state, unsigned features);
int fixture_teardown(void **state);
void fixture_run(struct fixture *fix); // answers everything on all hosts

struct pod_ref fixture_buffer(uint64_t number);
struct pod_ref fixture_program(uint64_t number);
struct pod_ref fixture_load(uint64_t number);
struct pod_ref fixture_op(uint64_t number);

// A request with its defaults.
struct pod_request fixture_request(enum pod_kind kind);
// Submits one; it must be accepted.
uint64_t fixture_submit(struct fixture *fix, const struct pod_request *request);
// Submits one that must be refused with that reason.
void fixture_refused(struct fixture *fix, const struct pod_request *request,
                     enum pod_reason reason);

uint64_t fixture_allocate(struct fixture *fix, uint32_t core, uint64_t bytes);
uint64_t fixture_free(struct fixture *fix, uint64_t buffer);
uint64_t fixture_write(struct fixture *fix, uint64_t buffer, uint64_t offset,
                       size_t bytes);
uint64_t fixture_read(struct fixture *fix, uint64_t buffer);
uint64_t fixture_copy(struct fixture *fix, uint64_t from, uint64_t to);
uint64_t fixture_tuple(struct fixture *fix, uint64_t first, uint64_t second);
uint64_t fixture_compile(struct fixture *fix, const char *digest);
uint64_t fixture_load_on(struct fixture *fix, uint64_t program, uint32_t core);
uint64_t fixture_execute(struct fixture *fix, uint64_t load, uint64_t input,
                         uint64_t output); // output 0: automatic

enum pod_sched_state fixture_state(struct fixture *fix, uint64_t number);
// What the event's root cause is: its operation and its reason.
uint64_t fixture_root(struct fixture *fix, uint64_t number);
// That the root's words begin and end like that.
void fixture_assert_detail(struct fixture *fix, uint64_t number,
                           const char *begin, const char *end);
void fixture_assert_reason(struct fixture *fix, uint64_t number,
                           const char *reason);

#define assert_state(fix, number, name)                                        \
    assert_string_equal(pod_sched_state_name(fixture_state(fix, number)), name)

#endif
