// SPDX-License-Identifier: Apache-2.0
// Idempotency-Key over HTTP: what is given again and what is refused, equal
// requests at once, and clients that go away.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/pod/internal.h"
#include "tests/lib/http_client.h"
#include "tests/lib/rest_pod.h"
#include "tests/rest/graph_body.h"

#define JSON  "Content-Type: application/json"
#define BYTES "Content-Type: application/octet-stream"
#define LINES "Content-Type: application/x-ndjson"

enum { MANY = 100 };

static int setup(void **state)
{
    const struct rest_options options = {.pod = "local:2x1x1,hosts=2,hbm=1MiB"};
    *state = rest_start(&options);
    return 0;
}

// A request with a key; `type` may be NULL, `more` is one more header or NULL.
static struct rest_answer ask(struct rest *rest, const char *method,
                              const char *path, const char *key,
                              const char *type, const char *more,
                              const char *body)
{
    char line[400];
    const char *headers[4] = {line};
    size_t count = 1;

    (void)snprintf(line, sizeof(line), "Idempotency-Key: %s", key);
    if (type != NULL)
        headers[count++] = type;
    if (more != NULL)
        headers[count++] = more;
    return rest_ask(rest, method, path, headers, body,
                    body != NULL ? strlen(body) : 0);
}

static struct rest_answer allocate(struct rest *rest, const char *key,
                                   const char *bytes)
{
    char body[64];

    (void)snprintf(body, sizeof(body), "{\"core\":0,\"bytes\":\"%s\"}", bytes);
    return ask(rest, "POST", "/v1/buffers", key, JSON, NULL, body);
}

static bool is_replay(const struct rest_answer *answer)
{
    const char *value = rest_header(answer, "Idempotency-Replayed");

    return value != NULL && strcmp(value, "true") == 0;
}

// Asserts that the second answer is the first one given again, but for what is
// of the request itself.
static void is_again(struct rest_answer first, struct rest_answer second)
{
    static const char *const same[] = {"Content-Type", "Location",
                                       "Operation-Location"};

    assert_in_range(first.status, 200, 299);
    assert_int_equal(first.status, second.status);
    assert_false(is_replay(&first));
    assert_true(is_replay(&second));
    assert_string_equal(first.body, second.body);
    for (size_t i = 0; i < sizeof(same) / sizeof(same[0]); i++) {
        char value[512] = "";
        const char *found = rest_header(&first, same[i]);
        if (found != NULL)
            (void)snprintf(value, sizeof(value), "%s", found);
        found = rest_header(&second, same[i]);
        assert_string_equal(value, found != NULL ? found : "");
    }
    rest_answer_free(&first);
    rest_answer_free(&second);
}

static void allocate_twice(struct rest *rest, const char *key)
{
    struct rest_answer first = allocate(rest, key, "16");

    is_again(first, allocate(rest, key, "16"));
}

// The number of the operation that is made next.
static long next_number(struct rest *rest)
{
    json_t *event =
        rest_submit(rest, "/v1/buffers", "{\"core\":0,\"bytes\":\"8\"}");
    long number = strtol(rest_text(event, "id") + strlen("op-"), NULL, 10);

    json_decref(event);
    return number;
}

static void make_buffer(struct rest *rest, char out_id[32])
{
    json_t *event =
        rest_submit(rest, "/v1/buffers", "{\"core\":0,\"bytes\":\"4\"}");

    (void)snprintf(out_id, 32, "%s", rest_text(event, "buffer"));
    json_decref(event);
}

static void test_gives_the_first_answer_again(void **state)
{
    struct rest *rest = *state;

    allocate_twice(rest, "again");
    long number = next_number(rest);
    struct rest_answer third = allocate(rest, "again", "16");
    assert_true(is_replay(&third));
    rest_answer_free(&third);
    assert_int_equal(next_number(rest), number + 1);
    // With quotes, as the standard writes it, and without.
    struct rest_answer quoted = allocate(rest, "\"again\"", "16");
    assert_true(is_replay(&quoted));
    rest_answer_free(&quoted);
    // How long the client waits does not count.
    struct rest_answer waits =
        ask(rest, "POST", "/v1/buffers?wait=5s", "again", JSON,
            "Prefer: wait=5", "{\"core\":0,\"bytes\":\"16\"}");
    assert_true(is_replay(&waits));
    assert_int_equal(waits.status, 202);
    rest_answer_free(&waits);
}

