// SPDX-License-Identifier: Apache-2.0
// Who may do what: tokens on every route, sessions, tokens that are taken away,
// rates, and requests at once.
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/routes.h"
#include "api/tokens.h"
#include "tests/lib/http_client.h"
#include "tests/lib/patience.h"
#include "tests/lib/rest_pod.h"

#define JSON  "Content-Type: application/json"
#define ADMIN "Authorization: Bearer boss"
#define WRITE "Authorization: Bearer hand"
#define READ  "Authorization: Bearer eye"

static char folder[] = "/tmp/podd-auth-XXXXXX";
static char token_path[64];

// The file is replaced, as editors do.
static void write_tokens(const char *text, size_t length)
{
    char fresh[80];

    (void)snprintf(fresh, sizeof(fresh), "%s.new", token_path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, text, length), length);
    assert_int_equal(close(fd), 0);
    assert_int_equal(rename(fresh, token_path), 0);
}

static void write_all_tokens(void)
{
    char lines[3 * API_TOKEN_LINE_BYTES];

    api_token_line("boss", API_SCOPE_ADMIN, lines);
    api_token_line("hand", API_SCOPE_WRITE, lines + strlen(lines));
    api_token_line("eye", API_SCOPE_READ, lines + strlen(lines));
    write_tokens(lines, strlen(lines));
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    (void)snprintf(token_path, sizeof(token_path), "%s/tokens", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    (void)unlink(token_path);
    return rmdir(folder);
}

static struct rest *start(const struct api_limits *limits)
{
    struct rest_options options = {.token_file = token_path};

    if (limits != NULL)
        options.limits = *limits;
    write_all_tokens();
    return rest_start(&options);
}

static struct rest_answer ask(struct rest *rest, const char *method,
                              const char *path, const char *header,
                              const char *body)
{
    const char *const headers[] = {header != NULL ? header : JSON, JSON, NULL};

    return rest_ask(rest, method, path, headers, body,
                    body != NULL ? strlen(body) : 0);
}

static long status(struct rest_answer answer)
{
    long found = answer.status;

    rest_answer_free(&answer);
    return found;
}

// ------------------------------------------------------------------ the routes

// The pattern of a route with something in the place of its captures.
static void fill_in(const char *pattern, char *out, size_t size)
{
    size_t used = 0;

    while (*pattern != '\0' && used + 24 < size) {
        if (*pattern != '{') {
            out[used++] = *pattern++;
            continue;
        }
        used += (size_t)snprintf(out + used, size - used, "99999");
        pattern = strchr(pattern, '}') + 1;
    }
    // Who is let in is refused for this, before anything is done.
    (void)snprintf(out + used, size - used, "?unknown=1");
}

static bool is_refused(long found)
{
    return found == 401 || found == 403;
}

static void check_route(struct rest *rest, const struct api_route *route)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT",
                                          "DELETE"};
    static const char *const tokens[] = {NULL, READ, WRITE, ADMIN};
    char path[128];

    fill_in(route->pattern, path, sizeof(path));
    for (int held = API_SCOPE_NONE; held <= API_SCOPE_ADMIN; held++) {
        const char *method = methods[route->method];
        bool sends = route->method == API_POST || route->method == API_PUT;
        long found =
            status(ask(rest, method, path, tokens[held], sends ? "{}" : NULL));
        bool refused = held < (int)route->scope;
        if (is_refused(found) != refused)
            print_error("%s %s with scope %d: %ld\n", method, path, held,
                        found);
        assert_int_equal(is_refused(found), refused);
        if (refused)
            assert_int_equal(found, held == API_SCOPE_NONE ? 401 : 403);
    }
}

static bool is_open(const struct api_route *route)
{
    static const char *const open[] = {
        "/healthz", "/readyz", "/ui", "/ui/", "/ui/sign-in.js", "/ui/session"};

    for (size_t i = 0; i < sizeof(open) / sizeof(open[0]); i++) {
        if (strcmp(route->pattern, open[i]) == 0)
            return true;
    }
    return false;
}

