// SPDX-License-Identifier: Apache-2.0
#include "core/pod/view.h"

#include <stdalign.h>
#include <string.h>

#include "core/base/mem.h"

// Most views fit this at once.
enum { VIEW_BLOCK_BYTES = 512 };

void *pod_carve(struct pod_carver *carver, size_t count, size_t bytes)
{
    size_t align = alignof(max_align_t);
    size_t start = (carver->used + align - 1) / align * align;

    if (count == 0)
        return NULL;
    // The items exist in memory already, so the sums cannot overflow.
    carver->used = start + count * bytes;
    return carver->used <= carver->size ? carver->base + start : NULL;
}

void *pod_carve_copy(struct pod_carver *carver, const void *items, size_t count,
                     size_t bytes)
{
    void *copy = pod_carve(carver, count, bytes);

    if (copy != NULL)
        memcpy(copy, items, count * bytes);
    return copy;
}

const char *pod_carve_text(struct pod_carver *carver, const char *text)
{
    if (text == NULL)
        return NULL;
    return pod_carve_copy(carver, text, strlen(text) + 1, 1);
}

const struct pod_event_host *pod_carve_hosts(struct pod_carver *carver,
                                             const struct pod_op *op)
{
    struct pod_event_host *hosts =
        pod_carve(carver, op->outcome_count, sizeof(*hosts));

    for (size_t i = 0; i < op->outcome_count; i++) {
        const struct pod_outcome *outcome = &op->outcomes[i];
        const struct pod_failure *failure = outcome->failure;
        const char *detail =
            failure == NULL ? NULL : pod_carve_text(carver, failure->text);
        if (hosts != NULL)
            hosts[i] = (struct pod_event_host){
                .host = outcome->host,
                .state = outcome->state,
                .code = failure == NULL ? POD_OK : failure->code,
                .detail = detail,
            };
    }
    return hosts;
}

// What was asked for is named as it was.
static enum pod_code view_missing(const struct pod *pod,
                                  const struct pod_view_kind *kind,
                                  uint64_t number, struct pod_err *err)
{
    bool issued = number != 0 && number <= pod->last_number;

    return pod_err_set(err, issued ? POD_REASON_EXPIRED : POD_REASON_NOT_FOUND,
                       "%s-%llu %s", kind->word, (unsigned long long)number,
                       issued ? "is not kept any more" : "does not exist");
}

const struct pod_label *pod_carve_labels(struct pod_carver *carver,
                                         const struct pod_op *op)
{
    struct pod_label *labels =
        pod_carve(carver, op->label_count, sizeof(*labels));

    for (size_t i = 0; i < op->label_count; i++) {
        const char *key = pod_carve_text(carver, op->labels[i].key);
        const char *value = pod_carve_text(carver, op->labels[i].value);
        if (labels != NULL)
            labels[i] = (struct pod_label){.key = key, .value = value};
    }
    return labels;
}

struct pod_event_error pod_carve_error(struct pod_carver *carver,
                                       const struct pod_failure *failure)
{
    return (struct pod_event_error){
        .code = failure->code,
        .reason = pod_reason_name(failure->reason),
        .detail = pod_carve_text(carver, failure->text),
        .from_worker = failure->from_worker,
        .line = failure->line,
        .column = failure->column,
    };
}

// One attempt with a block of `size`.
static enum pod_code view_try(struct pod *pod, const struct pod_view_kind *kind,
                              uint64_t number,
                              const struct pod_event_filter *filter,
                              struct pod_carver *carver, void *out_view,
                              struct pod_err *err)
{
    pod_mutex_lock(&pod->lock);
    struct pod_op *op = pod_table_get(&pod->table, number);
    enum pod_code code =
        op == NULL ? view_missing(pod, kind, number, err)
                   : kind->lay_locked(pod, op, filter, carver, out_view, err);
    pod_mutex_unlock(&pod->lock);
    return code;
}

enum pod_code pod_view_build(struct pod *pod, const struct pod_view_kind *kind,
                             uint64_t number,
                             const struct pod_event_filter *filter,
                             void *out_view, struct pod_err *err)
{
    struct pod_carver carver = {.size = kind->flat ? 0 : VIEW_BLOCK_BYTES};

    for (;;) {
        carver.used = 0;
        carver.base = kind->flat ? NULL : pod_malloc(carver.size);
        if (carver.base == NULL && !kind->flat)
            return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                               "no memory for a view of %zu bytes",
                               carver.size);
        enum pod_code code =
            view_try(pod, kind, number, filter, &carver, out_view, err);
        if (code != POD_OK) {
            pod_free(carver.base);
            return code;
        }
        if (carver.used <= carver.size)
            break;
        pod_free(carver.base);
        // It may have grown a little when it is looked at again.
        carver.size = carver.used + carver.used / 4;
    }
    return kind->finish == NULL ? POD_OK : kind->finish(pod, out_view, err);
}
