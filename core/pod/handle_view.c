// SPDX-License-Identifier: Apache-2.0
// Buffers, programs and loads as they are shown.
#include "core/pod/view.h"

#include "core/base/mem.h"
#include "core/pod/effect.h"

enum { BUFFER_READERS_SHOWN = 100 };

static enum pod_code handle_missing(uint64_t number, const char *what,
                                    struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_NOT_FOUND, "op-%llu made no %s",
                       (unsigned long long)number, what);
}

// ------------------------------------------------------------------ buffers

static bool buffer_match(const struct pod_op *op,
                         const struct pod_event_filter *filter)
{
    (void)filter;
    return op->buffer != NULL;
}

// The operations that read it now. One that reads it twice stands there once
// for each, next to each other.
static void buffer_lay_readers(struct pod_buffer *buffer,
                               struct pod_carver *carver,
                               struct pod_buffer_view *view)
{
    uint64_t numbers[BUFFER_READERS_SHOWN];
    size_t count = 0;

    for (struct pod_list *link = buffer->readers.next;
         link != &buffer->readers && count < BUFFER_READERS_SHOWN;
         link = link->next) {
        uint64_t number = POD_CONTAINER(link, struct pod_use, link)->op->number;
        if (count == 0 || numbers[count - 1] != number)
            numbers[count++] = number;
    }
    view->readers = pod_carve_copy(carver, numbers, count, sizeof(numbers[0]));
    view->reader_count = count;
}

// False: the shape of a part is not known.
static bool buffer_print_shape(const struct pod_buffer *buffer,
                               struct pod_str *out)
{
    bool known = buffer->is_tuple || buffer->has_shape;

    if (buffer->has_shape)
        pod_shape_print(buffer->shape, !pod_shape_is_row_major(buffer->shape),
                        out);
    if (!buffer->is_tuple)
        return known;
    pod_str_puts(out, "(");
    for (size_t i = 0; known && i < buffer->child_count; i++) {
        pod_str_puts(out, i == 0 ? "" : ", ");
        known = buffer_print_shape(buffer->children[i], out);
    }
    pod_str_puts(out, ")");
    return known;
}

// Others wait meanwhile, so it must not be large.
static const char *buffer_lay_tuple(const struct pod_buffer *buffer,
                                    struct pod_carver *carver)
{
    struct pod_str text = {0};
    const char *shape = NULL;

    if (!buffer->is_tuple || buffer->handle.free_done ||
        buffer->nodes > POD_TUPLE_SHOWN + 1)
        return NULL;
    if (buffer_print_shape(buffer, &text) && !text.failed)
        shape = pod_carve_text(carver, text.data);
    pod_str_fini(&text);
    return shape;
}

static enum pod_code buffer_lay(struct pod *pod, struct pod_op *op,
                                const struct pod_event_filter *filter,
                                struct pod_carver *carver, void *out_view,
                                struct pod_err *err)
{
    struct pod_buffer *buffer = op->buffer;
    struct pod_buffer_view *view = out_view;

    (void)pod;
    (void)filter;
    if (buffer == NULL)
        return handle_missing(op->number, "buffer", err);
    *view = (struct pod_buffer_view){
        .number = op->number,
        .state = pod_buffer_state(buffer),
        .has_shape = buffer->has_shape || buffer->is_tuple,
        .bytes = buffer->bytes,
        .core = buffer->core,
        .host = buffer->host,
        .last_writer = buffer->last_writer_number,
        .freed_by = buffer->handle.freed_by,
        .is_tuple = buffer->is_tuple,
        .children = pod_carve_copy(carver, buffer->child_numbers,
                                   buffer->child_count, sizeof(uint64_t)),
        .child_count = buffer->child_count,
        .name = pod_carve_text(carver, op->name),
        .tuple_shape = buffer_lay_tuple(buffer, carver),
        .memory = carver->base,
    };
    if (buffer->is_tuple)
        view->shape.type = POD_TYPE_TUPLE;
    else if (buffer->has_shape)
        view->shape = *buffer->shape;
    buffer_lay_readers(buffer, carver, view);
    return POD_OK;
}

static void buffer_fini(void *view)
{
    pod_buffer_view_fini(view);
}

const struct pod_view_kind pod_view_buffer = {
    .lay_locked = buffer_lay,
    .match_locked = buffer_match,
    .word = "buf",
    .bytes = sizeof(struct pod_buffer_view),
    .fini = buffer_fini,
};

enum pod_code pod_get_buffer(struct pod *pod, uint64_t number,
                             struct pod_buffer_view *out_view,
                             struct pod_err *err)
{
    struct pod_buffer_view view;
    enum pod_code code =
        pod_view_build(pod, &pod_view_buffer, number, NULL, &view, err);

    if (code == POD_OK)
        *out_view = view;
    return code;
}

void pod_buffer_view_fini(struct pod_buffer_view *view)
{
    if (view == NULL)
        return;
    pod_free(view->memory);
    view->memory = NULL;
}

// ----------------------------------------------------------------- programs

static bool program_match(const struct pod_op *op,
                          const struct pod_event_filter *filter)
{
    (void)filter;
    return op->program != NULL;
}

