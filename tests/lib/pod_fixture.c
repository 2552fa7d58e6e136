// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/pod_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int64_t fixture_mono(void *arg)
{
    struct fixture *fix = arg;

    // Where it stands still several threads look at once.
    if (fix->look_ns > 0)
        fix->now_ns += fix->look_ns;
    return fix->now_ns;
}

static int64_t fixture_wall(void *arg)
{
    const struct fixture *fix = arg;

    return 1000000 + fix->now_ns + fix->wall_step_ns;
}

static void fixture_notify(void *arg)
{
    ((struct fixture *)arg)->notified++;
}

void fixture_init_options(struct fixture *fix, size_t hosts,
                          uint64_t history_count, int64_t history_age_ns,
                          size_t chunk_bytes, uint64_t staging_bytes)
{
    struct pod_options options = {
        .clock = {.mono_ns = fixture_mono, .wall_ns = fixture_wall, .arg = fix},
        .instance = "test",
        .history_count = history_count,
        .history_age_ns = history_age_ns,
        .first_number = 1,
        .staging_bytes = staging_bytes,
        .chunk_bytes = chunk_bytes,
        .stall_after_ns = FIXTURE_STALL_NS,
        .notify = fixture_notify,
        .notify_arg = fix,
    };
    struct pod_err err;

    *fix = (struct fixture){.host_count = hosts, .now_ns = 1000};
    fix->pod = pod_new(&options);
    assert_non_null(fix->pod);
    for (size_t i = 0; i < hosts; i++) {
        fix->host[i] = fake_driver_new(2, FIXTURE_MEMORY, (int32_t)i);
        assert_int_equal(pod_add_host(fix->pod, fix->host[i], "fake", &err),
                         POD_OK);
    }
    assert_int_equal(pod_start(fix->pod, &err), POD_OK);
}

void fixture_init(struct fixture *fix, size_t hosts)
{
    fixture_init_options(fix, hosts, 1000, POD_NEVER, 0, 1 << 20);
    for (size_t i = 0; i < hosts; i++)
        fake_ready(fix->host[i]);
}

void fixture_fini(struct fixture *fix)
{
    pod_stop(fix->pod);
    pod_destroy(fix->pod);
}

int fixture_setup_two(void **state)
{
    struct fixture *fix = malloc(sizeof(*fix));

    assert_non_null(fix);
    fixture_init(fix, 2);
    *state = fix;
    return 0;
}

int fixture_setup(void **state, unsigned features)
{
    struct fixture *fix = malloc(sizeof(*fix));

    assert_non_null(fix);
    fixture_init_options(fix, 2, 10000, POD_NEVER, 16, 1 << 20);
    for (size_t i = 0; i < fix->host_count; i++) {
        fake_set_features(fix->host[i], features);
        fake_ready(fix->host[i]);
    }
    *state = fix;
    return 0;
}

int fixture_teardown(void **state)
{
    fixture_fini(*state);
    free(*state);
    return 0;
}

void fixture_run(struct fixture *fix)
{
    size_t open = 1;

    while (open > 0) {
        open = 0;
        for (size_t i = 0; i < fix->host_count; i++) {
            open += fake_open(fix->host[i]);
            fake_run(fix->host[i]);
        }
    }
}

struct pod_ref fixture_buffer(uint64_t number)
{
    return (struct pod_ref){.kind = POD_REF_BUFFER, .number = number};
}

struct pod_ref fixture_program(uint64_t number)
{
    return (struct pod_ref){.kind = POD_REF_PROGRAM, .number = number};
}

struct pod_ref fixture_load(uint64_t number)
{
    return (struct pod_ref){.kind = POD_REF_LOAD, .number = number};
}

struct pod_ref fixture_op(uint64_t number)
{
    return (struct pod_ref){.kind = POD_REF_OP, .number = number};
}

struct pod_request fixture_request(enum pod_kind kind)
{
    return (struct pod_request){.kind = kind, .deadline_ns = POD_NEVER};
}

uint64_t fixture_submit(struct fixture *fix, const struct pod_request *request)
{
    struct pod_err err;
    uint64_t number = 0;

    if (pod_submit(fix->pod, request, 1, &number, NULL, &err) != POD_OK)
        fail_msg("refused at %s: %s", err.pointer, err.text);
    return number;
}

void fixture_refused(struct fixture *fix, const struct pod_request *request,
                     enum pod_reason reason)
{
    struct pod_err err;
    uint64_t number = 0;
    uint64_t last = pod_last_number(fix->pod);

    assert_int_not_equal(pod_submit(fix->pod, request, 1, &number, NULL, &err),
                         POD_OK);
    assert_string_equal(pod_reason_name(err.reason), pod_reason_name(reason));
    assert_int_equal(pod_last_number(fix->pod), last);
}

