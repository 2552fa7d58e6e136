// SPDX-License-Identifier: Apache-2.0
// The order in which the operations of a graph take their turns.
//
// The list is walked from its start. An operation whose references have all
// taken their turns takes its own; else it waits for them, and takes it right
// behind the last one (if several wait for that, in the order of the list). A
// list without forward references is walked without any
// memory. What is still waiting at the end refers to itself in a circle, or to
// something that does.
#include "core/pod/graph.h"

#include "core/base/heap.h"
#include "core/base/mem.h"
#include "core/base/str.h"

enum { ORDER_NONE = UINT32_MAX };

// Somebody that waits for an operation's turn.
struct order_wait {
    uint32_t who;
    uint32_t next; // in the list of the same operation
};

struct order {
    const struct pod_graph_request *graph;
    size_t *turns;
    size_t count;      // turns taken
    bool *taken;       // by operation
    uint32_t *unmet;   // references it waits for
    uint32_t *waiting; // first of its order_waits
    struct order_wait *waits;
    size_t wait_count;
    size_t wait_capacity;
    uint32_t at;           // the operation whose references are visited
    bool failed;           // no memory
    struct pod_heap ready; // operations whose turn it is, by place
    uint32_t *slots;
};

// ----------------------------------------------------------------- references

static bool
order_visit_list(const struct pod_ref *refs, size_t count,
                 bool (*visit)(void *arg, const struct pod_ref *ref), void *arg)
{
    bool going = true;

    for (size_t i = 0; going && i < count; i++)
        going = visit(arg, &refs[i]);
    return going;
}

static bool order_visit_launches(const struct pod_request *request,
                                 bool (*visit)(void *arg,
                                               const struct pod_ref *ref),
                                 void *arg)
{
    bool going = true;

    for (size_t i = 0; going && i < request->execute.launch_count; i++) {
        const struct pod_launch *launch = &request->execute.launches[i];
        size_t outputs = launch->auto_outputs ? 0 : launch->output_count;
        going =
            visit(arg, &launch->load) &&
            order_visit_list(launch->inputs, launch->input_count, visit, arg) &&
            order_visit_list(launch->outputs, outputs, visit, arg);
    }
    return going;
}

static bool
order_visit_kind(const struct pod_request *request,
                 bool (*visit)(void *arg, const struct pod_ref *ref), void *arg)
{
    switch (request->kind) {
    case POD_KIND_ALLOCATE_TUPLE:
        return order_visit_list(request->tuple.children,
                                request->tuple.child_count, visit, arg);
    case POD_KIND_FREE:
        return visit(arg, &request->free.handle);
    case POD_KIND_WRITE:
        return visit(arg, &request->write.buffer);
    case POD_KIND_READ:
        return visit(arg, &request->read.buffer);
    case POD_KIND_COPY:
        return visit(arg, &request->copy.from) && visit(arg, &request->copy.to);
    case POD_KIND_LOAD:
        return visit(arg, &request->load.program);
    case POD_KIND_UNLOAD:
        return visit(arg, &request->unload.load);
    case POD_KIND_EXECUTE:
        return order_visit_launches(request, visit, arg);
    case POD_KIND_ALLOCATE:
    case POD_KIND_COMPILE:
    case POD_KIND_GRAPH:
    case POD_KIND_RESET:
    case POD_KIND_COUNT:
        break;
    }
    return true;
}

// Calls `visit` for each reference that a request makes, until it returns
// false; whether all were visited.
static bool
order_visit_refs(const struct pod_request *request,
                 bool (*visit)(void *arg, const struct pod_ref *ref), void *arg)
{
    return order_visit_list(request->after, request->after_count, visit, arg) &&
           order_visit_kind(request, visit, arg);
}

static bool order_is_refused(const struct pod_graph_request *graph, size_t i)
{
    return graph->refused != NULL && graph->refused[i];
}

