// SPDX-License-Identifier: Apache-2.0
// Replies, read by libcurl and by raw sockets: headers, ranges, streams, HEAD.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <curl/curl.h>

#include "tests/lib/http_client.h"
#include "tests/lib/http_fixture.h"

#define HOST "Host: localhost\r\n"

static struct fixture *server;

static int setup(void **state)
{
    (void)state;
    (void)curl_global_init(CURL_GLOBAL_ALL);
    server = fixture_start(NULL, 64 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fixture_stop(server);
    curl_global_cleanup();
    return 0;
}

static void test_standard_headers(void **state)
{
    (void)state;
    struct client_answer answer =
        client_ask(server->port, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(answer.status, 200);
    assert_string_equal(answer.body, "{\"hello\":\"world\"}\n");
    assert_string_equal(client_header(&answer, "Content-Type"),
                        "application/json");
    assert_string_equal(client_header(&answer, "Cache-Control"), "no-store");
    assert_string_equal(client_header(&answer, "X-Content-Type-Options"),
                        "nosniff");
    assert_non_null(client_header(&answer, "X-Request-Id"));
    assert_non_null(client_header(&answer, "Date"));
    assert_null(client_header(&answer, "Server"));
    client_answer_free(&answer);
}

static void test_head(void **state)
{
    static const char *const paths[] = {"/hello", "/things/a", "/bytes?n=9999",
                                        "/rest/abc", "/nope"};
    char request[200];

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        char length[32];
        (void)snprintf(request, sizeof(request),
                       "GET %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
        struct client_answer get = client_ask(server->port, request);
        (void)snprintf(length, sizeof(length), "%s",
                       client_header(&get, "Content-Length"));
        (void)snprintf(request, sizeof(request),
                       "HEAD %s HTTP/1.1\r\n" HOST "\r\n", paths[i]);
        int fd = client_connect(server->port);
        (void)client_puts(fd, request);
        struct client_answer head = client_read(fd, true);
        assert_int_equal(head.status, get.status);
        assert_string_equal(client_header(&head, "Content-Length"), length);
        client_answer_free(&get);
        client_answer_free(&head);
        // No byte of a body came: the next answer is read whole.
        (void)client_puts(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
        head = client_read(fd, false);
        assert_string_equal(head.body, "{\"hello\":\"world\"}\n");
        client_answer_free(&head);
        (void)close(fd);
    }
}

static void test_accept(void **state)
{
    static const struct {
        const char *accept;
        const char *type; // NULL: 406
    } cases[] = {
        {"", "octet-stream"},
        {"*/*", "octet-stream"},
        {"text/html, */*;q=0.1", "octet-stream"},
        {"application/json", "json"},
        {"Application/JSON", "json"},
        {"application/json;q=0.5, application/x-npy", "x-npy"},
        {"application/json; q=0.9,application/x-npy;q=0.8", "json"},
        {"application/json;q=0.001", "json"},
        {"application/*, application/octet-stream;q=0", "x-npy"},
        {"*/*;q=0.2, application/json;q=0.3", "json"},
        {"text/html", NULL},
        {"application/json;q=0", NULL},
        {"application/jso", NULL},
        {"application/jsonp", NULL},
    };
    char request[200];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)snprintf(request, sizeof(request),
                       "GET /accept HTTP/1.1\r\n" HOST "Accept: %s\r\n\r\n",
                       cases[i].accept);
        struct client_answer answer = client_ask(server->port, request);
        assert_int_equal(answer.status, cases[i].type != NULL ? 200 : 406);
        if (cases[i].type != NULL)
            assert_string_equal(answer.body + strlen("application/"),
                                cases[i].type);
        client_answer_free(&answer);
    }
}

// ---------------------------------------------------------------------- curl

struct counted {
    uint64_t at; // place of the next byte
    uint64_t bytes;
    bool wrong;
};

static size_t count_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct counted *counted = arg;

    for (size_t i = 0; i < size * count; i++, counted->at++)
        counted->wrong |= (unsigned char)bytes[i] != counted->at % 251;
    counted->bytes += size * count;
    return size * count;
}

// What comes must be the pattern from `first` on; gives the status.
static long fetch(const char *target, const char *range, uint64_t first,
                  uint64_t *out_bytes)
{
    struct counted counted = {.at = first};
    CURL *curl = curl_easy_init();
    char url[200];
    long status = 0;

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", server->port,
                   target);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_RANGE, range);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, count_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &counted);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_cleanup(curl);
    assert_false(counted.wrong);
    *out_bytes = counted.bytes;
    return status;
}