static void program_lay_loads(struct pod_program *program,
                              struct pod_carver *carver,
                              struct pod_program_view *view)
{
    uint64_t *loads = pod_carve(carver, program->load_count, sizeof(uint64_t));
    size_t count = 0;

    view->load_count = program->load_count;
    view->loads = loads;
    if (loads == NULL)
        return;
    for (struct pod_list *link = program->loads.next; link != &program->loads;
         link = link->next)
        loads[count++] = POD_CONTAINER(link, struct pod_loaded, program_link)
                             ->handle.maker->number;
}

// The shape may be large, so it is copied without the lock, by program_finish.
// Until then the operation is pinned, and the shape of a program never changes
// once it is known.
static enum pod_code program_lay(struct pod *pod, struct pod_op *op,
                                 const struct pod_event_filter *filter,
                                 struct pod_carver *carver, void *out_view,
                                 struct pod_err *err)
{
    struct pod_program *program = op->program;
    struct pod_program_view *view = out_view;

    (void)pod;
    (void)filter;
    if (program == NULL)
        return handle_missing(op->number, "program", err);
    *view = (struct pod_program_view){
        .number = op->number,
        .state = pod_program_state(program),
        .name = pod_carve_text(carver, op->name),
        .replicas = program->replicas,
        .format = program->format,
        .bytes = program->bytes,
        .freed_by = program->handle.freed_by,
        .hosts = pod_carve_hosts(carver, op),
        .host_count = op->outcome_count,
        .has_shape = program->has_shape,
        .memory = carver->base,
    };
    _Static_assert(sizeof(view->digest) == sizeof(program->digest), "digest");
    for (size_t i = 0; i < sizeof(view->digest); i++)
        view->digest[i] = program->digest[i];
    program_lay_loads(program, carver, view);
    if (program->has_shape && carver->used <= carver->size) {
        view->shape = program->shape; // borrowed until it is copied
        pod_pin(op);
    }
    return POD_OK;
}

static enum pod_code program_finish(struct pod *pod, void *out_view,
                                    struct pod_err *err)
{
    struct pod_program_view *view = out_view;
    struct pod_program_shape borrowed = view->shape;
    struct pod_op *op;

    if (!view->has_shape)
        return POD_OK;
    enum pod_code code = pod_program_shape_copy(&borrowed, &view->shape, err);
    if (code != POD_OK) {
        pod_free(view->memory);
        view->memory = NULL;
    }
    pod_mutex_lock(&pod->lock);
    // Pinned, so it is still there.
    if (pod_find_op_locked(pod, view->number, &op, NULL) == POD_OK)
        pod_unpin_locked(pod, op);
    pod_mutex_unlock(&pod->lock);
    return code;
}

static void program_fini(void *view)
{
    pod_program_view_fini(view);
}

const struct pod_view_kind pod_view_program = {
    .lay_locked = program_lay,
    .match_locked = program_match,
    .word = "prog",
    .bytes = sizeof(struct pod_program_view),
    .fini = program_fini,
    .finish = program_finish,
};

enum pod_code pod_get_program(struct pod *pod, uint64_t number,
                              struct pod_program_view *out_view,
                              struct pod_err *err)
{
    struct pod_program_view view;
    enum pod_code code =
        pod_view_build(pod, &pod_view_program, number, NULL, &view, err);

    if (code == POD_OK)
        *out_view = view;
    return code;
}

void pod_program_view_fini(struct pod_program_view *view)
{
    if (view == NULL)
        return;
    if (view->has_shape)
        pod_program_shape_fini(&view->shape);
    view->has_shape = false;
    pod_free(view->memory);
    view->memory = NULL;
}

// -------------------------------------------------------------------- loads

static bool load_match(const struct pod_op *op,
                       const struct pod_event_filter *filter)
{
    (void)filter;
    return op->load != NULL;
}

static enum pod_code load_lay(struct pod *pod, struct pod_op *op,
                              const struct pod_event_filter *filter,
                              struct pod_carver *carver, void *out_view,
                              struct pod_err *err)
{
    const struct pod_loaded *load = op->load;

    (void)pod;
    (void)filter;
    (void)carver;
    if (load == NULL)
        return handle_missing(op->number, "load", err);
    *(struct pod_load_view *)out_view = (struct pod_load_view){
        .number = op->number,
        .state = pod_loaded_state(load),
        .program = load->program_number,
        .core = load->core,
        .host = load->host,
        .freed_by = load->handle.freed_by,
    };
    return POD_OK;
}

static void load_fini(void *view)
{
    (void)view;
}

const struct pod_view_kind pod_view_load = {
    .lay_locked = load_lay,
    .match_locked = load_match,
    .word = "load",
    .bytes = sizeof(struct pod_load_view),
    .flat = true,
    .fini = load_fini,
};

enum pod_code pod_get_load(struct pod *pod, uint64_t number,
                           struct pod_load_view *out_view, struct pod_err *err)
{
    struct pod_load_view view;
    enum pod_code code =
        pod_view_build(pod, &pod_view_load, number, NULL, &view, err);

    if (code == POD_OK)
        *out_view = view;
    return code;
}
