// SPDX-License-Identifier: Apache-2.0
// Messages in pieces, without their bulk: what is left, and where the bulk is,
// against messages that protobuf-c packs and unpacks whole.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "proto/wire_lean.h"

#include "pod_worker.pb-c.h"

enum {
    BULK = 100000,
    MAX_ENTRIES = 3,
    MAX_PIECES = 4096,
    ROUNDS = 300,
};

static const struct wire_lean_path path = {
    .numbers = {3, 13, 3}, .depth = 3, .repeated = true};

// A request of a session: entries of which some write.
struct request {
    Pod__Worker__V1__SessionRequest base;
    Pod__Worker__V1__Entry entries[MAX_ENTRIES];
    Pod__Worker__V1__Entry *list[MAX_ENTRIES];
    Pod__Worker__V1__Write writes[MAX_ENTRIES];
    unsigned char *bytes; // packed
    size_t size;
};

// `sizes` are those of what each entry writes.
static void request_make(struct request *request, const size_t *sizes,
                         size_t count)
{
    pod__worker__v1__session_request__init(&request->base);
    request->base.session = UINT64_MAX;
    request->base.forget_below = 77; // behind the entries
    for (size_t i = 0; i < count; i++) {
        pod__worker__v1__entry__init(&request->entries[i]);
        pod__worker__v1__write__init(&request->writes[i]);
        request->entries[i].op = 300 + i;
        request->entries[i].what_case = POD__WORKER__V1__ENTRY__WHAT_WRITE;
        request->entries[i].write = &request->writes[i];
        request->writes[i].buffer = 5;
        request->writes[i].offset = 1 << 20;
        request->writes[i].data.len = sizes[i];
        request->writes[i].data.data = malloc(sizes[i] + 1);
        for (size_t k = 0; k < sizes[i]; k++)
            request->writes[i].data.data[k] = (unsigned char)(k % 251 + i);
        request->list[i] = &request->entries[i];
    }
    request->base.n_entries = count;
    request->base.entries = request->list;
    request->size =
        pod__worker__v1__session_request__get_packed_size(&request->base);
    request->bytes = malloc(request->size);
    (void)pod__worker__v1__session_request__pack(&request->base,
                                                 request->bytes);
}

static void request_free(struct request *request)
{
    for (size_t i = 0; i < request->base.n_entries; i++)
        free(request->writes[i].data.data);
    free(request->bytes);
}

// Cuts a message at random, sometimes into very small pieces. Each piece is in
// memory of its own, so that a step too far is seen.
struct cut {
    struct pod_blob_piece pieces[MAX_PIECES];
    unsigned char *owned[MAX_PIECES];
    size_t count;
};

static void cut_make(struct cut *cut, const unsigned char *bytes, size_t size)
{
    size_t at = 0;

    cut->count = 0;
    while (at < size) {
        size_t most = rand() % 2 == 0 ? 3 : 20000;
        size_t piece = 1 + (size_t)rand() % most;
        if (piece > size - at || cut->count + 1 == MAX_PIECES)
            piece = size - at;
        cut->owned[cut->count] = malloc(piece);
        memcpy(cut->owned[cut->count], bytes + at, piece);
        cut->pieces[cut->count] = (struct pod_blob_piece){
            .data = cut->owned[cut->count], .begin = at, .size = piece};
        cut->count++;
        at += piece;
    }
}

static void cut_free(struct cut *cut)
{
    for (size_t i = 0; i < cut->count; i++)
        free(cut->owned[i]);
}

static bool lean_of(const unsigned char *bytes, size_t size,
                    const struct wire_lean_path *at, struct wire_lean *out)
{
    static struct cut cut;

    cut_make(&cut, bytes, size);
    bool left = wire_lean(cut.pieces, cut.count, at, out);
    cut_free(&cut);
    return left;
}

// What is left, with the bulk put back, is what came.
static void expect_left(const struct request *request, size_t big)
{
    struct wire_lean lean;

    assert_true(lean_of(request->bytes, request->size, &path, &lean));
    assert_int_equal(lean.bulk_size, request->writes[big].data.len);
    assert_memory_equal(request->bytes + lean.bulk_begin,
                        request->writes[big].data.data, lean.bulk_size);
    assert_true(lean.place <= lean.size);
    Pod__Worker__V1__SessionRequest *left =
        pod__worker__v1__session_request__unpack(NULL, lean.size, lean.bytes);
    assert_non_null(left);
    assert_int_equal(left->n_entries, request->base.n_entries);
    assert_int_equal(left->entries[big]->write->data.len, 0);
    ProtobufCBinaryData empty = left->entries[big]->write->data;
    left->entries[big]->write->data = request->writes[big].data;
    assert_int_equal(pod__worker__v1__session_request__get_packed_size(left),
                     request->size);
    unsigned char *again = malloc(request->size);
    (void)pod__worker__v1__session_request__pack(left, again);
    assert_memory_equal(again, request->bytes, request->size);
    free(again);
    left->entries[big]->write->data = empty;
    pod__worker__v1__session_request__free_unpacked(left, NULL);
}

