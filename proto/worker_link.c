// SPDX-License-Identifier: Apache-2.0
// What an operation waits for.
//
// Edges go from what comes to what is there already, or to the stand-in of what
// has not come. So a circle can only be closed by one for which a stand-in
// waits, or a gang; and as long as all wait for lower numbers only, by none.
#include <inttypes.h>

#include "core/base/mem.h"
#include "proto/worker_internal.h"

enum {
    // So many that wait for one operation are looked at. A circle of more ends
    // with its session.
    LINK_MAX_VISITS = 1 << 16,
};

// -------------------------------------------------------------- what is named

static size_t link_named_count(const struct worker_request *request)
{
    size_t count = 0;
    switch (request->kind) {
    case WORKER_ALLOCATE:
    case WORKER_COMPILE:
        return 0;
    case WORKER_TUPLE:
        return request->child_count;
    case WORKER_COPY:
        return 2;
    case WORKER_EXECUTE:
        for (size_t i = 0; i < request->launch_count; i++)
            count += 1 + request->launches[i].input_count +
                     request->launches[i].output_count;
        return count;
    case WORKER_DEALLOCATE:
    case WORKER_WRITE:
    case WORKER_READ:
    case WORKER_FREE_PROGRAM:
    case WORKER_LOAD:
    case WORKER_UNLOAD:
    case WORKER_TASK:
        break;
    }
    return 1;
}

// Calls `take` with each number that the request names, until it says false.
static void link_each_named(const struct worker_request *request,
                            bool (*take)(void *arg, uint64_t number), void *arg)
{
    bool more = true;
    if (link_named_count(request) == 0)
        return;
    if (request->kind == WORKER_TUPLE) {
        for (size_t i = 0; i < request->child_count && more; i++)
            more = take(arg, request->children[i]);
        return;
    }
    if (request->kind != WORKER_EXECUTE) {
        if (take(arg, request->target) && request->kind == WORKER_COPY)
            (void)take(arg, request->second);
        return;
    }
    for (size_t i = 0; i < request->launch_count && more; i++) {
        const struct pod_driver_launch *launch = &request->launches[i];
        more = take(arg, launch->load);
        for (size_t k = 0; k < launch->input_count && more; k++)
            more = take(arg, launch->inputs[k]);
        for (size_t k = 0; k < launch->output_count && more; k++)
            more = take(arg, launch->outputs[k]);
    }
}

// --------------------------------------------------------------------- circles

static bool link_is_lower(void *arg, uint64_t number)
{
    struct worker_op *op = arg;
    op->upward = op->upward || number > op->request.number;
    return !op->upward;
}

void worker_link_upward_locked(struct worker_op *op,
                               const struct worker_request *request)
{
    op->upward = request->gathered; // it waits for the others of its gang
    for (size_t i = 0; i < request->wait_count && !op->upward; i++)
        (void)link_is_lower(op, request->waits[i]);
    for (size_t i = 0; i < request->order_count && !op->upward; i++)
        (void)link_is_lower(op, request->orders[i]);
    if (!op->upward)
        link_each_named(request, link_is_lower, op);
    if (op->upward)
        op->session->upward++;
}

static void link_visit_later(struct worker *worker, struct worker_op *op,
                             struct pod_list *list)
{
    if (op == NULL || op->mark == worker->mark)
        return;
    op->mark = worker->mark;
    pod_list_push_back(list, &op->visit);
}

// Those of the operation's gang wait for it until the gang begins.
static void link_visit_gang(struct worker *worker, const struct worker_op *op,
                            struct pod_list *list)
{
    const struct worker_gang *gang = op->gang;
    if (gang == NULL || gang->launched)
        return;
    for (size_t i = 0; i < gang->count; i++) {
        if (gang->members[i] != op)
            link_visit_later(worker, gang->members[i], list);
    }
}

static void link_visit(struct worker *worker, struct worker_op *op,
                       struct pod_list *list)
{
    const void *cursor = NULL;
    void *user = NULL;
    bool carries = false;
    link_visit_later(worker, op->stand_in, list);
    link_visit_gang(worker, op, list);
    while (op->node != NULL &&
           pod_sched_next_dependent(worker->sched, op->node, &cursor, &user,
                                    &carries))
        link_visit_later(worker, user, list);
}

