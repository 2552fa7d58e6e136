// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/rest_pod.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "api/routes.h"
#include "server/pod_spec.h"
#include "tests/lib/patience.h"

struct rest {
    struct pod *pod;
    struct pod_spec_shared *hosts;
    struct api_app app;
    struct api_server *server;
    char *tls_ca;
};

static void rest_notify(void *arg)
{
    struct rest *rest = arg;
    if (rest->server != NULL)
        api_server_notify(rest->server);
}

struct rest *rest_start(const struct rest_options *options)
{
    const char *text =
        options->pod != NULL ? options->pod : "local:2x1x1,hosts=2";
    struct rest *rest = calloc(1, sizeof(*rest));
    struct pod_err err = POD_ERR_NONE;
    struct pod_spec spec;
    assert_non_null(rest);
    struct pod_options pod = {
        .clock = pod_clock_system,
        .instance = "test",
        .history_count =
            options->history_count != 0 ? options->history_count : 1000,
        .history_age_ns = 3600 * POD_NS_PER_S,
        .first_number = 1,
        .staging_bytes =
            options->staging_bytes != 0 ? options->staging_bytes : 64U << 20,
        .change_count = options->change_count,
        .stall_after_ns = options->stall_after_ns,
        .notify = rest_notify,
        .notify_arg = rest,
    };
    rest->pod = pod_new(&pod);
    assert_non_null(rest->pod);
    assert_int_equal(pod_spec_parse(text, &spec, &err), POD_OK);
    assert_int_equal(pod_spec_add_hosts(&spec, rest->pod, &rest->hosts, &err),
                     POD_OK);
    struct api_server_options server = {
        .listen = options->listen != NULL ? options->listen : "127.0.0.1:0",
        .limits = options->limits,
        .answers = options->answers,
        .token_file = options->token_file,
        .tls_cert = options->tls_cert,
        .tls_key = options->tls_key,
    };
    patient_limits(&server.limits);
    if (options->tls_ca != NULL)
        rest->tls_ca = strdup(options->tls_ca);
    api_app_init(&rest->app, rest->pod);
    rest->app.join = pod_spec_join;
    rest->app.join_arg = rest->hosts;
    api_app_setup(&rest->app, &server);
    assert_int_equal(api_server_new(&server, &rest->server, &err), POD_OK);
    assert_int_equal(pod_start(rest->pod, &err), POD_OK);
    pod_await_hosts(rest->pod, PATIENCE_S * POD_NS_PER_S);
    assert_int_equal(api_server_start(rest->server, &err), POD_OK);
    return rest;
}

void rest_await_parked(const struct rest *rest, uint64_t wanted)
{
    struct api_server_counts counts = {.parked = UINT64_MAX};
    time_t end = time(NULL) + PATIENCE_S;

    while (counts.parked != wanted && time(NULL) < end) {
        (void)sched_yield();
        api_server_counts(rest_server(rest), &counts);
    }
    assert_int_equal(counts.parked, wanted);
}

void rest_drain(struct rest *rest)
{
    pod_drain(rest->pod);
    api_server_drain(rest->server);
}

void rest_stop(struct rest *rest)
{
    rest_drain(rest);
    pod_await_idle(rest->pod, POD_NS_PER_S);
    api_server_stop(rest->server, POD_NS_PER_S);
    pod_stop(rest->pod);
    api_server_free(rest->server);
    pod_destroy(rest->pod);
    pod_spec_shared_free(rest->hosts);
    free(rest->tls_ca);
    free(rest);
}

int rest_setup(void **state)
{
    *state = rest_start(&(struct rest_options){.pod = NULL});
    return 0;
}

int rest_teardown(void **state)
{
    rest_stop(*state);
    return 0;
}

struct pod *rest_engine(const struct rest *rest)
{
    return rest->pod;
}

struct api_server *rest_server(const struct rest *rest)
{
    return rest->server;
}

// ------------------------------------------------------------------- client

struct rest_bytes {
    char *data;
    size_t size;
    size_t capacity;
};

static size_t rest_collect(char *piece, size_t unit, size_t count, void *arg)
{
    struct rest_bytes *bytes = arg;
    size_t size = unit * count;
    if (bytes->size + size + 1 > bytes->capacity) {
        size_t capacity = 2 * (bytes->size + size) + 4096;
        char *data = realloc(bytes->data, capacity);
        if (data == NULL)
            return 0;
        bytes->data = data;
        bytes->capacity = capacity;
    }
    memcpy(bytes->data + bytes->size, piece, size);
    bytes->size += size;
    bytes->data[bytes->size] = '\0';
    return size;
}

// What is asked for, set on the handle. The list is the caller's to free.
static struct curl_slist *rest_set_request(CURL *curl, const char *method,
                                           const char *const *headers,
                                           const void *body, size_t size)
{
    struct curl_slist *list = NULL;
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    if (strcmp(method, "HEAD") == 0)
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    if (body != NULL) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)size);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
        // Only what a test asks for is sent.
        list = curl_slist_append(list, "Expect:");
        list = curl_slist_append(list, "Content-Type:");
    }
    for (; headers != NULL && *headers != NULL; headers++) {
        if (strncasecmp(*headers, "Content-Type:", 13) == 0) {
            curl_slist_free_all(list);
            list = curl_slist_append(NULL, "Expect:");
        }
    }
    return list;
}