static void test_another_request_is_refused(void **state)
{
    static const struct {
        const char *method;
        const char *rest; // of the path
        const char *type;
        const char *more;
        const char *body;
    } others[] = {
        {"PUT", "/data", BYTES, NULL, "abce"},
        {"PUT", "/data", BYTES, NULL, "abcde"},
        {"PUT", "/data", BYTES, NULL, ""},
        {"PUT", "/data", BYTES, "Transfer-Encoding: chunked", "abcde"},
        {"PUT", "/data?priority=1", BYTES, NULL, "abcd"},
        {"PUT", "/data", "Content-Type: application/x-npy", NULL, "abcd"},
        {"PUT", "/data", BYTES, "Content-Range: bytes 0-3/4", "abcd"},
        {"POST", ":copy", JSON, NULL, "{}"},
        {"DELETE", "", NULL, NULL, NULL},
    };
    struct rest *rest = *state;
    char path[128];
    char id[32];

    make_buffer(rest, id);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", id);
    struct rest_answer first =
        ask(rest, "PUT", path, "other", BYTES, NULL, "abcd");
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        (void)snprintf(path, sizeof(path), "/v1/buffers/%s%s", id,
                       others[i].rest);
        rest_is_problem(ask(rest, others[i].method, path, "other",
                            others[i].type, others[i].more, others[i].body),
                        422, "IDEMPOTENCY_KEY_REUSED");
    }
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", id);
    is_again(first, ask(rest, "PUT", path, "other", BYTES, NULL, "abcd"));
}

// The bytes are compared and not kept, so nothing that the first request needed
// has to be there still.
static void test_replay_needs_no_handle(void **state)
{
    struct rest *rest = *state;
    char path[128];
    char id[32];

    make_buffer(rest, id);
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", id);
    struct rest_answer put = ask(rest, "PUT", path, "put", BYTES, NULL, "abcd");
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s", id);
    struct rest_answer freed =
        ask(rest, "DELETE", path, "delete", NULL, NULL, NULL);
    is_again(freed, ask(rest, "DELETE", path, "delete", NULL, NULL, NULL));
    (void)snprintf(path, sizeof(path), "/v1/buffers/%s/data", id);
    rest_is_problem(ask(rest, "PUT", path, "late", BYTES, NULL, "abcd"), 409,
                    "HANDLE_FREED");
    is_again(put, ask(rest, "PUT", path, "put", BYTES, NULL, "abcd"));
}

static void test_refusals_burn_no_key(void **state)
{
    struct rest *rest = *state;

    rest_is_problem(allocate(rest, "burn", "x"), 400, "BAD_VALUE");
    rest_is_problem(ask(rest, "POST", "/v1/buffers", "burn", JSON, NULL, "{"),
                    400, "BAD_JSON");
    rest_is_problem(allocate(rest, "burn", "99999999"), 422,
                    "RESOURCE_EXHAUSTED");
    allocate_twice(rest, "burn");
}

static void test_malformed_keys(void **state)
{
    struct rest *rest = *state;
    char key[300];

    memset(key, 'a', sizeof(key));
    key[256] = '\0';
    rest_is_problem(allocate(rest, key, "16"), 400, "BAD_PARAMETER");
    key[255] = '\0';
    allocate_twice(rest, key);
    rest_is_problem(allocate(rest, "\"\"", "16"), 400, "BAD_PARAMETER");
    rest_is_problem(allocate(rest, "a\tb", "16"), 400, "BAD_PARAMETER");
    rest_is_problem(allocate(rest, "\xc3\xa4", "16"), 400, "BAD_PARAMETER");
    rest_is_problem(ask(rest, "POST", "/v1/buffers", "one", JSON,
                        "Idempotency-Key: one", "{\"core\":0,\"bytes\":\"8\"}"),
                    400, "BAD_PARAMETER");
    // Where nothing is made a key is nothing.
    struct rest_answer get =
        ask(rest, "GET", "/v1/pod", "a\tb", NULL, NULL, NULL);
    assert_int_equal(get.status, 200);
    rest_answer_free(&get);
}