static void test_bulk_is_left_out(void **state)
{
    const size_t sizes[][MAX_ENTRIES] = {
        {BULK, 0, 0}, {8, BULK, 16}, {0, 9, WIRE_LEAN_BULK_BYTES}};

    (void)state;
    for (size_t i = 0; i < ROUNDS; i++) {
        struct request request;
        size_t kind = i % MAX_ENTRIES;
        request_make(&request, sizes[kind], kind == 0 ? 1 : MAX_ENTRIES);
        expect_left(&request, kind);
        request_free(&request);
    }
}

static void expect_whole(const size_t *sizes, size_t count)
{
    struct request request;
    struct wire_lean lean;

    request_make(&request, sizes, count);
    assert_false(lean_of(request.bytes, request.size, &path, &lean));
    request_free(&request);
}

static void test_others_stay_whole(void **state)
{
    const size_t small[] = {WIRE_LEAN_BULK_BYTES - 1};
    const size_t two[] = {BULK, BULK};
    const size_t much[] = {WIRE_LEAN_BYTES, BULK};
    const struct wire_lean_path none = {.depth = 0};
    struct request request;
    struct wire_lean lean;

    (void)state;
    expect_whole(small, 1);
    expect_whole(two, 2);
    expect_whole(much, 2);
    request_make(&request, two, 1);
    assert_false(lean_of(request.bytes, request.size, &none, &lean));
    for (size_t size = 0; size < request.size; size += 1 + size / 3)
        assert_false(lean_of(request.bytes, size, &path, &lean));
    request_free(&request);
    assert_false(wire_lean(NULL, 0, &path, &lean));
}

// Of a field that is there twice the last counts: it is no bulk.
static void test_a_field_twice_stays_whole(void **state)
{
    const struct wire_lean_path only = {.numbers = {1}, .depth = 1};
    const unsigned char more[] = {1 << 3 | 2, 1, 'x'};
    struct wire_lean lean;
    Pod__Worker__V1__FetchResponse response =
        POD__WORKER__V1__FETCH_RESPONSE__INIT;
    static unsigned char data[BULK];
    static unsigned char bytes[2 * BULK + 64];

    (void)state;
    response.data = (ProtobufCBinaryData){.data = data, .len = BULK};
    size_t size = pod__worker__v1__fetch_response__pack(&response, bytes);
    assert_true(lean_of(bytes, size, &only, &lean));
    assert_int_equal(lean.size, 0);
    assert_int_equal(lean.bulk_begin, size - BULK);
    memcpy(bytes + size, more, sizeof(more));
    assert_false(lean_of(bytes, size + sizeof(more), &only, &lean));
    memcpy(bytes + size, bytes, size);
    assert_false(lean_of(bytes, 2 * size, &only, &lean));
}

// Whatever comes: nothing outside is touched, and what is said lies inside.
static void test_damaged_messages(void **state)
{
    const size_t sizes[] = {8, BULK, 16};
    struct request request;
    struct wire_lean lean;

    (void)state;
    request_make(&request, sizes, MAX_ENTRIES);
    for (size_t i = 0; i < ROUNDS; i++) {
        // Near the heads, where it matters.
        size_t at = (size_t)rand() % 64;
        if (rand() % 2 == 0)
            at = request.size - 1 - at;
        unsigned char was = request.bytes[at];
        request.bytes[at] = (unsigned char)rand();
        if (lean_of(request.bytes, request.size, &path, &lean)) {
            assert_true(lean.size <= WIRE_LEAN_BYTES);
            assert_true(lean.place <= lean.size);
            assert_true(lean.bulk_begin <= request.size);
            assert_true(lean.bulk_size <= request.size - lean.bulk_begin);
        }
        request.bytes[at] = was;
    }
    request_free(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bulk_is_left_out),
        cmocka_unit_test(test_others_stay_whole),
        cmocka_unit_test(test_a_field_twice_stays_whole),
        cmocka_unit_test(test_damaged_messages),
    };

    srand(1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
