// SPDX-License-Identifier: Apache-2.0
// Reading a graph: operations one by one, with the faults of all of them.
#ifndef POD_API_GRAPH_READ_H
#define POD_API_GRAPH_READ_H

#include <jansson.h>

#include "api/memory.h"
#include "api/names.h"
#include "core/base/str.h"
#include "core/pod/pod.h"

enum {
    API_GRAPH_FAULTS = 100,
    API_GRAPH_LINE_BYTES = 1 << 20,
};

struct api_graph_write;

struct api_graph {
    struct pod *pod;
    struct api_memory memory; // held against the staging budget
    struct api_names names;
    struct pod_request self; // of kind GRAPH; what it has operations default to
    bool cancel_on_error;
    bool validate_only;
    const struct pod_request **ops;
    const char **refs; // by operation; NULL: it has none
    bool *refused;     // by operation
    size_t count;
    size_t capacity;
    bool any_refused;
    struct api_graph_write *writes; // whose values are still to be read
    struct api_memory json;         // JSON that lives as long as the graph
    const json_t *root; // what strings are borrowed from; NULL: they are copied
    struct pod_faults faults;
    struct pod_err fault_items[API_GRAPH_FAULTS];

    // NDJSON.
    struct pod_str line;         // the one that has not ended yet
    struct api_memory line_json; // of the line that is being read
    uint64_t line_number;
};

// One thread at a time may use a graph.
void api_graph_init(struct api_graph *graph, struct pod *pod);
// Lets go of what was read; the counts and faults stay. May be called again.
void api_graph_fini(struct api_graph *graph);

// Names of on_error.
extern const char *const api_graph_on_error[2];

// The whole of a JSON body, and then what it says: the text is not needed any
// more. An error refuses the request; faults of operations are in
// graph->faults.
enum pod_code api_graph_parse_json(struct api_graph *graph, const char *text,
                                   size_t length, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code api_graph_read_json(struct api_graph *graph, struct pod_err *err)
    __attribute__((warn_unused_result));

// A piece of an NDJSON body, and its end. The same errors; malformed JSON is
// one, with its line.
enum pod_code api_graph_read_lines(struct api_graph *graph, const char *data,
                                   size_t size, struct pod_err *err)
    __attribute__((warn_unused_result));
enum pod_code api_graph_read_end(struct api_graph *graph, struct pod_err *err)
    __attribute__((warn_unused_result));

// Submits what was read. out_numbers has room for graph->count.
enum pod_code api_graph_submit(struct api_graph *graph, uint64_t *out_number,
                               uint64_t *out_numbers, struct pod_err *err)
    __attribute__((warn_unused_result));

// Adds {"a":{"op":"op-41","buffer":"buf-41"},...} as text, which takes a tenth
// of what it would as a value. False: no memory.
bool api_graph_refs(const struct api_graph *graph, uint64_t number,
                    const uint64_t *numbers, struct pod_str *out)
    __attribute__((warn_unused_result));

#endif