// --------------------------------------------------------------------- at once

// Sends a request with a key; gives the socket.
static int send_keyed(const struct rest *rest, const char *path,
                      const char *key, const char *body)
{
    char request[512];
    int fd = client_connect(api_server_port(rest_server(rest)));

    (void)snprintf(request, sizeof(request),
                   "POST %s HTTP/1.1\r\nHost: localhost\r\n"
                   "Idempotency-Key: %s\r\n" JSON "\r\n"
                   "Content-Length: %zu\r\n\r\n%s",
                   path, key, strlen(body), body);
    assert_true(client_puts(fd, request));
    return fd;
}

// The same with a request that waits for `op`.
static int send_waiting(const struct rest *rest, const char *op,
                        const char *key, const char *bytes)
{
    char body[128];

    (void)snprintf(body, sizeof(body),
                   "{\"core\":0,\"bytes\":\"%s\",\"after\":[\"%s\"]}", bytes,
                   op);
    return send_keyed(rest, "/v1/buffers?wait=50s", key, body);
}

// Two equal ones, of which the second waits for what the first has made.
static void send_two(const struct rest *rest, const char *op, const char *key,
                     int out_fds[2])
{
    for (unsigned i = 0; i < 2; i++) {
        out_fds[i] = send_waiting(rest, op, key, "16");
        rest_await_parked(rest, i + 1);
    }
}

// The operation of an answer, as a copy; frees the answer.
static void read_operation(int fd, int *out_status, bool *out_replayed,
                           char out_op[32])
{
    struct client_answer answer = client_read(fd, false);
    json_t *event = json_loads(answer.body, 0, NULL);

    *out_status = answer.status;
    *out_replayed = client_header(&answer, "Idempotency-Replayed") != NULL;
    (void)snprintf(out_op, 32, "%s", rest_text(event, "id"));
    json_decref(event);
    client_answer_free(&answer);
    (void)close(fd);
}

static void test_equal_requests_at_once(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 1);
    int fds[MANY];
    char first[32] = "";
    char op[32];
    unsigned made = 0;

    rest_spin_start(rest, &spin, op);
    for (int i = 0; i < MANY; i++)
        fds[i] = send_waiting(rest, op, "many", "16");
    rest_await_parked(rest, MANY);
    // Another request with the key of one in flight need not wait to be told.
    int other = send_waiting(rest, op, "many", "32");
    struct client_answer refused = client_read(other, false);
    assert_int_equal(refused.status, 422);
    client_answer_free(&refused);
    (void)close(other);
    rest_spin_stop(rest, op);
    for (int i = 0; i < MANY; i++) {
        char made_by[32];
        bool replayed;
        int status;
        read_operation(fds[i], &status, &replayed, made_by);
        // `after` a cancelled operation is skipped, which is an outcome too.
        assert_int_equal(status, 201);
        if (i == 0)
            (void)snprintf(first, sizeof(first), "%s", made_by);
        assert_string_equal(made_by, first);
        made += !replayed;
    }
    assert_int_equal(made, 1);
}

// The client that made the operation goes away: who waits behind it, and who
// asks later, is told of that operation.
static void test_first_client_goes_away(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 1);
    char op[32];
    int fds[2];
    char made[2][32];
    bool replayed;
    int status;

    rest_spin_start(rest, &spin, op);
    long number = next_number(rest);
    send_two(rest, op, "gone", fds);
    (void)close(fds[0]);
    read_operation(fds[1], &status, &replayed, made[0]);
    assert_int_equal(status, 202);
    assert_true(replayed);
    read_operation(send_waiting(rest, op, "gone", "16"), &status, &replayed,
                   made[1]);
    assert_true(replayed);
    assert_string_equal(made[0], made[1]);
    assert_int_equal(next_number(rest), number + 2);
    rest_spin_stop(rest, op);
}

