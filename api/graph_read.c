// SPDX-License-Identifier: Apache-2.0
#include "api/graph_read.h"

#include <string.h>

#include "api/build.h"
#include "api/common.h"
#include "api/forms.h"
#include "api/graph_write.h"
#include "api/json.h"
#include "api/json_memory.h"
#include "core/base/mem.h"

enum {
    GRAPH_REF_MAX = 256, // bytes of a ref
    GRAPH_DEPTH = 32,
    GRAPH_LINE_VALUES = 200000,
    GRAPH_VALUES = 2000000,
};

const char *const api_graph_on_error[2] = {"SKIP_DEPENDENTS", "CANCEL_GRAPH"};

void api_graph_init(struct api_graph *graph, struct pod *pod)
{
    *graph = (struct api_graph){.pod = pod};
    graph->memory.budget = pod;
    graph->self.kind = POD_KIND_GRAPH;
    graph->self.deadline_ns = POD_NEVER;
    graph->faults.items = graph->fault_items;
    graph->faults.capacity = API_GRAPH_FAULTS;
    api_names_init(&graph->names, &graph->memory);
}

void api_graph_fini(struct api_graph *graph)
{
    api_names_fini(&graph->names);
    pod_free(graph->ops);
    pod_free(graph->refs);
    pod_free(graph->refused);
    graph->ops = NULL;
    graph->refs = NULL;
    graph->refused = NULL;
    pod_str_fini(&graph->line);
    api_memory_fini(&graph->line_json);
    api_memory_fini(&graph->json);
    api_memory_fini(&graph->memory);
}

// ---------------------------------------------------------------------- faults

// An operation has a fault: it is listed, and the others are read on.
static void graph_fault(void *arg, size_t operation, const struct pod_err *err)
{
    struct api_graph *graph = arg;

    pod_faults_add(&graph->faults, err);
    graph->refused[operation] = true;
    graph->any_refused = true;
}

// Whether an error is the operation's, and not that of the request.
static bool graph_is_fault(const struct pod_err *err)
{
    return err->reason != POD_REASON_OUT_OF_MEMORY &&
           err->reason != POD_REASON_STAGING_FULL &&
           err->reason != POD_REASON_BODY_TOO_LARGE;
}

// ------------------------------------------------------------------ operations

static enum pod_code graph_read_write(const struct api_form *form,
                                      struct pod_request *out,
                                      struct pod_err *err);

struct graph_kind {
    const char *name;
    enum pod_kind kind;
    enum pod_ref_kind makes;
    enum pod_code (*read)(const struct api_form *form, struct pod_request *out,
                          struct pod_err *err);
};

static const struct graph_kind graph_kinds[] = {
    {"allocate", POD_KIND_ALLOCATE, POD_REF_BUFFER, api_form_allocate},
    {"write", POD_KIND_WRITE, POD_REF_NONE, graph_read_write},
    {"read", POD_KIND_READ, POD_REF_NONE, api_form_read},
    {"copy", POD_KIND_COPY, POD_REF_NONE, api_form_copy},
    {"free", POD_KIND_FREE, POD_REF_NONE, api_form_free},
    {"compile", POD_KIND_COMPILE, POD_REF_PROGRAM, api_form_compile},
    {"load", POD_KIND_LOAD, POD_REF_LOAD, api_form_load},
    {"unload", POD_KIND_UNLOAD, POD_REF_NONE, api_form_unload},
    {"execute", POD_KIND_EXECUTE, POD_REF_NONE, api_form_execute},
};

enum { GRAPH_KINDS = sizeof(graph_kinds) / sizeof(graph_kinds[0]) };

// The graph is known to the form by its memory.
static struct api_graph *graph_of(const struct api_form *form)
{
    return POD_CONTAINER(form->memory, struct api_graph, memory);
}

// A value that is needed after its line is done; NULL: no memory. It takes many
// times the bytes of its text, which the staging budget bounds.
static const json_t *graph_own_value(struct api_graph *graph,
                                     const json_t *value)
{
    if (graph->root != NULL)
        return value;
    struct api_memory *before = api_json_memory_begin(&graph->memory);
    const json_t *copy = json_deep_copy(value);
    api_json_memory_end(before);
    return copy;
}

