// SPDX-License-Identifier: Apache-2.0
// Buffers, programs and loads as JSON.
#include "api/build.h"
#include "api/view_json.h"

const char *const api_buffer_fields[] = {
    "id",          "state", "shape",   "bytes",    "core", "host", "made_by",
    "last_writer", "tuple", "readers", "freed_by", "name", NULL,
};
const char *const api_program_fields[] = {
    "id",    "state", "name",  "replicas", "format",   "bytes", "digest",
    "hosts", "loads", "shape", "made_by",  "freed_by", NULL,
};
const char *const api_load_fields[] = {
    "id", "state", "program", "core", "host", "made_by", "freed_by", NULL,
};

static json_t *handle_shape(const struct pod_shape *shape)
{
    struct pod_str text = {0};
    pod_shape_print(shape, !pod_shape_is_row_major(shape), &text);
    json_t *json = text.failed ? NULL : json_string_nocheck(text.data);
    pod_str_fini(&text);
    return json;
}

json_t *api_buffer_json(const struct pod_buffer_view *view)
{
    struct api_build buffer = api_build_object();
    json_t *shape = json_null();
    if (view->has_shape && pod_shape_is_array(&view->shape))
        shape = handle_shape(&view->shape);
    else if (view->tuple_shape != NULL)
        shape = json_string_nocheck(view->tuple_shape);
    api_set_id(&buffer, "id", POD_REF_BUFFER, view->number);
    api_set_word(&buffer, "state", pod_handle_state_name(view->state));
    api_set(&buffer, "shape", shape);
    api_set_u64(&buffer, "bytes", view->bytes);
    api_set_number(&buffer, "core", view->core);
    api_set_number(&buffer, "host", view->host);
    api_set_id(&buffer, "made_by", POD_REF_OP, view->number);
    api_set_id(&buffer, "last_writer", POD_REF_OP, view->last_writer);
    if (view->is_tuple)
        api_set_ids(&buffer, "tuple", POD_REF_BUFFER, view->children,
                    view->child_count);
    else
        api_set(&buffer, "tuple", json_null());
    api_set_ids(&buffer, "readers", POD_REF_OP, view->readers,
                view->reader_count);
    if (view->freed_by != 0)
        api_set_id(&buffer, "freed_by", POD_REF_OP, view->freed_by);
    if (view->name != NULL)
        api_set_text(&buffer, "name", view->name);
    return api_build_take(&buffer);
}

json_t *api_event_hosts_json(const struct pod_event_host *hosts, size_t count)
{
    struct api_build list = api_build_array();
    for (size_t i = 0; i < count; i++) {
        const struct pod_event_host *host = &hosts[i];
        struct api_build item = api_build_object();
        api_set_number(&item, "host", host->host);
        api_set_word(&item, "state", pod_sched_state_name(host->state));
        if (host->code != POD_OK) {
            api_set_word(&item, "code", pod_code_name(host->code));
            api_set_text(&item, "detail", host->detail);
        }
        api_append(&list, api_build_take(&item));
    }
    return api_build_take(&list);
}

json_t *api_program_shape_json(const struct pod_program_shape *shape)
{
    struct api_build object = api_build_object();
    struct api_build parameters = api_build_array();
    for (size_t i = 0; i < shape->count; i++)
        api_append(&parameters, handle_shape(&shape->parameters[i]));
    api_set(&object, "parameters", api_build_take(&parameters));
    api_set(&object, "result", handle_shape(&shape->result));
    return api_build_take(&object);
}

json_t *api_program_json(const struct pod_program_view *view)
{
    struct api_build program = api_build_object();
    api_set_id(&program, "id", POD_REF_PROGRAM, view->number);
    api_set_word(&program, "state", pod_handle_state_name(view->state));
    api_set_text(&program, "name", view->name);
    api_set_number(&program, "replicas", view->replicas);
    api_set_word(&program, "format", pod_program_format_type(view->format));
    api_set_u64(&program, "bytes", view->bytes);
    api_set_text(&program, "digest", view->digest);
    api_set(&program, "hosts",
            api_event_hosts_json(view->hosts, view->host_count));
    api_set_ids(&program, "loads", POD_REF_LOAD, view->loads, view->load_count);
    if (view->has_shape)
        api_set(&program, "shape", api_program_shape_json(&view->shape));
    api_set_id(&program, "made_by", POD_REF_OP, view->number);
    if (view->freed_by != 0)
        api_set_id(&program, "freed_by", POD_REF_OP, view->freed_by);
    return api_build_take(&program);
}

json_t *api_load_json(const struct pod_load_view *view)
{
    struct api_build load = api_build_object();
    api_set_id(&load, "id", POD_REF_LOAD, view->number);
    api_set_word(&load, "state", pod_handle_state_name(view->state));
    api_set_id(&load, "program", POD_REF_PROGRAM, view->program);
    api_set_number(&load, "core", view->core);
    api_set_number(&load, "host", view->host);
    api_set_id(&load, "made_by", POD_REF_OP, view->number);
    if (view->freed_by != 0)
        api_set_id(&load, "freed_by", POD_REF_OP, view->freed_by);
    return api_build_take(&load);
}
