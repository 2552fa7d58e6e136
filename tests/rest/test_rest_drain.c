// SPDX-License-Identifier: Apache-2.0
// What the end of podd means to those who wait: each is answered at once with
// the present state, whatever it waits for, and others are served as before.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"

// A request that waits for something that does not come, and its answer.
struct wait {
    const char *method;
    char path[128];
    char header[128]; // with its end; "": none
    char body[128];
    int status;
    const char *part; // of the answer
    int fd;
};

enum { WAITS = 7 };

static void send_wait(struct rest *rest, struct wait *wait)
{
    char request[1024];

    (void)snprintf(request, sizeof(request),
                   "%s %s HTTP/1.1\r\nHost: localhost\r\n%s"
                   "Content-Type: application/json\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   wait->method, wait->path, wait->header, strlen(wait->body),
                   wait->body);
    wait->fd = client_connect(api_server_port(rest_server(rest)));
    assert_true(client_puts(wait->fd, request));
}

static void assert_answered(const struct wait *wait)
{
    struct client_answer answer = client_read(wait->fd, false);
    const char *body = answer.body != NULL ? answer.body : "";

    if (answer.status != wait->status || strstr(body, wait->part) == NULL)
        fail_msg("%s %s: %d %s", wait->method, wait->path, answer.status, body);
    client_answer_free(&answer);
    (void)close(wait->fd);
}

// A program that is compiled after `op`, which does not end, and the data of
// what it will put out.
static size_t make_data_waits(struct rest *rest, struct wait *waits,
                              const char *op)
{
    static const char hlo[] =
        "HloModule m ENTRY e { ROOT r = s32[] constant(1) }";
    static const char *const type[] = {"Content-Type: text/x-hlo", NULL};
    struct wait of_shape = {"GET", "", "", "", 504, "WAIT_EXPIRED", -1};
    struct wait of_data = {"GET", "", "", "", 503, "DRAINING", -1};
    char text[128];

    (void)snprintf(text, sizeof(text), "/v1/programs?after=%s", op);
    json_t *event = rest_json(
        rest_ask(rest, "POST", text, type, hlo, sizeof(hlo) - 1), 202);
    (void)snprintf(of_shape.path, sizeof(of_shape.path),
                   "/v1/programs/%s/shape?wait=60s",
                   rest_text(event, "program"));
    (void)snprintf(text, sizeof(text), "{\"program\":\"%s\",\"core\":1}",
                   rest_text(event, "program"));
    json_decref(event);
    event = rest_submit(rest, "/v1/loads", text);
    (void)snprintf(text, sizeof(text), "{\"load\":\"%s\",\"inputs\":[]}",
                   rest_text(event, "load"));
    json_decref(event);
    event = rest_submit(rest, "/v1/executions", text);
    (void)snprintf(of_data.path, sizeof(of_data.path),
                   "/v1/buffers/%s/data?wait=60s",
                   json_string_value(
                       json_array_get(json_object_get(event, "outputs"), 0)));
    json_decref(event);
    waits[0] = of_shape;
    waits[1] = of_data;
    return 2;
}

// Core 0 of host 0 runs `op` for ever, behind which all else waits.
static size_t make_waits(struct rest *rest, struct wait waits[WAITS],
                         const struct rest_spin *spin, const char *op)
{
    char path[64];
    size_t count = 0;

    (void)snprintf(path, sizeof(path), "/v1/events/%s", op);
    json_t *event = rest_json(rest_get(rest, path), 200);
    struct wait of_event = {"GET", "", "", "", 200, "\"RUNNING\"", -1};
    (void)snprintf(of_event.path, sizeof(of_event.path), "%s?wait=60s", path);
    waits[count++] = of_event;
    // Not a change: the client has what there is.
    (void)snprintf(of_event.header, sizeof(of_event.header),
                   "If-None-Match: \"test-r%s\"\r\n",
                   rest_text(event, "revision"));
    of_event.status = 304;
    of_event.part = "";
    waits[count++] = of_event;
    json_decref(event);
    struct wait any = {"POST", "/v1/events:wait", "", "",
                       200,    "\"pending\"",     -1};
    (void)snprintf(any.body, sizeof(any.body),
                   "{\"ids\":[\"%s\"],\"wait\":\"60s\"}", op);
    waits[count++] = any;
    struct wait run = {
        "POST", "/v1/executions?wait=60s", "", "", 202, "\"EXECUTE\"", -1};
    (void)snprintf(run.body, sizeof(run.body),
                   "{\"load\":\"%s\",\"inputs\":[\"%s\"]}", spin->load,
                   spin->input);
    waits[count++] = run;
    count += make_data_waits(rest, &waits[count], op);
    waits[count++] = (struct wait){
        "POST", "/v1/hosts/0:drain?wait=50s", "", "", 200, "\"CORDONED\"", -1};
    return count;
}

static void everybody_is_answered(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 0);
    struct wait waits[WAITS];
    char op[32];

    rest_spin_start(rest, &spin, op);
    size_t count = make_waits(rest, waits, &spin, op);
    for (size_t i = 0; i < count; i++) {
        send_wait(rest, &waits[i]);
        rest_await_parked(rest, i + 1);
    }
    rest_drain(rest);
    for (size_t i = 0; i < count; i++)
        assert_answered(&waits[i]);
    // Who comes now is answered, too, and need not wait.
    for (size_t i = 0; i < count; i++) {
        if (strcmp(waits[i].method, "GET") != 0)
            continue;
        send_wait(rest, &waits[i]);
        assert_answered(&waits[i]);
    }
    json_t *pod = rest_json(rest_get(rest, "/v1/pod"), 200);
    assert_string_equal(rest_text(pod, "state"), "DRAINING");
    json_decref(pod);
    char path[64];
    (void)snprintf(path, sizeof(path), "/v1/events/%s:cancel", op);
    json_decref(rest_json(rest_send(rest, "POST", path, "{}"), 202));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(everybody_is_answered, rest_setup,
                                        rest_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