// The operation that a reference waits for, or ORDER_NONE.
static uint32_t order_named(const struct pod_graph_request *graph,
                            const struct pod_ref *ref)
{
    if (ref->kind != POD_REF_REQUEST || ref->number >= graph->count ||
        order_is_refused(graph, (size_t)ref->number))
        return ORDER_NONE;
    return (uint32_t)ref->number;
}

// ---------------------------------------------------------------------- sorted

static bool order_visit_forward(void *arg, const struct pod_ref *ref)
{
    const struct order *order = arg;
    uint32_t named = order_named(order->graph, ref);

    return named == ORDER_NONE || named < order->at;
}

// Whether nothing refers to itself or to what comes later.
static bool order_is_sorted(struct order *order)
{
    for (size_t i = 0; i < order->graph->count; i++) {
        order->at = (uint32_t)i;
        if (!order_is_refused(order->graph, i) &&
            !order_visit_refs(order->graph->ops[i], order_visit_forward, order))
            return false;
    }
    return true;
}

// -------------------------------------------------------------------- unsorted

static bool order_init(struct order *order)
{
    size_t count = order->graph->count;

    order->turns = pod_calloc(count, sizeof(*order->turns));
    order->taken = pod_calloc(count, sizeof(*order->taken));
    order->unmet = pod_calloc(count, sizeof(*order->unmet));
    order->waiting = pod_calloc(count, sizeof(*order->waiting));
    order->slots = pod_calloc(count, sizeof(*order->slots));
    if (order->turns == NULL || order->taken == NULL || order->unmet == NULL ||
        order->waiting == NULL || order->slots == NULL ||
        !pod_heap_reserve(&order->ready, count))
        return false;
    for (size_t i = 0; i < count; i++)
        order->waiting[i] = ORDER_NONE;
    return true;
}

static void order_fini(struct order *order)
{
    pod_free(order->taken);
    pod_free(order->unmet);
    pod_free(order->waiting);
    pod_free(order->waits);
    pod_free(order->slots);
    pod_heap_fini(&order->ready);
}

static bool order_wait_for(struct order *order, uint32_t named)
{
    if (order->wait_count == order->wait_capacity) {
        size_t capacity = order->wait_capacity * 2 + 64;
        struct order_wait *waits =
            capacity < ORDER_NONE
                ? pod_realloc(order->waits, capacity, sizeof(*waits))
                : NULL;
        if (waits == NULL)
            return false;
        order->waits = waits;
        order->wait_capacity = capacity;
    }
    order->waits[order->wait_count] =
        (struct order_wait){.who = order->at, .next = order->waiting[named]};
    order->waiting[named] = (uint32_t)order->wait_count++;
    order->unmet[order->at]++;
    return true;
}

static bool order_visit_wait(void *arg, const struct pod_ref *ref)
{
    struct order *order = arg;
    uint32_t named = order_named(order->graph, ref);

    if (named == ORDER_NONE || order->taken[named])
        return true;
    order->failed = !order_wait_for(order, named);
    return !order->failed;
}

static void order_push(struct order *order, uint32_t op)
{
    pod_heap_push(&order->ready, (struct pod_heap_entry){
                                     .key = op, .slot = &order->slots[op]});
}

// An operation takes its turn, then those that waited for just that, and so on,
// always the one that stands first in the list.
static void order_take(struct order *order, uint32_t first)
{
    order_push(order, first);
    while (order->ready.count > 0) {
        uint32_t op = (uint32_t)pod_heap_top(&order->ready)->key;
        pod_heap_remove(&order->ready, &order->slots[op]);
        order->taken[op] = true;
        order->turns[order->count++] = op;
        for (uint32_t wait = order->waiting[op]; wait != ORDER_NONE;
             wait = order->waits[wait].next) {
            uint32_t who = order->waits[wait].who;
            if (--order->unmet[who] == 0)
                order_push(order, who);
        }
    }
}

