// SPDX-License-Identifier: Apache-2.0
// What the files of the fault driver share.
//
//   fault.c        its life, its thread, completions
//   fault_calls.c  calls: the rules, and the way to the driver below
//   fault_parse.c  scripts
#ifndef POD_DRIVER_FAULT_INTERNAL_H
#define POD_DRIVER_FAULT_INTERNAL_H

#include <pthread.h>

#include "core/base/list.h"
#include "core/base/lock.h"
#include "core/base/map.h"
#include "core/driver/fault.h"
#include "core/driver/queue.h"

enum fault_state {
    FAULT_INIT,
    FAULT_UP,
    FAULT_LOSING,
    FAULT_LOST,
    FAULT_CLOSING,
};

enum fault_place {
    FAULT_BELOW,   // in the driver below
    FAULT_DROPPED, // nowhere
    FAULT_DELAYED, // done, in `delayed`
    FAULT_HELD,    // done, in `held` of a host that is stalled
    FAULT_DUE,     // in `due`, for our thread to complete
};

struct fault_call {
    struct fault *fault;
    struct pod_driver_call call; // the user's
    enum fault_place place;
    bool reset;
    int64_t delay_ns;
    struct pod_list link;       // in dropped, held or due
    struct pod_queue_item item; // in delayed
    // The completion that is kept, with what it points at.
    struct pod_err err;
    bool lost;
    bool from_worker;
    bool begun;
    bool shaped;
    struct pod_blob *data;
    struct pod_program_shape shape;
};

// What the driver below said of itself, copied.
struct fault_info {
    struct pod_driver_info info;
    struct pod_driver_core *cores;
    struct pod_driver_chip *chips;
    char *platform;
    char *version;
};

struct fault {
    struct pod_driver base;
    struct pod_mutex lock; // guards all that is not constant
    struct pod_cond wake;
    enum fault_state state;
    bool inner_up;      // the driver below is open
    bool awaiting_loss; // it was told to open anew and has not begun to
    bool inner_must_reopen;
    bool beat_due;
    bool stop;
    bool stalled;
    int64_t stall_until_ns;
    int64_t revive_ns; // when a lost host may come back
    struct pod_err why;
    size_t calling; // callbacks of calls that are being made
    uint64_t counts[POD_FAULT_KIND_COUNT];
    struct pod_map open; // struct fault_call by operation
    struct pod_list dropped;
    struct pod_list held;
    struct pod_list due;
    struct pod_queue delayed;            // by the time they are due
    struct fault_info *info;             // to be told
    struct pod_driver_observer observer; // constant once opened
    // Constant.
    struct pod_driver *inner;
    struct pod_gang_hub *hub;
    uint32_t host;
    struct pod_fault_script script;
    bool started;
    pthread_t thread;
};

static inline struct fault *fault_of(struct pod_driver *driver)
{
    return POD_CONTAINER(driver, struct fault, base);
}

// Puts a call where our thread completes it.
void pod_fault_due_locked(struct fault *fault, struct fault_call *call);
// The call will end as lost.
void pod_fault_set_lost(struct fault_call *call, const struct pod_err *why);
// Loses the host though the driver below has it: that one must open it anew.
void pod_fault_kill_locked(struct fault *fault, const char *text,
                           int64_t revive_ns);
// Callbacks from the driver below; the argument is a struct fault_call.
void pod_fault_on_started(void *arg);
void pod_fault_on_done(void *arg, const struct pod_driver_result *result);

// The functions of the driver's table that make calls, as driver.h says.
void pod_fault_allocate(struct pod_driver *base,
                        const struct pod_driver_call *call, uint32_t core,
                        const struct pod_shape *shape, uint64_t bytes);
void pod_fault_allocate_tuple(struct pod_driver *base,
                              const struct pod_driver_call *call, uint32_t core,
                              const uint64_t *children, size_t child_count);
void pod_fault_deallocate(struct pod_driver *base,
                          const struct pod_driver_call *call, uint64_t buffer);
void pod_fault_write(struct pod_driver *base,
                     const struct pod_driver_call *call, uint64_t buffer,
                     uint64_t offset, struct pod_blob *data, size_t data_offset,
                     size_t count);
void pod_fault_read(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t buffer, uint64_t offset, size_t count);
void pod_fault_lend(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t buffer, uint64_t offset, size_t count);
void pod_fault_copy(struct pod_driver *base, const struct pod_driver_call *call,
                    uint64_t from, uint64_t to);
void pod_fault_compile(struct pod_driver *base,
                       const struct pod_driver_call *call,
                       enum pod_program_format format, struct pod_blob *program,
                       uint32_t replicas);
void pod_fault_free_program(struct pod_driver *base,
                            const struct pod_driver_call *call,
                            uint64_t program);
void pod_fault_load(struct pod_driver *base, const struct pod_driver_call *call,
                    uint32_t core, uint64_t program);
void pod_fault_unload(struct pod_driver *base,
                      const struct pod_driver_call *call, uint64_t load);
void pod_fault_execute(struct pod_driver *base,
                       const struct pod_driver_call *call,
                       const struct pod_driver_execute *execute);
void pod_fault_reset(struct pod_driver *base,
                     const struct pod_driver_call *call);
void pod_fault_cancel(struct pod_driver *base, uint64_t op);

#endif