// Asks for a host and does not wait for it, as `parked` others do.
static void go_away(const struct rest *rest, const char *key, const char *body,
                    uint64_t parked)
{
    int fd = send_keyed(rest, "/v1/hosts", key, body);

    rest_await_parked(rest, parked + 1);
    (void)close(fd);
    rest_await_parked(rest, parked);
}

// A client that goes away while its host is being made, and comes back.
static void test_host_of_a_client_that_goes_away(void **state)
{
    static const char body[] = "{}";
    struct rest *rest = *state;
    struct pod *pod = rest_engine(rest);

    pod_mutex_lock(&pod->join_lock);
    go_away(rest, "host", body, 0);
    pod_mutex_unlock(&pod->join_lock);
    struct rest_answer again =
        ask(rest, "POST", "/v1/hosts", "host", JSON, NULL, body);
    assert_int_equal(again.status, 201);
    assert_true(is_replay(&again));
    assert_string_equal(rest_header(&again, "Location"), "/v1/hosts/2");
    assert_int_equal(json_integer_value(json_object_get(again.json, "id")), 2);
    rest_answer_free(&again);
    json_t *hosts = rest_json(rest_get(rest, "/v1/hosts"), 200);
    assert_int_equal(json_array_size(json_object_get(hosts, "hosts")), 3);
    json_decref(hosts);
}

// The same with a host that cannot be made: then the key means nothing.
static void test_no_host_for_a_client_that_goes_away(void **state)
{
    static const char body[] = "{\"address\":\"far:1\"}";
    struct rest *rest = *state;
    struct pod *pod = rest_engine(rest);

    pod_mutex_lock(&pod->join_lock);
    int blocker = send_keyed(rest, "/v1/hosts", "blocker", "{}");
    rest_await_parked(rest, 1);
    go_away(rest, "none", body, 1);
    pod_mutex_unlock(&pod->join_lock);
    struct rest_answer again =
        ask(rest, "POST", "/v1/hosts", "none", JSON, NULL, body);
    assert_int_equal(again.status, 422);
    rest_answer_free(&again);
    (void)close(blocker);
}

// Sends a graph of many lines, and goes away as soon as it is admitted, while
// its answer is written or has just been.
static void leave_graph(struct rest *rest, const char *key, const char *body)
{
    char request[256];
    char path[64];
    long status = 404;
    int fd = client_connect(api_server_port(rest_server(rest)));

    (void)snprintf(request, sizeof(request),
                   "POST /v1/graphs HTTP/1.1\r\nHost: localhost\r\n"
                   "Idempotency-Key: %s\r\n" LINES "\r\n"
                   "Content-Length: %zu\r\n\r\n",
                   key, strlen(body));
    (void)snprintf(path, sizeof(path), "/v1/graphs/graph-%ld",
                   next_number(rest) + 1);
    assert_true(client_puts(fd, request) && client_puts(fd, body));
    while (status == 404) {
        struct rest_answer answer = rest_get(rest, path);
        status = answer.status;
        rest_answer_free(&answer);
    }
    assert_int_equal(status, 200);
    (void)close(fd);
}

// Who comes back for a graph is told of all it made, whatever of the first
// answer was there.
static void test_graph_of_a_client_that_goes_away(void **state)
{
    enum { ROUNDS = 20, COUNT = 2000 };
    const struct rest_options options = {.pod = "local:2x1x1,hosts=2"};
    struct rest *rest = rest_start(&options);
    char *body = large_body(COUNT, true);

    (void)state;
    for (int i = 0; i < ROUNDS; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "graph %d", i);
        leave_graph(rest, key, body);
        struct rest_answer again =
            ask(rest, "POST", "/v1/graphs", key, LINES, NULL, body);
        assert_int_equal(again.status, 202);
        assert_true(is_replay(&again));
        assert_int_equal(json_object_size(json_object_get(again.json, "refs")),
                         COUNT);
        rest_answer_free(&again);
    }
    free(body);
    rest_stop(rest);
}

