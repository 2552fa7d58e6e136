// SPDX-License-Identifier: Apache-2.0
// Programs are compiled once (compiled.c) and loaded (compile.c). For core/pod
// alone.
#ifndef POD_POD_COMPILE_H
#define POD_POD_COMPILE_H

#include "core/pod/internal.h"

struct pod_answer;

// ----------------------------------------------------------------- compiled.c

// A record of its own for a program, by which it is compiled unless one of
// equal content exists by then. NULL: no memory.
struct pod_compiled *pod_compiled_new(struct pod *pod, struct pod_blob *blob,
                                      const struct pod_program *program);
void pod_compiled_free(struct pod_compiled *compiled); // NULL is allowed
// The one of equal content that programs share, or NULL.
struct pod_compiled *pod_compiled_find_locked(struct pod *pod,
                                              const struct pod_compiled *like);
// No further program shall share it.
void pod_compiled_hide_locked(struct pod *pod, struct pod_compiled *compiled);
// It is gone when nobody holds it, no call works for it, and no host owes it:
// looks whether that is so.
void pod_compiled_release_locked(struct pod_compiled *compiled);
void pod_compiled_unref_locked(struct pod *pod, struct pod_compiled *compiled);
// The record of a host, which may be new to it. Stays where it is until the
// host is forgotten. NULL: no memory; never so for a new one while host_count
// is less than host_room.
struct pod_compiled_host *pod_compiled_on(struct pod_compiled *compiled,
                                          uint32_t host);
// The same, or NULL: it is new to it.
struct pod_compiled_host *
pod_compiled_find_host(const struct pod_compiled *compiled, uint32_t host);
// The calls that work for it, of one host after the other; NULL at the end.
const struct pod_call *pod_compiled_call(const struct pod_compiled *compiled,
                                         size_t index);
// That of one host, or NULL; and the loads that wait for such a call.
const struct pod_call *
pod_compiled_host_call(const struct pod_compiled *compiled, uint32_t host);
const struct pod_list *pod_compiled_joined(const struct pod_call *call);
// No program needs to know of a host any more that is gone: its calls have
// been answered.
void pod_compiled_forget_host_locked(struct pod *pod, uint32_t host);
// A host has nothing any more of what it had refused to free.
void pod_compiled_let_host_go_locked(struct pod *pod, uint32_t host);
// Nothing that was compiled is to be found any more.
void pod_compiled_forget_all_locked(struct pod *pod);

// ------------------------------------------------------------------ compile.c

void pod_compile_launch_locked(struct pod *pod, struct pod_op *op,
                               struct pod_after *after);
void pod_compile_answer_locked(struct pod *pod, struct pod_call *call,
                               struct pod_answer *answer,
                               struct pod_after *after);
// A COMPILE is to stop: true if it is over with no more answers to come.
bool pod_compile_interrupt_locked(struct pod *pod, struct pod_op *op,
                                  struct pod_after *after);
void pod_load_launch_locked(struct pod *pod, struct pod_op *op,
                            struct pod_after *after);
void pod_program_free_launch_locked(struct pod *pod, struct pod_op *op,
                                    struct pod_after *after);
// Asks a host again for what it refused to free; whether there is anything.
bool pod_compile_free_again_locked(struct pod *pod, struct pod_host *host,
                                   struct pod_after *after);

#endif