static bool is_for_admin(const struct api_route *route)
{
    return strcmp(route->pattern, "/v1/pod:reset") == 0 ||
           strncmp(route->pattern, "/v1/hosts", 9) == 0;
}

// The scope that the contract gives a route.
static enum api_scope wanted_scope(const struct api_route *route)
{
    if (is_open(route))
        return API_SCOPE_NONE;
    if (route->method == API_GET ||
        strcmp(route->pattern, "/v1/events:wait") == 0)
        return API_SCOPE_READ;
    return is_for_admin(route) ? API_SCOPE_ADMIN : API_SCOPE_WRITE;
}

static void test_every_route_has_its_scope(void **state)
{
    struct api_server_options options = {.listen = NULL};
    struct api_app app = {.pod = NULL};
    struct rest *rest = start(NULL);

    (void)state;
    api_app_setup(&app, &options);
    assert_true(options.route_count > 30);
    for (size_t i = 0; i < options.route_count; i++) {
        const struct api_route *route = &options.routes[i];
        if (route->scope != wanted_scope(route))
            print_error("%s has scope %d\n", route->pattern, route->scope);
        assert_int_equal(route->scope, wanted_scope(route));
        // A session needs a token in its body: 401 is its own answer.
        if (strcmp(route->pattern, "/ui/session") != 0)
            check_route(rest, route);
    }
    rest_stop(rest);
}

static void test_what_there_is_is_not_told(void **state)
{
    struct rest *rest = start(NULL);

    (void)state;
    rest_is_problem(ask(rest, "GET", "/v1/nothing", NULL, NULL), 401,
                    "UNAUTHENTICATED");
    rest_is_problem(ask(rest, "DELETE", "/v1/pod", NULL, NULL), 401,
                    "UNAUTHENTICATED");
    rest_is_problem(ask(rest, "OPTIONS", "/v1/pod", NULL, NULL), 401,
                    "UNAUTHENTICATED");
    rest_is_problem(ask(rest, "GET", "/v1/nothing", READ, NULL), 404,
                    "NOT_FOUND");
    rest_is_problem(ask(rest, "DELETE", "/v1/pod", READ, NULL), 405,
                    "METHOD_NOT_ALLOWED");
    rest_stop(rest);
}

static void test_answers_say_what_is_missing(void **state)
{
    static const struct {
        const char *header;
        const char *method;
        long status;
        const char *reason;
        const char *challenge;
    } cases[] = {
        {JSON, "GET", 401, "UNAUTHENTICATED", "Bearer realm=\"podd\""},
        {"Authorization: Bearer nobody", "GET", 401, "UNAUTHENTICATED",
         "Bearer realm=\"podd\", error=\"invalid_token\""},
        {"Authorization: Bearer ", "GET", 401, "UNAUTHENTICATED",
         "Bearer realm=\"podd\", error=\"invalid_token\""},
        {"Authorization: Bearer eye eye", "GET", 401, "UNAUTHENTICATED",
         "Bearer realm=\"podd\", error=\"invalid_token\""},
        {"Authorization: Bearer eyes", "GET", 401, "UNAUTHENTICATED",
         "Bearer realm=\"podd\", error=\"invalid_token\""},
        {"Authorization: Basic ZXllOmV5ZQ==", "GET", 401, "UNAUTHENTICATED",
         "Bearer realm=\"podd\", error=\"invalid_token\""},
        {"Cookie: podd_session=eye", "GET", 401, "UNAUTHENTICATED",
         "Bearer realm=\"podd\", error=\"invalid_token\""},
        {READ, "POST", 403, "FORBIDDEN",
         "Bearer realm=\"podd\", error=\"insufficient_scope\", "
         "scope=\"write\""},
    };
    struct rest *rest = start(NULL);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rest_answer answer =
            ask(rest, cases[i].method, "/v1/buffers", cases[i].header,
                cases[i].method[0] == 'P' ? "{}" : NULL);
        const char *challenge = rest_header(&answer, "WWW-Authenticate");
        assert_non_null(challenge);
        assert_string_equal(challenge, cases[i].challenge);
        rest_is_problem(answer, cases[i].status, cases[i].reason);
    }
    assert_int_equal(
        status(ask(rest, "GET", "/v1", "authorization: bearer eye", NULL)),
        200);
    const char *const twice[] = {READ, ADMIN, NULL};
    rest_is_problem(rest_ask(rest, "GET", "/v1", twice, NULL, 0), 401,
                    "UNAUTHENTICATED");
    rest_stop(rest);
}