static enum pod_code graph_read_write(const struct api_form *form,
                                      struct pod_request *out,
                                      struct pod_err *err)
{
    struct api_graph *graph = graph_of(form);
    struct api_graph_write write = {.request = out,
                                    .operation = graph->count - 1};
    enum pod_code code = api_form_write(form, out, &write.values, err);
    if (code != POD_OK)
        return code;
    if (out->write.buffer.kind == POD_REF_BUFFER)
        return api_graph_write_values(graph, &write, err);
    struct api_graph_write *later =
        api_memory_alloc(form->memory, sizeof(*later));
    write.values = graph_own_value(graph, write.values);
    if (later == NULL || write.values == NULL)
        return api_memory_error(form->memory, err);
    write.next = graph->writes;
    *later = write;
    graph->writes = later;
    return POD_OK;
}

static bool graph_grow(struct api_graph *graph)
{
    size_t capacity = graph->capacity * 2 + 16;

    if (graph->count < graph->capacity)
        return true;
    const struct pod_request **ops =
        pod_realloc(graph->ops, capacity, sizeof(*ops));
    if (ops != NULL)
        graph->ops = ops;
    const char **refs = pod_realloc(graph->refs, capacity, sizeof(*refs));
    if (refs != NULL)
        graph->refs = refs;
    bool *refused = pod_realloc(graph->refused, capacity, sizeof(*refused));
    if (refused != NULL)
        graph->refused = refused;
    if (ops == NULL || refs == NULL || refused == NULL)
        return false;
    graph->capacity = capacity;
    return true;
}

// Makes a text that is borrowed from JSON the graph's own.
static bool graph_own(struct api_graph *graph, const char **text)
{
    if (*text == NULL || graph->root != NULL)
        return true;
    *text = api_memory_strdup(&graph->memory, *text);
    return *text != NULL;
}

static enum pod_code graph_own_texts(struct api_graph *graph,
                                     struct pod_request *request,
                                     struct pod_err *err)
{
    bool owned = graph_own(graph, &request->name);
    struct pod_label *labels = NULL;

    if (owned && request->label_count > 0 && graph->root == NULL) {
        labels = api_memory_alloc(&graph->memory,
                                  request->label_count * sizeof(*labels));
        owned = labels != NULL;
    }
    for (size_t i = 0; owned && labels != NULL && i < request->label_count;
         i++) {
        labels[i] = request->labels[i];
        owned = graph_own(graph, &labels[i].key) &&
                graph_own(graph, &labels[i].value);
    }
    if (labels != NULL)
        request->labels = labels;
    return owned ? POD_OK : api_memory_error(&graph->memory, err);
}

static enum pod_code graph_read_kind(struct api_reader *reader,
                                     const struct graph_kind **out_kind,
                                     struct pod_err *err)
{
    const char *given = NULL;
    size_t index = GRAPH_KINDS;

    enum pod_code code = api_read_string(reader, "op", &given, err);
    if (code != POD_OK)
        return code;
    if (given == NULL)
        return api_read_missing(reader, "op", err);
    for (size_t i = 0; i < GRAPH_KINDS && index == GRAPH_KINDS; i++) {
        if (strcmp(given, graph_kinds[i].name) == 0)
            index = i;
    }
    if (index < GRAPH_KINDS) {
        *out_kind = &graph_kinds[index];
        return POD_OK;
    }
    code =
        pod_err_set(err, POD_REASON_BAD_VALUE,
                    "'%.64s' is not one of allocate, write, read, copy, free, "
                    "compile, load, unload, execute",
                    given);
    api_read_at(reader, "op", err);
    return code;
}

static enum pod_code graph_read_ref(struct api_graph *graph,
                                    struct api_reader *reader,
                                    struct api_name_text *out_ref,
                                    struct pod_err *err)
{
    const char *text = NULL;
    enum pod_code code =
        api_read_text(reader, "ref", 1, GRAPH_REF_MAX, &text, err);