uint64_t fixture_allocate(struct fixture *fix, uint32_t core, uint64_t bytes)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE);

    request.allocate.core = core;
    request.allocate.bytes = bytes;
    return fixture_submit(fix, &request);
}

uint64_t fixture_free(struct fixture *fix, uint64_t buffer)
{
    struct pod_request request = fixture_request(POD_KIND_FREE);

    request.free.handle = fixture_buffer(buffer);
    return fixture_submit(fix, &request);
}

uint64_t fixture_write(struct fixture *fix, uint64_t buffer, uint64_t offset,
                       size_t bytes)
{
    struct pod_request request = fixture_request(POD_KIND_WRITE);
    struct pod_blob *blob = pod_blob_new(bytes);

    assert_non_null(blob);
    for (size_t i = 0; i < bytes; i++)
        blob->data[i] = (unsigned char)i;
    request.write.buffer = fixture_buffer(buffer);
    request.write.offset = offset;
    request.write.data = blob;
    uint64_t number = fixture_submit(fix, &request);
    pod_blob_unref(blob);
    return number;
}

uint64_t fixture_read(struct fixture *fix, uint64_t buffer)
{
    struct pod_request request = fixture_request(POD_KIND_READ);

    request.read.buffer = fixture_buffer(buffer);
    request.read.length = UINT64_MAX;
    return fixture_submit(fix, &request);
}

uint64_t fixture_copy(struct fixture *fix, uint64_t from, uint64_t to)
{
    struct pod_request request = fixture_request(POD_KIND_COPY);

    request.copy.from = fixture_buffer(from);
    request.copy.to = fixture_buffer(to);
    return fixture_submit(fix, &request);
}

uint64_t fixture_tuple(struct fixture *fix, uint64_t first, uint64_t second)
{
    struct pod_request request = fixture_request(POD_KIND_ALLOCATE_TUPLE);
    struct pod_ref children[] = {fixture_buffer(first), fixture_buffer(second)};

    request.tuple.children = children;
    request.tuple.child_count = 2;
    return fixture_submit(fix, &request);
}

uint64_t fixture_compile(struct fixture *fix, const char *digest)
{
    struct pod_request request = fixture_request(POD_KIND_COMPILE);
    struct pod_blob *blob = pod_blob_new(8);

    assert_non_null(blob);
    memset(blob->data, 'x', 8);
    request.compile.program = blob;
    request.compile.replicas = 1;
    request.compile.digest = digest;
    uint64_t number = fixture_submit(fix, &request);
    pod_blob_unref(blob);
    return number;
}

uint64_t fixture_load_on(struct fixture *fix, uint64_t program, uint32_t core)
{
    struct pod_request request = fixture_request(POD_KIND_LOAD);

    request.load.program = fixture_program(program);
    request.load.core = core;
    return fixture_submit(fix, &request);
}

uint64_t fixture_execute(struct fixture *fix, uint64_t load, uint64_t input,
                         uint64_t output)
{
    struct pod_request request = fixture_request(POD_KIND_EXECUTE);
    struct pod_ref in = fixture_buffer(input);
    struct pod_ref out = fixture_buffer(output);
    struct pod_launch launch = {
        .load = fixture_load(load),
        .inputs = &in,
        .input_count = 1,
        .outputs = &out,
        .output_count = 1,
        .auto_outputs = output == 0,
    };

    request.execute.launches = &launch;
    request.execute.launch_count = 1;
    return fixture_submit(fix, &request);
}

enum pod_sched_state fixture_state(struct fixture *fix, uint64_t number)
{
    struct pod_event_view view;
    struct pod_err err;

    if (pod_get_event(fix->pod, number, &view, &err) != POD_OK)
        fail_msg("no event %llu: %s", (unsigned long long)number, err.text);
    enum pod_sched_state state = view.state;
    pod_event_view_fini(&view);
    return state;
}

uint64_t fixture_root(struct fixture *fix, uint64_t number)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    uint64_t root = view.root;
    pod_event_view_fini(&view);
    return root;
}

void fixture_assert_detail(struct fixture *fix, uint64_t number,
                           const char *begin, const char *end)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    assert_true(view.has_error);
    const char *detail = view.root_error.detail;
    size_t length = strlen(detail);
    if (strncmp(detail, begin, strlen(begin)) != 0 || length < strlen(end) ||
        strcmp(detail + length - strlen(end), end) != 0)
        fail_msg("op-%llu: %s", (unsigned long long)number, detail);
    pod_event_view_fini(&view);
}

void fixture_assert_reason(struct fixture *fix, uint64_t number,
                           const char *reason)
{
    struct pod_event_view view;
    struct pod_err err;

    assert_int_equal(pod_get_event(fix->pod, number, &view, &err), POD_OK);
    assert_true(view.has_error);
    assert_string_equal(view.root_error.reason, reason);
    pod_event_view_fini(&view);
}