// ------------------------------------------------------------------- sessions

// Signs in and writes the Cookie header of the session.
static void sign_in(struct rest *rest, const char *token, char *out,
                    size_t size)
{
    char body[128];

    (void)snprintf(body, sizeof(body), "{\"token\":\"%s\"}", token);
    struct rest_answer answer = ask(rest, "POST", "/ui/session", NULL, body);
    assert_int_equal(answer.status, 204);
    const char *cookie = rest_header(&answer, "Set-Cookie");
    assert_non_null(cookie);
    assert_non_null(strstr(cookie, "; HttpOnly"));
    assert_non_null(strstr(cookie, "; SameSite=Strict"));
    assert_null(strstr(cookie, token));
    (void)snprintf(out, size, "Cookie: %.*s", (int)strcspn(cookie, ";"),
                   cookie);
    rest_answer_free(&answer);
}

static void test_a_browser_signs_in_and_out(void **state)
{
    struct rest *rest = start(NULL);
    char cookie[160];

    (void)state;
    struct rest_answer page = ask(rest, "GET", "/ui/", NULL, NULL);
    assert_non_null(strstr(page.body, "sign-in.js"));
    assert_null(strstr(page.body, "chips"));
    rest_answer_free(&page);
    rest_is_problem(
        ask(rest, "POST", "/ui/session", NULL, "{\"token\":\"nobody\"}"), 401,
        "UNAUTHENTICATED");
    rest_is_problem(ask(rest, "POST", "/ui/session", NULL, "{}"), 400,
                    "MISSING_MEMBER");
    rest_is_problem(ask(rest, "POST", "/ui/session", NULL,
                        "{\"token\":\"eye\",\"more\":1}"),
                    400, "UNKNOWN_MEMBER");
    sign_in(rest, "hand", cookie, sizeof(cookie));
    page = ask(rest, "GET", "/ui/", cookie, NULL);
    assert_non_null(strstr(page.body, "chips"));
    rest_answer_free(&page);
    const char *body = "{\"core\":0,\"bytes\":\"8\"}";
    assert_int_equal(status(ask(rest, "POST", "/v1/buffers", cookie, body)),
                     202);
    assert_int_equal(status(ask(rest, "POST", "/v1/pod:reset", cookie, NULL)),
                     403);
    // A page of another site cannot use the cookie to change anything.
    const char *const foreign[] = {cookie, JSON, "Sec-Fetch-Site: cross-site",
                                   NULL};
    rest_is_problem(
        rest_ask(rest, "POST", "/v1/buffers", foreign, body, strlen(body)), 403,
        "CROSS_ORIGIN");
    assert_int_equal(status(ask(rest, "DELETE", "/ui/session", cookie, NULL)),
                     204);
    assert_int_equal(status(ask(rest, "GET", "/v1", cookie, NULL)), 401);
    rest_stop(rest);
}

// --------------------------------------------------------------------- reload

// Asks until the answer has this status.
static void await_status(struct rest *rest, const char *header, long wanted)
{
    time_t end = time(NULL) + PATIENCE_S;
    long found = 0;

    while (found != wanted && time(NULL) < end)
        found = status(ask(rest, "GET", "/v1", header, NULL));
    assert_int_equal(found, wanted);
}