    if (code == POD_OK && text != NULL)
        *out_ref = api_names_expect(&graph->names, text);
    return code;
}

static enum pod_code graph_define(struct api_graph *graph,
                                  const struct api_reader *reader,
                                  const struct api_name_text *ref,
                                  enum pod_ref_kind makes, struct pod_err *err)
{
    enum pod_code code = api_names_define(&graph->names, ref, makes,
                                          &graph->refs[graph->count - 1], err);

    if (code != POD_OK)
        api_read_at(reader, "ref", err);
    return code;
}

static enum pod_code graph_read_form(struct api_graph *graph,
                                     struct api_reader *reader,
                                     const struct graph_kind *kind,
                                     struct pod_request *request,
                                     struct pod_err *err)
{
    const struct api_form form = {
        .memory = &graph->memory, .pod = graph->pod, .reader = reader};

    request->kind = kind->kind;
    request->deadline_ns = graph->self.deadline_ns;
    request->priority = graph->self.priority;
    request->run_on_failure = graph->self.run_on_failure;
    enum pod_code code = kind->read(&form, request, err);
    if (code == POD_OK && request->deadline_ns > graph->self.deadline_ns)
        request->deadline_ns = graph->self.deadline_ns;
    return code == POD_OK ? graph_own_texts(graph, request, err) : code;
}

static enum pod_code graph_read_members(struct api_graph *graph,
                                        struct api_reader *reader,
                                        struct pod_request *request,
                                        struct pod_err *err)
{
    const struct graph_kind *kind = NULL;
    struct api_name_text ref = {.text = NULL};
    struct pod_err other;

    enum pod_code code = graph_read_kind(reader, &kind, err);
    enum pod_code named =
        graph_read_ref(graph, reader, &ref, code == POD_OK ? err : &other);
    if (code == POD_OK)
        code = named;
    if (code == POD_OK)
        code = graph_read_form(graph, reader, kind, request, err);
    if (named != POD_OK || ref.text == NULL)
        return code;
    // A name counts even if the rest is at fault.
    named = graph_define(graph, reader, &ref,
                         kind != NULL ? kind->makes : POD_REF_NONE,
                         code == POD_OK ? err : &other);
    return code == POD_OK ? named : code;
}

// Reads one operation. Only what is no fault of its own is returned.
static enum pod_code graph_read_op(struct api_graph *graph, const json_t *value,
                                   struct pod_err *err)
{
    struct api_reader reader;
    size_t index = graph->count;
    struct pod_request *request =
        api_memory_alloc(&graph->memory, sizeof(*request));

    if (request == NULL || !graph_grow(graph))
        return api_memory_error(&graph->memory, err);
    graph->ops[index] = request;
    graph->refs[index] = NULL;
    graph->refused[index] = false;
    graph->count++;
    graph->names.current = index;
    enum pod_code code =
        api_read_begin_item(&reader, value, "/ops", index, err);
    reader.names = &graph->names;
    if (code == POD_OK)
        code = graph_read_members(graph, &reader, request, err);
    if (code == POD_OK || !graph_is_fault(err))
        return code;
    graph_fault(graph, index, err);
    return POD_OK;
}

// ------------------------------------------------------------------------- end

// All operations are read: names, then what depends on what they name.
static enum pod_code graph_finish(struct api_graph *graph, struct pod_err *err)
{
    api_names_resolve(&graph->names, graph_fault, graph);
    for (const struct api_graph_write *write = graph->writes; write != NULL;
         write = write->next) {
        const struct pod_ref *buffer = &write->request->write.buffer;
        bool named = buffer->kind == POD_REF_REQUEST;
        // One that writes to a faulty one has no fault of its own.
        if (graph->refused[write->operation])
            continue;
        if (named && graph->refused[buffer->number]) {
            graph->refused[write->operation] = true;
            continue;
        }
        if (api_graph_write_values(graph, write, err) == POD_OK)
            continue;
        if (!graph_is_fault(err))
            return err->code;
        graph_fault(graph, write->operation, err);
    }
    return POD_OK;
}

