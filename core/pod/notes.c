// SPDX-License-Identifier: Apache-2.0
// Lines of the log about operations and hosts.
//
// Nothing is written under the engine's lock: an operation that ends leaves a
// note in a ring, and whoever ends the step writes what is there. If notes come
// faster than they can be written the newest are dropped, and the log says how
// many.
#include "core/pod/notes.h"

#include "core/base/mem.h"
#include "core/pod/internal.h"

enum {
    NOTES_MAX = 1024,
    NOTES_BATCH = 16, // written between two looks
};

bool pod_notes_init(struct pod *pod)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (const char *at = pod->options.instance; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
    pod->span_salt = hash;
    pod->notes.items = pod_calloc(NOTES_MAX, sizeof(*pod->notes.items));
    return pod->notes.items != NULL;
}

static void note_fini(struct pod_note *note)
{
    pod_failure_unref(note->failure);
    pod_trace_unref(note->trace);
}

void pod_notes_fini(struct pod *pod)
{
    struct pod_notes *notes = &pod->notes;

    for (size_t i = 0; i < notes->count; i++)
        note_fini(&notes->items[(notes->first + i) % NOTES_MAX]);
    pod_free(notes->items);
}

// A number is used once in a pod's life, so a mix of it (splitmix64) with
// something of the pod's own is a span's id, and need not be kept.
uint64_t pod_span(const struct pod *pod, uint64_t number)
{
    uint64_t z = pod->span_salt + number * UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return z != 0 ? z : 1;
}

// ---------------------------------------------------------------------- taking

// A warning only for what failed by itself: a failure may bring down very many
// others.
static enum pod_log_level note_level(const struct pod_op *op)
{
    bool bad = op->state == POD_SCHED_FAILED || op->state == POD_SCHED_LOST;

    return bad && op->root == op->number ? POD_LOG_WARN : POD_LOG_DEBUG;
}

// What every note says. NULL: the log does not want it, or there is no room.
static struct pod_note *note_new(struct pod *pod, const struct pod_op *op,
                                 enum pod_log_event event,
                                 enum pod_log_level level)
{
    struct pod_notes *notes = &pod->notes;

    if (!pod_log_wants(level))
        return NULL;
    if (notes->count == NOTES_MAX) {
        notes->dropped++;
        return NULL;
    }
    struct pod_note *note =
        &notes->items[(notes->first + notes->count++) % NOTES_MAX];
    *note = (struct pod_note){
        .event = event,
        .level = level,
        .number = op->number,
        .kind = op->kind,
        .state = op->state,
        .host = op->host,
        .core = op->core,
        .graph = op->graph,
        .trace = pod_trace_ref(op->trace),
    };
    return note;
}

void pod_note_ended_locked(struct pod *pod, const struct pod_op *op)
{
    struct pod_note *note =
        note_new(pod, op, POD_LOG_EVENT_OPERATION, note_level(op));

    if (note == NULL)
        return;
    note->root = op->state == POD_SCHED_SUCCEEDED ? 0 : op->root;
    note->took_ns = op->finished_ns;
    note->failure = op->failure == NULL ? NULL : pod_failure_ref(op->failure);
}

void pod_note_stalled_locked(struct pod *pod, const struct pod_op *op,
                             uint32_t host, int64_t since_ns,
                             const char *detail)
{
    struct pod_note *note =
        note_new(pod, op, POD_LOG_EVENT_STALLED, POD_LOG_WARN);

    if (note == NULL)
        return;
    note->host = host;
    note->took_ns = pod->now_ns - since_ns;
    note->detail = detail;
}

void pod_note_stall_over_locked(struct pod *pod, const struct pod_op *op,
                                uint32_t host, int64_t since_ns)
{
    struct pod_note *note =
        note_new(pod, op, POD_LOG_EVENT_STALL_OVER, POD_LOG_WARN);

    if (note == NULL)
        return;
    note->host = host;
    note->took_ns = pod->now_ns - since_ns;
}

// --------------------------------------------------------------------- writing

static struct pod_log_field note_place(enum pod_log_key key, uint32_t id)
{
    struct pod_log_field field = pod_log_number(key, id);

