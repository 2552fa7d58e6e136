// SPDX-License-Identifier: Apache-2.0
// Any bytes as the lines of a graph, in pieces that the first byte tells, and
// what is read of them against the engine, which admits nothing: no crash, no
// leak, and the state of the pod as it was.
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "api/graph_read.h"
#include "core/base/log.h"
#include "core/device/reference/reference.h"
#include "core/driver/inproc.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_CORES = 2, FUZZ_MEMORY = 1 << 20 };

static struct pod *fuzz_pod_new(void)
{
    static const uint32_t core_chips[FUZZ_CORES];
    static const struct pod_driver_chip chip;
    const struct pod_options options = {.clock = pod_clock_system,
                                        .instance = "fuzz",
                                        .history_count = 1,
                                        .history_age_ns = POD_NEVER,
                                        .first_number = 1,
                                        .staging_bytes = 1 << 24};
    const struct pod_reference_options device = {.core_count = FUZZ_CORES,
                                                 .memory_bytes = FUZZ_MEMORY};
    struct pod_inproc_options host = {.host_count = 1,
                                      .chips = &chip,
                                      .chip_count = 1,
                                      .core_chips = core_chips};
    struct pod_driver *driver = NULL;
    struct pod *pod = pod_new(&options);
    struct pod_err err;

    pod_log_setup(POD_LOG_ERROR, POD_LOG_TEXT);
    if (pod == NULL ||
        pod_reference_device_new(&device, &host.device, &err) != POD_OK ||
        pod_inproc_new(&host, &driver, &err) != POD_OK ||
        pod_add_host(pod, driver, "fuzz", &err) != POD_OK ||
        pod_start(pod, &err) != POD_OK)
        abort();
    pod_await_hosts(pod, POD_NEVER);
    return pod;
}

static enum pod_code fuzz_read(struct api_graph *graph, const char *text,
                               size_t size, size_t piece)
{
    enum pod_code code = POD_OK;
    struct pod_err err;

    for (size_t at = 0; at < size && code == POD_OK; at += piece)
        code = api_graph_read_lines(
            graph, text + at, size - at < piece ? size - at : piece, &err);
    return code == POD_OK ? api_graph_read_end(graph, &err) : code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pod *pod;
    struct api_graph *graph;
    uint64_t used;
    uint64_t max;

    if (pod == NULL)
        pod = fuzz_pod_new();
    if (size < 1)
        return 0;
    graph = malloc(sizeof(*graph));
    api_graph_init(graph, pod);
    graph->validate_only = true;
    if (fuzz_read(graph, (const char *)data + 1, size - 1, data[0] + 1U) ==
            POD_OK &&
        graph->count > 0) {
        struct pod_err err;
        uint64_t *numbers = calloc(graph->count, sizeof(*numbers));
        uint64_t number = 0;
        enum pod_code code = api_graph_submit(graph, &number, numbers, &err);
        if (code != POD_OK && graph->faults.total == 0 &&
            err.reason != POD_REASON_OUT_OF_MEMORY)
            abort();
        free(numbers);
    }
    api_graph_fini(graph);
    free(graph);
    pod_staging_usage(pod, &used, &max);
    if (used != 0 || pod_last_number(pod) != 0)
        abort();
    return 0;
}