// ------------------------------------------------------------------------ JSON

static enum pod_code graph_read_self(struct api_graph *graph,
                                     struct api_reader *reader,
                                     const json_t **out_ops,
                                     struct pod_err *err)
{
    size_t on_error = 0;
    enum pod_code code =
        api_common_from_body(&graph->memory, reader, &graph->self, err);
    if (code == POD_OK)
        code = api_read_enum(reader, "on_error", api_graph_on_error, 2,
                             &on_error, err);
    if (code == POD_OK)
        code = api_read_array(reader, "ops", POD_GRAPH_MAX, out_ops, err);
    if (code == POD_OK)
        code = api_read_end(reader, err);
    if (code == POD_OK && *out_ops == NULL)
        code = api_read_missing(reader, "ops", err);
    graph->cancel_on_error = on_error == 1;
    return code;
}

enum pod_code api_graph_parse_json(struct api_graph *graph, const char *text,
                                   size_t length, struct pod_err *err)
{
    static const struct api_json_limits limits = {.depth = GRAPH_DEPTH,
                                                  .values = GRAPH_VALUES};
    json_t *root = NULL;
    enum pod_code code =
        api_json_parse(text, length, &limits, &graph->json, &root, err);

    graph->root = root;
    return code;
}

enum pod_code api_graph_read_json(struct api_graph *graph, struct pod_err *err)
{
    struct api_reader reader;
    const json_t *ops = NULL;

    enum pod_code code = api_read_begin(&reader, graph->root, "", err);
    if (code == POD_OK)
        code = graph_read_self(graph, &reader, &ops, err);
    for (size_t i = 0; code == POD_OK && i < json_array_size(ops); i++)
        code = graph_read_op(graph, json_array_get(ops, i), err);
    return code == POD_OK ? graph_finish(graph, err) : code;
}

// ---------------------------------------------------------------------- NDJSON

static enum pod_code graph_read_line(struct api_graph *graph, const char *text,
                                     size_t length, struct pod_err *err)
{
    static const struct api_json_limits limits = {
        .depth = GRAPH_DEPTH, .values = GRAPH_LINE_VALUES, .any = true};
    json_t *value = NULL;

    graph->line_number++;
    if (strspn(text, " \t\r") >= length)
        return POD_OK;
    if (graph->count == POD_GRAPH_MAX)
        return pod_err_set(err, POD_REASON_BODY_TOO_LARGE,
                           "a graph may have at most %d operations",
                           POD_GRAPH_MAX);
    api_memory_reset(&graph->line_json);
    enum pod_code code =
        api_json_parse(text, length, &limits, &graph->line_json, &value, err);
    if (code != POD_OK) {
        err->line = (int)graph->line_number;
        pod_err_wrap(err, "line %llu", (unsigned long long)graph->line_number);
        return code;
    }
    return graph_read_op(graph, value, err);
}

// The start of a line whose end is still to come.
static enum pod_code graph_keep_line(struct api_graph *graph, const char *data,
                                     size_t size, struct pod_err *err)
{
    if (size > API_GRAPH_LINE_BYTES - graph->line.length)
        return pod_err_set(
            err, POD_REASON_BODY_TOO_LARGE, "line %llu is longer than %d bytes",
            (unsigned long long)graph->line_number + 1, API_GRAPH_LINE_BYTES);
    pod_str_append(&graph->line, data, size);
    return graph->line.failed ? api_err_memory(err) : POD_OK;
}

// The line that was kept is whole.
static enum pod_code graph_take_line(struct api_graph *graph,
                                     struct pod_err *err)
{
    enum pod_code code =
        graph_read_line(graph, graph->line.data == NULL ? "" : graph->line.data,
                        graph->line.length, err);

    graph->line.length = 0;
    return code;
}

