// SPDX-License-Identifier: Apache-2.0
// Ids in paths and bodies.
#include <string.h>

#include "api/common.h"
#include "api/ids.h"
#include "api/names.h"
#include "api/park.h"
#include "api/query.h"
#include "api/routes.h"
#include "core/base/str.h"

struct pod *api_pod(const struct api_request *req)
{
    return ((struct api_app *)api_app(req))->pod;
}

enum pod_code api_err_memory(struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
}

enum pod_code api_err_freed(enum pod_ref_kind kind, uint64_t number,
                            uint64_t freed_by, struct pod_err *err)
{
    char handle[API_ID_BYTES];
    char op[API_ID_BYTES];
    return pod_err_set(err, POD_REASON_HANDLE_FREED, "%s was freed by %s",
                       api_id_print(kind, number, handle),
                       api_id_print(POD_REF_OP, freed_by, op));
}

static const char *common_kind_text(enum pod_ref_kind kind)
{
    switch (kind) {
    case POD_REF_OP:
        return "an operation";
    case POD_REF_BUFFER:
        return "a buffer";
    case POD_REF_PROGRAM:
        return "a program";
    case POD_REF_LOAD:
        return "a load";
    case POD_REF_GRAPH:
        return "a graph";
    case POD_REF_NONE:
    case POD_REF_REQUEST:
        break;
    }
    return "anything";
}

bool api_path_id(struct api_request *req, size_t index, enum pod_ref_kind kind,
                 uint64_t *out_number)
{
    struct pod_err err = POD_ERR_NONE;
    const char *text = api_param(req, index);
    if (api_id_parse_kind(text, kind, out_number))
        return true;
    (void)pod_err_set(&err, POD_REASON_NOT_FOUND, "'%.64s' is not an id of %s",
                      text, common_kind_text(kind));
    api_problem(req, &err);
    return false;
}

bool api_path_id_only(struct api_request *req, enum pod_ref_kind kind,
                      uint64_t *out_number)
{
    struct pod_err err = POD_ERR_NONE;
    if (!api_path_id(req, 0, kind, out_number))
        return false;
    if (api_query_end(req, &err) == POD_OK)
        return true;
    api_problem(req, &err);
    return false;
}

bool api_path_number(struct api_request *req, size_t capture, const char *what,
                     uint32_t *out_number)
{
    struct pod_err err = POD_ERR_NONE;
    const char *text = api_param(req, capture);
    uint64_t number = 0;
    if ((strcmp(text, "0") == 0 ||
         pod_parse_number(text, strlen(text), &number)) &&
        number < POD_NO_ID) {
        *out_number = (uint32_t)number;
        return true;
    }
    (void)pod_err_set(&err, POD_REASON_NOT_FOUND,
                      "'%.64s' is not the number of a %s", text, what);
    api_problem(req, &err);
    return false;
}

void *api_waiter_begin(struct api_request *req, enum pod_ref_kind kind,
                       int64_t default_ns, size_t bytes)
{
    struct pod_err err = POD_ERR_NONE;
    int64_t wait_ns = default_ns;
    struct api_waiter *waiter = api_alloc(req, bytes);
    enum pod_code code = waiter == NULL
                             ? api_err_memory(&err)
                             : api_wait_time(req, &wait_ns, NULL, &err);
    if (code == POD_OK)
        code = api_query_end(req, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return NULL;
    }
    if (!api_path_id(req, 0, kind, &waiter->number))
        return NULL;
    if (wait_ns > 0)
        waiter->deadline_ns = pod_time_add(api_now(req), wait_ns);
    api_set_state(req, waiter);
    return waiter;
}

static enum pod_code common_parse_ref(const char *text, enum pod_ref_kind kind,
                                      struct pod_ref *out, struct pod_err *err)
{
    struct pod_ref ref = {0};
    size_t length = strlen(text);
    if (!api_id_parse(text, length, &ref) ||
        (kind != POD_REF_NONE && ref.kind != kind))
        return pod_err_set(
            err, POD_REASON_UNKNOWN_HANDLE, "'%.*s' is not an id of %s",
            (int)pod_utf8_clip(text, length, 64), text, common_kind_text(kind));
    *out = ref;
    return POD_OK;
}

// An id, or where there are names a reference to one.
static enum pod_code common_read_id(const struct api_reader *reader,
                                    const char *text, enum pod_ref_kind kind,
                                    const struct api_place *place,
                                    struct pod_ref *out, struct pod_err *err)
{
    if (reader->names != NULL && text[0] == '$')
        return api_names_refer(reader->names, text, kind, place, out, err);
    return common_parse_ref(text, kind, out, err);
}

enum pod_code api_read_ref(struct api_reader *reader, const char *name,
                           enum pod_ref_kind kind, struct pod_ref *out,
                           struct pod_err *err)
{
    const char *text = NULL;
    enum pod_code code = api_read_string(reader, name, &text, err);
    if (code != POD_OK || text == NULL)
        return code;
    const struct api_place place = {reader, name, SIZE_MAX};
    code = common_read_id(reader, text, kind, &place, out, err);
    if (code != POD_OK)
        api_read_at(reader, name, err);
    return code;
}

// One item of a list of ids.
static enum pod_code common_read_item(const struct api_reader *reader,
                                      const char *name, const json_t *list,
                                      size_t index, enum pod_ref_kind kind,
                                      struct pod_ref *out, struct pod_err *err)
{
    const json_t *item = json_array_get(list, index);
    const struct api_place place = {reader, name, index};
    enum pod_code code =
        json_is_string(item)
            ? common_read_id(reader, json_string_value(item), kind, &place, out,
                             err)
            : api_json_wrong_type(item, name, "a list of ids", err);
    char pointer[POD_ERR_POINTER_BYTES];
    if (code != POD_OK)
        pod_err_at(err, "%s", api_place_print(&place, pointer));
    return code;
}

enum pod_code api_read_refs(struct api_memory *memory,
                            struct api_reader *reader, const char *name,
                            enum pod_ref_kind kind,
                            const struct pod_ref **out_refs, size_t *out_count,
                            struct pod_err *err)
{
    const json_t *list = NULL;
    // As many as a body may hold: its limit of values is smaller.
    enum pod_code code = api_read_array(reader, name, SIZE_MAX, &list, err);
    if (code != POD_OK || list == NULL)
        return code;
    size_t count = json_array_size(list);
    struct pod_ref *refs =
        api_memory_alloc(memory, (count > 0 ? count : 1) * sizeof(*refs));
    if (refs == NULL)
        return api_memory_error(memory, err);
    for (size_t i = 0; i < count && code == POD_OK; i++)
        code = common_read_item(reader, name, list, i, kind, &refs[i], err);
    *out_refs = refs;
    *out_count = count;
    return code;
}
