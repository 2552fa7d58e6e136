// SPDX-License-Identifier: Apache-2.0
// The checks of requests about programs and loads: compile, load, unload, free.
#include "core/pod/check.h"

enum pod_code pod_check_free_program_locked(struct pod_batch *batch,
                                            size_t item,
                                            struct pod_program *program)
{
    struct pod_op *op = batch->items[item].op;
    struct pod_str text = {0};

    if (program->load_count == 0) {
        op->target_program = program;
        op->program_number = program->handle.maker->number;
        program->handle.freed_by = op->number;
        return POD_OK;
    }
    for (struct pod_list *at = program->loads.next; at != &program->loads;
         at = at->next) {
        const struct pod_loaded *load =
            POD_CONTAINER(at, struct pod_loaded, program_link);
        if (text.length < POD_ERR_TEXT_BYTES)
            pod_str_printf(&text, " load-%llu",
                           (unsigned long long)load->handle.maker->number);
    }
    pod_err_set(batch->err, POD_REASON_IN_USE, "the program is loaded as%s",
                text.data == NULL ? " something" : text.data);
    pod_str_fini(&text);
    return pod_batch_at(batch, item, "/program");
}

enum pod_code pod_check_load_locked(struct pod_batch *batch, size_t item)
{
    const struct pod_request *request = batch->items[item].request;
    struct pod_op *op = batch->items[item].op;
    struct pod_op *made;

    if (pod_batch_find_locked(batch, item, &request->load.program,
                              POD_WANT_PROGRAM, &made) != POD_OK)
        return pod_batch_at(batch, item, "/program");
    if (pod_check_place_locked(batch->pod, request->load.core, batch->err) !=
        POD_OK)
        return pod_batch_at(batch, item, "/core");
    op->core = op->load->core = request->load.core;
    op->host = op->load->host = batch->pod->cores[op->core]->host;
    op->target_program = op->load->program = made->program;
    op->program_number = op->load->program_number = made->number;
    op->load_number = op->number;
    pod_list_push_back(&made->program->loads, &op->load->program_link);
    made->program->load_count++;
    return POD_OK;
}

// `freeing` unloads it; NULL: nobody does any more.
static void check_load_gone(struct pod_loaded *load, struct pod_op *freeing)
{
    struct pod_program *program = load->program;
    bool gone = freeing != NULL;

    load->handle.freed_by = gone ? freeing->number : 0;
    load->freeing = freeing;
    if (program == NULL) // its loading failed
        return;
    pod_list_remove(&load->program_link);
    pod_list_push_back(gone ? &program->closing : &program->loads,
                       &load->program_link);
    if (gone)
        program->load_count--;
    else
        program->load_count++;
}

enum pod_code pod_check_unload_locked(struct pod_batch *batch, size_t item)
{
    struct pod_op *op = batch->items[item].op;
    struct pod_op *made;

    if (pod_batch_find_locked(batch, item,
                              &batch->items[item].request->unload.load,
                              POD_WANT_LOAD, &made) != POD_OK)
        return pod_batch_at(batch, item, "/load");
    op->target_load = made->load;
    op->load_number = made->number;
    op->host = made->load->host;
    op->core = made->load->core;
    check_load_gone(made->load, op);
    return POD_OK;
}

void pod_check_undo_unload_locked(struct pod_loaded *load)
{
    check_load_gone(load, NULL);
}

enum pod_code pod_check_compile_locked(struct pod_batch *batch, size_t item)
{
    struct pod_op *op = batch->items[item].op;
    size_t cursor = 0;
    const struct pod_host *host;

    op->program_number = op->number;
    while ((host = pod_host_next(batch->pod, &cursor)) != NULL) {
        if (pod_host_up(host))
            return POD_OK;
    }
    pod_err_set(batch->err, POD_REASON_HOST_NOT_READY, "no host is ready");
    return pod_batch_at(batch, item, "%s", "");
}