// Where the server is, and how to speak to it.
static void rest_set_server(const struct rest *rest, CURL *curl,
                            const char *path, char *out_url, size_t size)
{
    const char *address = api_server_address(rest->server);
    const char *host = address;
    if (strncmp(address, "unix:", 5) == 0) {
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, address + 5);
        host = "localhost";
    }
    if (rest->tls_ca != NULL)
        curl_easy_setopt(curl, CURLOPT_CAINFO, rest->tls_ca);
    (void)snprintf(out_url, size, "%s://%s%s",
                   rest->tls_ca != NULL ? "https" : "http", host, path);
}

struct rest_answer rest_try(struct rest *rest, const char *method,
                            const char *path, const char *const *headers,
                            const void *body, size_t size)
{
    struct rest_answer answer = {.status = 0};
    struct rest_bytes head = {.size = 0};
    struct rest_bytes content = {.size = 0};
    char url[2048];
    CURL *curl = curl_easy_init();
    assert_non_null(curl);
    rest_set_server(rest, curl, path, url, sizeof(url));
    struct curl_slist *list =
        rest_set_request(curl, method, headers, body, size);
    for (; headers != NULL && *headers != NULL; headers++)
        list = curl_slist_append(list, *headers);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, list);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, rest_collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &content);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, rest_collect);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &head);
    CURLcode code = curl_easy_perform(curl);
    bool closed = code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
                  code == CURLE_SEND_ERROR;
    if (code != CURLE_OK && !closed)
        print_error("%s %s: %s\n", method, path, curl_easy_strerror(code));
    assert_true(code == CURLE_OK || closed);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &answer.status);
    curl_slist_free_all(list);
    curl_easy_cleanup(curl);
    answer.head = head.data;
    answer.body = content.data != NULL ? content.data : calloc(1, 1);
    answer.size = content.size;
    const char *type = rest_header(&answer, "Content-Type");
    if (type != NULL && strstr(type, "json") != NULL && content.size > 0) {
        answer.json =
            json_loadb(answer.body, answer.size, JSON_REJECT_DUPLICATES, NULL);
        assert_non_null(answer.json);
    }
    return answer;
}

struct rest_answer rest_ask(struct rest *rest, const char *method,
                            const char *path, const char *const *headers,
                            const void *body, size_t size)
{
    struct rest_answer answer =
        rest_try(rest, method, path, headers, body, size);
    assert_int_not_equal(answer.status, 0);
    return answer;
}

void rest_answer_free(struct rest_answer *answer)
{
    free(answer->head);
    free(answer->body);
    json_decref(answer->json);
    *answer = (struct rest_answer){.status = 0};
}

const char *rest_header(const struct rest_answer *answer, const char *name)
{
    static _Thread_local char value[512];
    size_t length = strlen(name);
    const char *line = answer->head;
    while (line != NULL && *line != '\0') {
        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            line += length + 1;
            line += strspn(line, " ");
            (void)snprintf(value, sizeof(value), "%.*s",
                           (int)strcspn(line, "\r\n"), line);
            return value;
        }
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return NULL;
}

struct rest_answer rest_get(struct rest *rest, const char *path)
{
    return rest_ask(rest, "GET", path, NULL, NULL, 0);
}

struct rest_answer rest_send(struct rest *rest, const char *method,
                             const char *path, const char *json)
{
    static const char *const headers[] = {"Content-Type: application/json",
                                          NULL};
    return rest_ask(rest, method, path, headers, json, strlen(json));
}

// ------------------------------------------------------------------ looking

const char *rest_text(const json_t *object, const char *member)
{
    const char *text = json_string_value(json_object_get(object, member));
    if (text == NULL)
        print_error("no text member %s\n", member);
    assert_non_null(text);
    return text;
}

long rest_status(struct rest_answer answer, char *out_reason)
{
    const char *reason =
        json_string_value(json_object_get(answer.json, "reason"));
    long status = answer.status;
    (void)snprintf(out_reason, 64, "%s", reason != NULL ? reason : "");
    rest_answer_free(&answer);
    return status;
}

void rest_is_problem(struct rest_answer answer, long status, const char *reason)
{
    const char *type = rest_header(&answer, "Content-Type");
    if (answer.status != status)
        print_error("%s\n", answer.body);
    assert_int_equal(answer.status, status);
    assert_non_null(type);
    assert_string_equal(type, "application/problem+json");
    assert_int_equal(json_integer_value(json_object_get(answer.json, "status")),
                     status);
    if (strcmp(rest_text(answer.json, "reason"), reason) != 0)
        print_error("%s\n", answer.body);
    assert_string_equal(rest_text(answer.json, "reason"), reason);
    rest_answer_free(&answer);
}