static void test_blobs(void **state)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 1000, 65537, 30000000};
    char target[100];
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        (void)snprintf(target, sizeof(target), "/bytes?n=%llu",
                       (unsigned long long)sizes[i]);
        assert_int_equal(fetch(target, NULL, 0, &bytes), 200);
        assert_int_equal(bytes, sizes[i]);
    }
}

// The chunks meet at 333: parts before it, across it, after it.
static void test_ranges_of_blobs(void **state)
{
    static const struct {
        const char *range;
        uint64_t first, length;
    } parts[] = {{"0-0", 0, 1},      {"10-20", 10, 11},  {"332-333", 332, 2},
                 {"333-", 333, 667}, {"500-", 500, 500}, {"-1", 999, 1}};
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        assert_int_equal(
            fetch("/bytes?n=1000", parts[i].range, parts[i].first, &bytes),
            206);
        assert_int_equal(bytes, parts[i].length);
    }
}

static void test_streams(void **state)
{
    static const uint64_t sizes[] = {1, 100000, 100001, 30000000};
    char target[100];
    uint64_t bytes;

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        (void)snprintf(target, sizeof(target), "/stream?n=%llu",
                       (unsigned long long)sizes[i]);
        assert_int_equal(fetch(target, NULL, 0, &bytes), 200);
        assert_int_equal(bytes, sizes[i]);
    }
}

// A source that ends early cuts the connection: never a short answer that
// looks whole.
static void test_broken_stream(void **state)
{
    int fd = client_connect(server->port);

    (void)state;
    (void)client_puts(fd,
                      "GET /stream?n=1000&missing=10 HTTP/1.1\r\n" HOST "\r\n");
    struct client_answer answer = client_read(fd, false);
    assert_int_equal(answer.status, 200);
    assert_int_equal(answer.body_size, 990);
    client_answer_free(&answer);
    assert_true(client_is_closed(fd));
    (void)close(fd);
}

// Clients that go away in the middle of a stream.
static void test_abandoned_streams(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int fd = client_connect(server->port);
        char some[1000];
        (void)client_puts(fd,
                          "GET /stream?n=50000000 HTTP/1.1\r\n" HOST "\r\n");
        assert_true(read(fd, some, sizeof(some)) > 0);
        (void)close(fd);
    }
    assert_true(fixture_await_connections(server, 0));
}

// ------------------------------------------------------------------- uploads

static size_t give_ones(char *out, size_t size, size_t count, void *arg)
{
    uint64_t *left = arg;
    size_t part = size * count < *left ? size * count : (size_t)*left;

    memset(out, 1, part);
    *left -= part;
    return part;
}

static size_t keep_text(char *bytes, size_t size, size_t count, void *arg)
{
    char *text = arg;

    (void)strncat(text, bytes, size * count < 200 ? size * count : 200);
    return size * count;
}

static void upload(uint64_t size, bool chunked)
{
    CURL *curl = curl_easy_init();
    uint64_t left = size;
    char url[100];
    char text[1000] = "";
    char wanted[100];

    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u/data", server->port);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_PROXY, "");
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, give_ones);
    curl_easy_setopt(curl, CURLOPT_READDATA, &left);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, keep_text);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, text);
    if (!chunked)
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)size);
    assert_int_equal(curl_easy_perform(curl), CURLE_OK);
    curl_easy_cleanup(curl);
    (void)snprintf(wanted, sizeof(wanted), "{\"bytes\":%llu,\"sum\":%llu}\n",
                   (unsigned long long)size, (unsigned long long)size);
    assert_string_equal(text, wanted);
}

static void test_uploads(void **state)
{
    (void)state;
    upload(1, false);
    upload(50000000, false);
    upload(50000000, true);
    upload(64 << 20, true);
    // The budget is given back when the answer has left.
    assert_true(fixture_await_connections(server, 0));
    assert_int_equal(atomic_load(&server->staging_used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_standard_headers),
        cmocka_unit_test(test_head),
        cmocka_unit_test(test_accept),
        cmocka_unit_test(test_blobs),
        cmocka_unit_test(test_ranges_of_blobs),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_broken_stream),
        cmocka_unit_test(test_abandoned_streams),
        cmocka_unit_test(test_uploads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
