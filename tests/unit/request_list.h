// SPDX-License-Identifier: Apache-2.0
// A graph that is put together request by request, for a pod on fake hosts.
#ifndef TESTS_UNIT_REQUEST_LIST_H
#define TESTS_UNIT_REQUEST_LIST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/pod_fixture.h"

enum { LIST_MAX = 128, FAULTS_MAX = 100 };

// A list of requests that is put together, and what came of it.
struct list {
    struct pod_request requests[LIST_MAX];
    const struct pod_request *ops[LIST_MAX];
    struct pod_ref refs[LIST_MAX][2];
    struct pod_launch launches[LIST_MAX];
    struct pod_request self;
    bool refused[LIST_MAX];
    struct pod_graph_request graph;
    uint64_t number;
    uint64_t numbers[LIST_MAX];
    struct pod_err items[FAULTS_MAX];
    struct pod_faults faults;
    struct pod_err err;
};

static struct list list;

// For cmocka: a pod of two hosts, and an empty list.
static inline int list_setup(void **state)
{
    memset(&list, 0, sizeof(list));
    list.self = fixture_request(POD_KIND_GRAPH);
    list.graph.self = &list.self;
    list.graph.ops = list.ops;
    return fixture_setup_two(state);
}

static inline struct pod_ref request_ref(uint64_t index)
{
    return (struct pod_ref){.kind = POD_REF_REQUEST, .number = index};
}

static inline struct pod_request *list_add(enum pod_kind kind)
{
    size_t i = list.graph.count++;

    assert_true(i < LIST_MAX);
    list.requests[i] = fixture_request(kind);
    list.ops[i] = &list.requests[i];
    return &list.requests[i];
}

static inline struct pod_request *list_allocate(uint32_t core, uint64_t bytes)
{
    struct pod_request *request = list_add(POD_KIND_ALLOCATE);

    request->allocate.core = core;
    request->allocate.bytes = bytes;
    return request;
}

static inline struct pod_request *list_copy(struct pod_ref from,
                                            struct pod_ref to)
{
    struct pod_request *request = list_add(POD_KIND_COPY);

    request->copy.from = from;
    request->copy.to = to;
    return request;
}

static inline struct pod_request *list_free(struct pod_ref handle)
{
    struct pod_request *request = list_add(POD_KIND_FREE);

    request->free.handle = handle;
    return request;
}

// The request just added waits for another one.
static inline void list_after(struct pod_ref ref)
{
    size_t i = list.graph.count - 1;

    list.refs[i][0] = ref;
    list.requests[i].after = list.refs[i];
    list.requests[i].after_count = 1;
}

static inline struct pod_request *list_execute(struct pod_ref load,
                                               struct pod_ref input)
{
    struct pod_request *request = list_add(POD_KIND_EXECUTE);
    size_t i = list.graph.count - 1;

    list.refs[i][1] = input;
    list.launches[i] = (struct pod_launch){.load = load,
                                           .inputs = &list.refs[i][1],
                                           .input_count = 1,
                                           .auto_outputs = true};
    request->execute.launches = &list.launches[i];
    request->execute.launch_count = 1;
    return request;
}

static inline enum pod_code list_submit(struct fixture *fix)
{
    list.faults =
        (struct pod_faults){.items = list.items, .capacity = FAULTS_MAX};
    return pod_submit_graph(fix->pod, &list.graph, &list.number, list.numbers,
                            &list.faults, &list.err);
}

static inline void list_accepted(struct fixture *fix)
{
    if (list_submit(fix) != POD_OK)
        fail_msg("refused: %s (%s: %s)", list.err.text, list.items[0].pointer,
                 list.items[0].text);
}

#endif