static void test_waiters_may_go_away(void **state)
{
    struct rest *rest = *state;
    struct rest_spin spin = rest_spin_make(rest, 1);
    char op[32];
    int fds[2];
    char made[32];
    bool replayed;
    int status;

    rest_spin_start(rest, &spin, op);
    send_two(rest, op, "waiter", fds);
    (void)close(fds[1]);
    rest_await_parked(rest, 1);
    rest_spin_stop(rest, op);
    read_operation(fds[0], &status, &replayed, made);
    assert_false(replayed);
}

static void test_draining_answers_all(void **state)
{
    const struct rest_options options = {.pod = NULL};
    struct rest *rest = rest_start(&options);
    struct rest_spin spin = rest_spin_make(rest, 1);
    char op[32];
    int fds[2];
    char made[2][32];
    bool replayed[2];
    int status;

    (void)state;
    rest_spin_start(rest, &spin, op);
    send_two(rest, op, "drain", fds);
    rest_drain(rest);
    for (int i = 0; i < 2; i++) {
        read_operation(fds[i], &status, &replayed[i], made[i]);
        assert_int_equal(status, 202);
    }
    assert_string_equal(made[0], made[1]);
    assert_true(!replayed[0] && replayed[1]);
    rest_stop(rest);
}

static void test_keys_are_bounded(void **state)
{
    const struct rest_options options = {.answers = {.count = 2}};
    struct rest *rest = rest_start(&options);

    (void)state;
    struct rest_answer first = allocate(rest, "1", "16");
    rest_answer_free(&first);
    allocate_twice(rest, "2");
    allocate_twice(rest, "3");
    struct rest_answer fresh = allocate(rest, "1", "16");
    assert_int_equal(fresh.status, 202);
    assert_false(is_replay(&fresh));
    rest_answer_free(&fresh);
    rest_stop(rest);
}

// Each allocation fails once: however the first request ends, it and its retry
// make one operation at most.
static void test_without_memory(void **state)
{
    enum { MOST_ALLOCATIONS = 120 };
    static const char body[] = "{\"core\":0,\"bytes\":\"8\"}";
    struct rest *rest = *state;
    int lost = 0;

    for (int n = 0; n < MOST_ALLOCATIONS; n++) {
        char key[64];
        const char *const headers[] = {key, JSON, NULL};
        (void)snprintf(key, sizeof(key), "Idempotency-Key: memory-%d", n);
        long before = next_number(rest);
        pod_mem_fail_after(n, 1);
        struct rest_answer first =
            rest_try(rest, "POST", "/v1/buffers", headers, body, strlen(body));
        pod_mem_fail_after(-1, 0);
        struct rest_answer again =
            rest_ask(rest, "POST", "/v1/buffers", headers, body, strlen(body));
        lost += again.status == 409;
        if (again.status != 202)
            assert_non_null(strstr(again.body, "IDEMPOTENCY_ANSWER_LOST"));
        assert_in_range(next_number(rest), before + 1, before + 2);
        rest_answer_free(&first);
        rest_answer_free(&again);
    }
    assert_true(lost < MOST_ALLOCATIONS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gives_the_first_answer_again),
        cmocka_unit_test(test_another_request_is_refused),
        cmocka_unit_test(test_replay_needs_no_handle),
        cmocka_unit_test(test_refusals_burn_no_key),
        cmocka_unit_test(test_malformed_keys),
        cmocka_unit_test(test_equal_requests_at_once),
        cmocka_unit_test(test_first_client_goes_away),
        cmocka_unit_test(test_host_of_a_client_that_goes_away),
        cmocka_unit_test(test_no_host_for_a_client_that_goes_away),
        cmocka_unit_test(test_graph_of_a_client_that_goes_away),
        cmocka_unit_test(test_waiters_may_go_away),
        cmocka_unit_test(test_draining_answers_all),
        cmocka_unit_test(test_keys_are_bounded),
        cmocka_unit_test(test_without_memory),
    };

    return cmocka_run_group_tests(tests, setup, rest_teardown);
}
