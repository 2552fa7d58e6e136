// SPDX-License-Identifier: Apache-2.0
// How views are made: copies of records, each with one block of memory for all
// that it points at. For core/pod alone.
//
// No memory is asked for under the lock. A view is laid into a block that was
// allocated before; when it turns out too small, the laying has counted what is
// needed and is done again with a larger one.
#ifndef POD_POD_VIEW_H
#define POD_POD_VIEW_H

#include "core/pod/internal.h"

// Hands out a block piece by piece. Goes on counting when it is used up.
struct pod_carver {
    char *base;
    size_t size;
    size_t used; // above size: it was too small
};

// Room for `count` items of `bytes` each, aligned for any of them; NULL if it
// does not fit or count is 0. What does not fit must not be written.
void *pod_carve(struct pod_carver *carver, size_t count, size_t bytes);
// The same, filled with a copy of `items`.
void *pod_carve_copy(struct pod_carver *carver, const void *items, size_t count,
                     size_t bytes);
// The same for text; NULL for NULL.
const char *pod_carve_text(struct pod_carver *carver, const char *text);

// The outcomes of an operation by host, for showing.
const struct pod_event_host *pod_carve_hosts(struct pod_carver *carver,
                                             const struct pod_op *op);

// The labels of an operation, for showing; op->label_count of them.
const struct pod_label *pod_carve_labels(struct pod_carver *carver,
                                         const struct pod_op *op);
// A failure as an error of its own, for showing.
struct pod_event_error pod_carve_error(struct pod_carver *carver,
                                       const struct pod_failure *failure);

// Lays the view of an operation, or of what it made. Called with the lock held,
// perhaps several times; the last one fits. Errors end the building.
struct pod_view_kind {
    enum pod_code (*lay_locked)(struct pod *pod, struct pod_op *op,
                                const struct pod_event_filter *filter,
                                struct pod_carver *carver, void *out_view,
                                struct pod_err *err);
    // Whether the operation may be in a list of such views.
    bool (*match_locked)(const struct pod_op *op,
                         const struct pod_event_filter *filter);
    const char *word; // what its id begins with
    size_t bytes;     // of a view
    bool flat;        // it points at nothing: needs no block
    void (*fini)(void *view);
    // What is still to be done without the lock, or NULL. On failure it has
    // given the view back.
    enum pod_code (*finish)(struct pod *pod, void *view, struct pod_err *err);
};

// Makes one view. `filter` NULL: any; else NOT_FOUND if it does not hold (any
// more). On failure nothing needs to be given back.
enum pod_code pod_view_build(struct pod *pod, const struct pod_view_kind *kind,
                             uint64_t number,
                             const struct pod_event_filter *filter,
                             void *out_view, struct pod_err *err)
    __attribute__((warn_unused_result));

// A page of views of a kind that has no filter, as pod_list_buffers and others.
enum pod_code pod_list_views(struct pod *pod, const struct pod_view_kind *kind,
                             uint64_t below, size_t capacity, void *out_views,
                             size_t *out_count, uint64_t *out_next,
                             struct pod_err *err)
    __attribute__((warn_unused_result));

extern const struct pod_view_kind pod_view_event;
extern const struct pod_view_kind pod_view_buffer;
extern const struct pod_view_kind pod_view_program;
extern const struct pod_view_kind pod_view_load;

#endif