static bool order_walk(struct order *order)
{
    for (size_t i = 0; i < order->graph->count; i++) {
        if (order_is_refused(order->graph, i))
            continue;
        order->at = (uint32_t)i;
        (void)order_visit_refs(order->graph->ops[i], order_visit_wait, order);
        if (order->failed)
            return false;
        if (order->unmet[i] == 0)
            order_take(order, (uint32_t)i);
    }
    return true;
}

// ---------------------------------------------------------------------- cycles

struct order_find {
    const struct order *order;
    uint32_t found;
};

// The first reference to something that has no turn.
static bool order_visit_stuck(void *arg, const struct pod_ref *ref)
{
    struct order_find *find = arg;
    uint32_t named = order_named(find->order->graph, ref);

    if (named == ORDER_NONE || find->order->taken[named])
        return true;
    find->found = named;
    return false;
}

static uint32_t order_stuck_on(const struct order *order, uint32_t op)
{
    struct order_find find = {.order = order, .found = ORDER_NONE};

    (void)order_visit_refs(order->graph->ops[op], order_visit_stuck, &find);
    return find.found;
}

static void order_print_name(const struct order *order, uint32_t op,
                             struct pod_str *text)
{
    const char *const *names = order->graph->names;

    if (names != NULL && names[op] != NULL)
        pod_str_puts(text, names[op]);
    else
        pod_str_printf(text, "operation %u", op);
}

// The fault of a cycle, named from the operation that stands first in the list.
static void order_add_cycle(const struct order *order, uint32_t on,
                            struct pod_faults *faults)
{
    struct pod_str text = {0};
    struct pod_err fault;
    uint32_t first = on;

    for (uint32_t at = order_stuck_on(order, on); at != on;
         at = order_stuck_on(order, at))
        first = at < first ? at : first;
    pod_str_puts(&text, "each of these waits for the next: ");
    order_print_name(order, first, &text);
    uint32_t at = first;
    do {
        at = order_stuck_on(order, at);
        pod_str_puts(&text, ", ");
        order_print_name(order, at, &text);
        // The rest would be clipped anyway.
    } while (at != first && text.length < POD_ERR_TEXT_BYTES);
    pod_err_set(&fault, POD_REASON_CYCLE, "%s",
                text.failed ? "the references form a circle" : text.data);
    pod_err_at(&fault, "/ops/%u", first);
    pod_faults_add(faults, &fault);
    pod_str_fini(&text);
}

// Each stuck operation follows one reference to another one. A walk along these
// ends in a cycle, or where another walk has been. `unmet` is not needed any
// more: it says in which walk an operation was met.
static void order_find_cycles(struct order *order, struct pod_faults *faults)
{
    uint32_t walk = 0;

    for (size_t i = 0; i < order->graph->count; i++)
        order->unmet[i] = 0;
    for (size_t i = 0; i < order->graph->count; i++) {
        uint32_t at = (uint32_t)i;
        if (order->taken[i] || order->unmet[i] != 0 ||
            order_is_refused(order->graph, i))
            continue;
        for (walk++; order->unmet[at] == 0; at = order_stuck_on(order, at))
            order->unmet[at] = walk;
        if (order->unmet[at] == walk)
            order_add_cycle(order, at, faults);
    }
}

enum pod_code pod_graph_order(const struct pod_graph_request *graph,
                              size_t **out_turns, size_t *out_count,
                              struct pod_faults *faults, struct pod_err *err)
{
    struct order order = {.graph = graph};

    *out_turns = NULL;
    *out_count = graph->count;
    if (order_is_sorted(&order))
        return POD_OK;
    bool done = order_init(&order) && order_walk(&order);
    if (done) {
        size_t refused = 0;
        for (size_t i = 0; i < graph->count; i++)
            refused += order_is_refused(graph, i);
        if (order.count + refused < graph->count)
            order_find_cycles(&order, faults);
        *out_turns = order.turns;
        *out_count = order.count;
    } else {
        pod_free(order.turns);
    }
    order_fini(&order);
    return done ? POD_OK
                : pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                              "no memory for %zu operations", graph->count);
}
