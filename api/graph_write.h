// SPDX-License-Identifier: Apache-2.0
// The arrays that a graph's operations write.
#ifndef POD_API_GRAPH_WRITE_H
#define POD_API_GRAPH_WRITE_H

#include "api/graph_read.h"

// The array of a write to what the graph makes is read when all operations are.
struct api_graph_write {
    struct api_graph_write *next;
    struct pod_request *request;
    const json_t *values; // in the graph's JSON
    size_t operation;
};

// Reads the values for the shape of the buffer that the request names, in the
// pod or by the graph's operation, whose automatic output it may be. A shape
// that is not known yet, as that of an output before its program is compiled,
// is SHAPE_MISMATCH. Errors of the values as of api_form_values, all at their
// places in the graph.
enum pod_code api_graph_write_values(struct api_graph *graph,
                                     const struct api_graph_write *write,
                                     struct pod_err *err)
    __attribute__((warn_unused_result));

#endif