static void test_tokens_come_and_go(void **state)
{
    struct rest *rest = start(NULL);
    char line[API_TOKEN_LINE_BYTES];
    char cookie[160];

    (void)state;
    sign_in(rest, "eye", cookie, sizeof(cookie));
    assert_int_equal(status(ask(rest, "GET", "/v1", cookie, NULL)), 200);
    api_token_line("fresh", API_SCOPE_READ, line);
    write_tokens(line, strlen(line));
    api_server_reload(rest_server(rest));
    await_status(rest, "Authorization: Bearer fresh", 200);
    assert_int_equal(status(ask(rest, "GET", "/v1", READ, NULL)), 401);
    // The session went with its token.
    assert_int_equal(status(ask(rest, "GET", "/v1", cookie, NULL)), 401);
    // A file that cannot be used changes nothing, and is read when it can.
    write_tokens("nonsense\n", 9);
    api_server_reload(rest_server(rest));
    assert_int_equal(
        status(ask(rest, "GET", "/v1", "Authorization: Bearer fresh", NULL)),
        200);
    write_all_tokens();
    await_status(rest, READ, 200); // by itself
    write_tokens("", 0);
    await_status(rest, READ, 401);
    rest_stop(rest);
}

// The same key of two tokens is two keys.
static void test_keys_belong_to_tokens(void **state)
{
    static const char *const hand[] = {WRITE, JSON, "Idempotency-Key: k", NULL};
    static const char *const boss[] = {ADMIN, JSON, "Idempotency-Key: k", NULL};
    static const char body[] = "{\"core\":0,\"bytes\":\"8\"}";
    struct rest *rest = start(NULL);

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct rest_answer answer =
            rest_ask(rest, "POST", "/v1/buffers", i % 2 == 0 ? hand : boss,
                     body, strlen(body));
        assert_int_equal(answer.status, 202);
        assert_string_equal(rest_text(answer.json, "id"),
                            i % 2 == 0 ? "op-1" : "op-2");
        rest_answer_free(&answer);
    }
    rest_stop(rest);
}

// ---------------------------------------------------------------------- quotas

static void test_rates(void **state)
{
    const struct api_limits limits = {.requests_per_s = 2};
    struct rest *rest = start(&limits);
    struct rest_answer answer;
    int taken = 0;

    (void)state;
    answer = ask(rest, "GET", "/v1", READ, NULL);
    assert_string_equal(rest_header(&answer, "RateLimit-Policy"),
                        "\"default\";q=2;w=1");
    assert_string_equal(rest_header(&answer, "RateLimit"),
                        "\"default\";r=1;t=1");
    while (answer.status == 200 && taken++ < 1000) {
        rest_answer_free(&answer);
        answer = ask(rest, "GET", "/v1", READ, NULL);
    }
    assert_string_equal(rest_header(&answer, "Retry-After"), "1");
    assert_string_equal(rest_header(&answer, "RateLimit"),
                        "\"default\";r=0;t=1");
    json_t *metadata = json_object_get(answer.json, "metadata");
    assert_string_equal(rest_text(metadata, "limit"), "rate-limit");
    assert_string_equal(rest_text(metadata, "max"), "2");
    rest_is_problem(answer, 429, "TOO_MANY_REQUESTS");
    // Others have their own, health has none, and guessing counts too.
    assert_int_equal(status(ask(rest, "GET", "/v1", WRITE, NULL)), 200);
    for (int i = 0; i < 5; i++)
        assert_int_equal(status(ask(rest, "GET", "/healthz", NULL, NULL)), 200);
    long found = 401;
    for (int i = 0; i < 1000 && found == 401; i++)
        found = status(
            ask(rest, "GET", "/v1", "Authorization: Bearer guess", NULL));
    assert_int_equal(found, 429);
    rest_stop(rest);
}