void worker_link_mark_locked(struct worker_op *op)
{
    struct worker *worker = op->session->worker;
    struct pod_list list;
    struct pod_list *item;
    size_t visits = 0;
    worker->mark++;
    if (op->session->upward == 0)
        return;
    pod_list_init(&list);
    link_visit_later(worker, op->stand_in, &list);
    link_visit_gang(worker, op, &list);
    while ((item = pod_list_pop_front(&list)) != NULL) {
        if (visits++ < LINK_MAX_VISITS)
            link_visit(worker, POD_CONTAINER(item, struct worker_op, visit),
                       &list);
    }
}

bool worker_link_waits_for_it(const struct worker *worker,
                              const struct worker_op *op)
{
    return op->mark == worker->mark;
}

// An edge to what must succeed (`carries`), or only end.
static enum pod_code link_to(const struct worker_op *op, struct worker_op *on,
                             uint64_t number, bool carries, struct pod_err *err)
{
    struct worker *worker = op->session->worker;
    if (on != NULL && !on->settled && worker_link_waits_for_it(worker, on))
        return pod_err_set(err, POD_REASON_CYCLE,
                           "op-%" PRIu64 " and op-%" PRIu64
                           " wait for each other, maybe through others",
                           op->request.number, number);
    return worker_dep_locked(worker, on, carries, err);
}

// ----------------------------------------------------------------------- edges

static enum pod_code link_other(const struct worker_op *op, uint64_t number,
                                struct pod_err *err)
{
    if (number != op->request.number)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_VALUE,
                       "op-%" PRIu64 " waits for itself", number);
}

// Behind what need not succeed. It may come later, on another stream.
static enum pod_code link_orders(struct worker_op *op,
                                 const struct worker_request *request,
                                 struct pod_err *err)
{
    struct worker_op *on = NULL;
    enum pod_code code = POD_OK;
    for (size_t i = 0; i < request->order_count && code == POD_OK; i++) {
        uint64_t number = request->orders[i];
        code = link_other(op, number, err);
        if (code == POD_OK)
            code = worker_follow_locked(op->session, number, &on, err);
        if (code == POD_OK)
            code = link_to(op, on, number, false, err);
    }
    return code;
}

enum pod_code worker_link_waits_locked(struct worker_op *op,
                                       const struct worker_request *request,
                                       uint64_t *out_root, struct pod_err *err)
{
    struct worker_op *on = NULL;
    enum pod_code code = POD_OK;
    for (size_t i = 0; i < request->wait_count && code == POD_OK; i++) {
        uint64_t number = request->waits[i];
        code = link_other(op, number, err);
        if (code == POD_OK)
            code = worker_await_locked(op->session, number, &on, out_root, err);
        if (code == POD_OK)
            code = link_to(op, on, number, true, err);
    }
    return code == POD_OK ? link_orders(op, request, err) : code;
}

// Where a walk over the numbers a request names goes.
struct link_naming {
    struct worker_op *op;
    enum pod_code code;
    uint64_t root;
    struct pod_err *err;
};

static bool link_name(void *arg, uint64_t number)
{
    struct link_naming *naming = arg;
    struct worker_op *op = naming->op;
    struct worker_object *object = NULL;
    if (number == op->request.number)
        naming->code =
            pod_err_set(naming->err, POD_REASON_BAD_VALUE,
                        "op-%" PRIu64 " uses what it makes itself", number);
    else
        naming->code = worker_object_find_locked(op->session, number, &object,
                                                 &naming->root, naming->err);
    if (naming->code != POD_OK)
        return false;
    op->named[op->named_count++] = object;
    naming->code = link_to(op, object->maker, number, true, naming->err);
    return naming->code == POD_OK;
}

enum pod_code worker_link_named_locked(struct worker_op *op,
                                       const struct worker_request *request,
                                       uint64_t *out_root, struct pod_err *err)
{
    size_t count = link_named_count(request);
    struct link_naming naming = {.op = op, .err = err};
    if (count == 0)
        return POD_OK;
    op->named = pod_calloc(count, sizeof(op->named[0]));
    if (op->named == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    link_each_named(request, link_name, &naming);
    *out_root = naming.root;
    return naming.code;
}