    if (id == POD_NO_ID)
        field.kind = POD_LOG_KIND_NONE;
    return field;
}

static void note_write(const struct pod *pod, const struct pod_note *note)
{
    const struct pod_failure *failure =
        note->state == POD_SCHED_SUCCEEDED ? NULL : note->failure;
    const struct pod_trace *trace = note->trace;
    bool traced = trace != NULL && trace->trace_id[0] != '\0';
    char span[POD_SPAN_ID_BYTES];

    pod_span_id_print(pod_span(pod, note->number), span);
    const struct pod_log_field fields[] = {
        pod_log_id(POD_LOG_KEY_OPERATION, "op", note->number),
        pod_log_text(POD_LOG_KEY_KIND, pod_kind_name(note->kind)),
        pod_log_text(POD_LOG_KEY_STATE, pod_sched_state_name(note->state)),
        pod_log_number(POD_LOG_KEY_DURATION_US, note->took_ns / 1000),
        note_place(POD_LOG_KEY_HOST, note->host),
        note_place(POD_LOG_KEY_CORE, note->core),
        pod_log_id(POD_LOG_KEY_GRAPH, "graph", note->graph),
        pod_log_text(POD_LOG_KEY_REQUEST_ID,
                     trace == NULL ? NULL : trace->request_id),
        pod_log_text(POD_LOG_KEY_TRACE_ID, traced ? trace->trace_id : NULL),
        pod_log_text(POD_LOG_KEY_SPAN_ID, traced ? span : NULL),
        pod_log_text(POD_LOG_KEY_CODE,
                     failure == NULL ? NULL : pod_code_name(failure->code)),
        pod_log_text(POD_LOG_KEY_REASON,
                     failure == NULL ? NULL : pod_reason_name(failure->reason)),
        pod_log_id(POD_LOG_KEY_ROOT_CAUSE, "op", note->root),
        pod_log_text(POD_LOG_KEY_DETAIL,
                     failure == NULL ? note->detail : failure->text),
    };
    pod_log_event(note->level, note->event, fields,
                  sizeof(fields) / sizeof(fields[0]));
}

static size_t notes_take_locked(struct pod_notes *notes,
                                struct pod_note out_notes[NOTES_BATCH])
{
    size_t count = notes->count < NOTES_BATCH ? notes->count : NOTES_BATCH;

    for (size_t i = 0; i < count; i++)
        out_notes[i] = notes->items[(notes->first + i) % NOTES_MAX];
    notes->first = (notes->first + count) % NOTES_MAX;
    notes->count -= count;
    return count;
}

void pod_notes_write(struct pod *pod)
{
    struct pod_note taken[NOTES_BATCH];
    size_t count;
    uint64_t dropped;

    do {
        pod_mutex_lock(&pod->lock);
        count = notes_take_locked(&pod->notes, taken);
        dropped = count == 0 ? pod->notes.dropped : 0;
        pod->notes.dropped -= dropped;
        pod_mutex_unlock(&pod->lock);
        for (size_t i = 0; i < count; i++) {
            note_write(pod, &taken[i]);
            note_fini(&taken[i]);
        }
    } while (count > 0);
    if (dropped == 0)
        return;
    const struct pod_log_field lost =
        pod_log_number(POD_LOG_KEY_COUNT, (int64_t)dropped);
    pod_log_event(POD_LOG_WARN, POD_LOG_EVENT_LOST, &lost, 1);
}

// ----------------------------------------------------------------------- hosts

void pod_note_host(enum pod_log_level level, const struct pod_host *host,
                   enum pod_host_state state, const char *detail)
{
    const struct pod_log_field fields[] = {
        pod_log_number(POD_LOG_KEY_HOST, host->id),
        pod_log_text(POD_LOG_KEY_ADDRESS, host->address),
        pod_log_text(POD_LOG_KEY_STATE, pod_host_state_name(state)),
        pod_log_text(POD_LOG_KEY_DETAIL, detail),
    };

    pod_log_event(level, POD_LOG_EVENT_HOST, fields,
                  sizeof(fields) / sizeof(fields[0]));
}
