// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request target, as a Host, and as the headers that clients
// negotiate with: no crash, no leak, and nothing unclean comes out.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/http_internal.h"
#include "api/query.h"
#include "core/base/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct api_server fuzz_server;

static void fuzz_expect_text(const char *text)
{
    if (!pod_utf8_valid(text, strlen(text)))
        abort();
}

static void fuzz_expect_clean(const char *text)
{
    fuzz_expect_text(text);
    if (pod_text_has_control(text, strlen(text)))
        abort();
}

static void fuzz_target(const char *text)
{
    struct api_conn conn = {.server = &fuzz_server};
    struct api_request *req = pod_calloc(1, sizeof(*req));
    struct api_match match;
    struct pod_err err;
    const struct api_route route = {.method = API_GET,
                                    .pattern = "/v1/{id}:x/{rest*}"};

    if (req == NULL)
        abort();
    req->server = &fuzz_server;
    req->conn = &conn;
    req->target = text;
    pod_list_init(&req->wake_link);
    pod_list_init(&req->thread_link);
    fuzz_server.in_flight++;
    if (api_target_parse(req, &err) == POD_OK) {
        fuzz_expect_clean(req->path);
        for (size_t i = 0; i < req->parameter_count; i++) {
            fuzz_expect_clean(req->parameters[i].name);
            fuzz_expect_text(req->parameters[i].value);
        }
        api_route_match(&route, 1, API_GET, req->path, &match);
    }
    api_request_free(req);
}

static void fuzz_headers(const char *text)
{
    uint64_t offset;
    uint64_t length;
    uint64_t total;

    if (api_range_parse(text, 1000, &offset, &length) == API_RANGE_PART &&
        (length == 0 || offset + length > 1000))
        abort();
    if (api_content_range_parse(text, &offset, &length, &total) &&
        (length == 0 || offset + length < offset ||
         (total != UINT64_MAX && offset + length > total)))
        abort();
    (void)api_etag_listed(text, "\"a-r1\"", true);
    (void)api_host_allowed(&fuzz_server, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    long live = pod_mem_live();
    char *text = pod_strndup((const char *)data, size);

    if (text == NULL)
        abort();
    if (fuzz_server.shared.lock.name == NULL) {
        pod_mutex_init(&fuzz_server.shared.lock, POD_RANK_PARKED, "parked");
        pod_list_init(&fuzz_server.spare);
    }
    fuzz_target(text);
    fuzz_headers(text);
    pod_free(text);
    api_request_free_spare(&fuzz_server);
    if (pod_mem_live() != live)
        abort();
    return 0;
}