json_t *rest_json(struct rest_answer answer, long status)
{
    if (answer.status != status)
        print_error("%s\n", answer.body);
    assert_int_equal(answer.status, status);
    assert_non_null(answer.json);
    json_t *json = json_incref(answer.json);
    rest_answer_free(&answer);
    return json;
}

json_t *rest_submit(struct rest *rest, const char *path, const char *json)
{
    return rest_json(rest_send(rest, "POST", path, json), 202);
}

json_t *rest_await(struct rest *rest, const char *op)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/v1/events/%s?wait=50s", op);
    time_t end = time(NULL) + PATIENCE_S;
    json_t *event = NULL;
    do {
        json_decref(event);
        event = rest_json(rest_get(rest, path), 200);
    } while (!json_is_true(json_object_get(event, "done")) && time(NULL) < end);
    assert_true(json_is_true(json_object_get(event, "done")));
    return event;
}

json_t *rest_await_change(struct rest *rest, json_t *owned_event)
{
    struct rest_answer answer = {.status = 304};
    time_t end = time(NULL) + PATIENCE_S;
    char path[128];
    char tag[128];
    const char *headers[] = {tag, NULL};
    (void)snprintf(path, sizeof(path), "/v1/events/%s?wait=50s",
                   rest_text(owned_event, "id"));
    (void)snprintf(tag, sizeof(tag), "If-None-Match: \"test-r%s\"",
                   rest_text(owned_event, "revision"));
    json_decref(owned_event);
    while (answer.status == 304 && time(NULL) < end) {
        rest_answer_free(&answer);
        answer = rest_ask(rest, "GET", path, headers, NULL, 0);
    }
    return rest_json(answer, 200);
}

uint64_t rest_allocate(struct rest *rest, const struct pod_label *label)
{
    const struct pod_request request = {
        .kind = POD_KIND_ALLOCATE,
        .deadline_ns = POD_NEVER,
        .labels = label,
        .label_count = label != NULL ? 1 : 0,
        .allocate = {.core = 0, .bytes = 8},
    };
    uint64_t number = 0;
    struct pod_err err;
    assert_int_equal(
        pod_submit(rest_engine(rest), &request, 1, &number, NULL, &err),
        POD_OK);
    return number;
}

void rest_await_number(struct rest *rest, uint64_t number)
{
    char op[32];
    (void)snprintf(op, sizeof(op), "op-%llu", (unsigned long long)number);
    json_decref(rest_await(rest, op));
}

// --------------------------------------------------------------------- spin

static const char rest_spin_program[] =
    "HloModule spin\n"
    "cond {\n"
    "  p = s32[] parameter(0)\n"
    "  ROOT t = pred[] constant(true)\n"
    "}\n"
    "body {\n"
    "  p = s32[] parameter(0)\n"
    "  ROOT r = s32[] add(p, p)\n"
    "}\n"
    "ENTRY main {\n"
    "  a = s32[] parameter(0)\n"
    "  ROOT w = s32[] while(a), condition=cond, body=body\n"
    "}\n";

struct rest_spin rest_spin_make(struct rest *rest, unsigned core)
{
    static const char *const headers[] = {"Content-Type: text/x-hlo", NULL};
    struct rest_spin spin;
    char body[128];
    json_t *event =
        rest_json(rest_ask(rest, "POST", "/v1/programs", headers,
                           rest_spin_program, strlen(rest_spin_program)),
                  202);
    (void)snprintf(body, sizeof(body), "{\"program\":\"%s\",\"core\":%u}",
                   rest_text(event, "program"), core);
    json_decref(event);
    event = rest_submit(rest, "/v1/loads", body);
    (void)snprintf(spin.load, sizeof(spin.load), "%s",
                   rest_text(event, "load"));
    json_decref(event);
    (void)snprintf(body, sizeof(body),
                   "{\"core\":%u,\"shape\":\"s32[]\",\"values\":1}", core);
    event = rest_submit(rest, "/v1/buffers", body);
    (void)snprintf(spin.input, sizeof(spin.input), "%s",
                   rest_text(event, "buffer"));
    json_decref(event);
    return spin;
}

void rest_spin_start(struct rest *rest, const struct rest_spin *spin,
                     char *out_op)
{
    char body[128];
    (void)snprintf(body, sizeof(body), "{\"load\":\"%s\",\"inputs\":[\"%s\"]}",
                   spin->load, spin->input);
    json_t *event = rest_submit(rest, "/v1/executions", body);
    (void)snprintf(out_op, 32, "%s", rest_text(event, "id"));
    while (strcmp(rest_text(event, "state"), "RUNNING") != 0) {
        event = rest_await_change(rest, event);
        assert_false(json_is_true(json_object_get(event, "done")));
    }
    json_decref(event);
}

void rest_spin_stop(struct rest *rest, const char *op)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "/v1/events/%s:cancel", op);
    json_decref(rest_json(rest_send(rest, "POST", path, "{}"), 202));
    json_decref(rest_await(rest, op));
}