static int park(const struct rest *rest, const char *token)
{
    char request[256];
    int fd = client_connect(api_server_port(rest_server(rest)));

    (void)snprintf(
        request, sizeof(request),
        "POST /v1/events:wait HTTP/1.1\r\nHost: localhost\r\n%s\r\n" JSON
        "\r\nContent-Length: 31\r\n\r\n"
        "{\"ids\":[\"op-4\"],\"wait\":\"50s\"}  ",
        token);
    assert_true(client_puts(fd, request));
    return fd;
}

// Makes op-4, which waits for op-3, which runs for ever.
static void make_waiting(struct rest *rest)
{
    static const char spin[] =
        "HloModule spin\ncond {\n p = s32[] parameter(0)\n"
        " ROOT t = pred[] constant(true)\n}\nbody {\n p = s32[] parameter(0)\n"
        " ROOT r = s32[] add(p, p)\n}\nENTRY main {\n c = s32[] constant(1)\n"
        " ROOT w = s32[] while(c), condition=cond, body=body\n}\n";
    static const char *const headers[] = {WRITE, "Content-Type: text/x-hlo",
                                          NULL};

    assert_int_equal(status(rest_ask(rest, "POST", "/v1/programs", headers,
                                     spin, strlen(spin))),
                     202);
    assert_int_equal(status(ask(rest, "POST", "/v1/loads", WRITE,
                                "{\"program\":\"prog-1\",\"core\":0}")),
                     202);
    assert_int_equal(
        status(ask(rest, "POST", "/v1/buffers", WRITE,
                   "{\"core\":0,\"shape\":\"s32[]\",\"values\":1}")),
        202);
    assert_int_equal(status(ask(rest, "POST", "/v1/executions", WRITE,
                                "{\"load\":\"load-2\",\"inputs\":[],"
                                "\"outputs\":[\"buf-3\"]}")),
                     202);
}

static void test_requests_at_once(void **state)
{
    const struct api_limits limits = {.requests_per_token = 2};
    struct rest *rest = start(&limits);

    (void)state;
    make_waiting(rest);
    int one = park(rest, READ);
    int two = park(rest, READ);
    rest_await_parked(rest, 2);
    struct rest_answer answer = ask(rest, "GET", "/v1", READ, NULL);
    json_t *metadata = json_object_get(answer.json, "metadata");
    assert_string_equal(rest_text(metadata, "limit"), "requests-per-token");
    assert_string_equal(rest_text(metadata, "used"), "2");
    rest_is_problem(answer, 429, "TOO_MANY_REQUESTS");
    assert_int_equal(status(ask(rest, "GET", "/v1", WRITE, NULL)), 200);
    (void)close(one);
    rest_await_parked(rest, 1);
    await_status(rest, READ, 200);
    (void)close(two);
    rest_stop(rest);
}

static void test_unfit_token_files(void **state)
{
    struct api_server_options options = {.listen = "127.0.0.1:0",
                                         .token_file = token_path};
    struct api_server *server = NULL;
    struct pod_err err;

    (void)state;
    write_tokens("# none\n", 7);
    assert_int_equal(api_server_new(&options, &server, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "podd token add"));
    assert_int_equal(chmod(token_path, 0644), 0);
    assert_int_equal(api_server_new(&options, &server, &err),
                     POD_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "chmod 600"));
    assert_null(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_route_has_its_scope),
        cmocka_unit_test(test_what_there_is_is_not_told),
        cmocka_unit_test(test_answers_say_what_is_missing),
        cmocka_unit_test(test_a_browser_signs_in_and_out),
        cmocka_unit_test(test_tokens_come_and_go),
        cmocka_unit_test(test_keys_belong_to_tokens),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_requests_at_once),
        cmocka_unit_test(test_unfit_token_files),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