enum pod_code api_graph_read_lines(struct api_graph *graph, const char *data,
                                   size_t size, struct pod_err *err)
{
    enum pod_code code = POD_OK;

    while (size > 0 && code == POD_OK) {
        const char *end = memchr(data, '\n', size);
        size_t length = end == NULL ? size : (size_t)(end - data);
        bool whole = end != NULL && graph->line.length == 0 &&
                     length <= API_GRAPH_LINE_BYTES;
        if (!whole)
            code = graph_keep_line(graph, data, length, err);
        if (end == NULL || code != POD_OK)
            return code;
        code = whole ? graph_read_line(graph, data, length, err)
                     : graph_take_line(graph, err);
        data = end + 1;
        size -= length + 1;
    }
    return code;
}

enum pod_code api_graph_read_end(struct api_graph *graph, struct pod_err *err)
{
    enum pod_code code = POD_OK;

    if (graph->line.length > 0)
        code = graph_take_line(graph, err);
    api_memory_fini(&graph->line_json);
    return code == POD_OK ? graph_finish(graph, err) : code;
}

// ------------------------------------------------------------------ submission

enum pod_code api_graph_submit(struct api_graph *graph, uint64_t *out_number,
                               uint64_t *out_numbers, struct pod_err *err)
{
    struct pod_request self = graph->self;
    const struct pod_graph_request request = {
        .self = &self,
        .ops = graph->ops,
        .count = graph->count,
        .names = graph->refs,
        .refused = graph->any_refused ? graph->refused : NULL,
        .cancel_on_error = graph->cancel_on_error,
        .validate_only = graph->validate_only,
    };

    // Its operations have the deadline; it ends with them.
    self.deadline_ns = POD_NEVER;
    return pod_submit_graph(graph->pod, &request, out_number, out_numbers,
                            &graph->faults, err);
}

// What an operation made, for those who know it by its name.
static json_t *graph_ref_json(const struct pod_request *request,
                              uint64_t number, uint64_t before)
{
    struct api_build ref = api_build_object();

    api_set_id(&ref, "op", POD_REF_OP, number);
    if (request->kind == POD_KIND_ALLOCATE ||
        request->kind == POD_KIND_ALLOCATE_TUPLE)
        api_set_id(&ref, "buffer", POD_REF_BUFFER, number);
    if (request->kind == POD_KIND_COMPILE)
        api_set_id(&ref, "program", POD_REF_PROGRAM, number);
    if (request->kind == POD_KIND_LOAD)
        api_set_id(&ref, "load", POD_REF_LOAD, number);
    if (request->kind == POD_KIND_EXECUTE) {
        struct api_build outputs = api_build_array();
        for (uint64_t output = before + 1; output < number; output++)
            api_append_id(&outputs, POD_REF_BUFFER, output);
        api_set(&ref, "outputs", api_build_take(&outputs));
    }
    return api_build_take(&ref);
}

// Adds `"a":{"op":...}` for an operation that has a name. The text of a name
// was valid UTF-8 when it was parsed.
static bool graph_put_ref(const struct api_graph *graph, size_t index,
                          uint64_t number, uint64_t before, struct pod_str *out)
{
    json_t *member = json_object();
    json_t *ref = graph_ref_json(graph->ops[index], number, before);
    char *text = NULL;

    if (member != NULL &&
        json_object_set_new_nocheck(member, graph->refs[index], ref) == 0)
        text = json_dumps(member, JSON_COMPACT);
    if (text == NULL)
        return false;
    pod_str_puts(out, out->length == 1 ? "" : ",");
    pod_str_append(out, text + 1, strlen(text) - 2);
    return true;
}

bool api_graph_refs(const struct api_graph *graph, uint64_t number,
                    const uint64_t *numbers, struct pod_str *out)
{
    struct api_memory memory = {.budget = NULL};
    bool fine = true;

    pod_str_puts(out, "{");
    for (size_t i = 0; i < graph->count && fine; i++) {
        if (graph->refs[i] == NULL)
            continue;
        struct api_memory *before = api_json_memory_begin(&memory);
        fine = graph_put_ref(graph, i, numbers[i],
                             i == 0 ? number : numbers[i - 1], out);
        api_json_memory_end(before);
        api_memory_reset(&memory);
    }
    api_memory_fini(&memory);
    pod_str_puts(out, "}");
    return fine && !out->failed;
}
