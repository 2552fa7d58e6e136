// SPDX-License-Identifier: Apache-2.0
// Small messages of numbers, against bytes that were written by hand and
// against what protobuf-c makes of the same.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/wire_small.h"

#include "pod_worker.pb-c.h"

enum {
    ROUNDS = 20000,
    NUMBERS = 6,
    FIELD = 3,
    MANY = 200,
};

static const ProtobufCMessageDescriptor *const entry_type =
    &pod__worker__v1__entry__descriptor;
static const ProtobufCMessageDescriptor *const outcome_type =
    &pod__worker__v1__outcome__descriptor;

// An entry, and what may be in it.
struct entry {
    Pod__Worker__V1__Entry base;
    uint64_t waits[NUMBERS];
    uint64_t orders[NUMBERS];
    Pod__Worker__V1__Copy copy;
    Pod__Worker__V1__Read read;
    Pod__Worker__V1__Allocate allocate;
    Pod__Worker__V1__Load load;
    Pod__Worker__V1__Reset reset;
};

// Small and great ones, and none, of all lengths.
static uint64_t any_number(void)
{
    uint64_t bits =
        (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
    return rand() % 3 == 0 ? 0 : bits >> rand() % 64;
}

static void entry_make_what(struct entry *entry)
{
    switch (rand() % 6) {
    case 0:
        entry->base.what_case = POD__WORKER__V1__ENTRY__WHAT_COPY;
        entry->base.copy = &entry->copy;
        entry->copy.from = any_number();
        entry->copy.to = any_number();
        break;
    case 1:
        entry->base.what_case = POD__WORKER__V1__ENTRY__WHAT_READ;
        entry->base.read = &entry->read;
        entry->read.buffer = any_number();
        entry->read.count = any_number();
        break;
    case 2:
        entry->base.what_case = POD__WORKER__V1__ENTRY__WHAT_ALLOCATE;
        entry->base.allocate = &entry->allocate;
        entry->allocate.core = (uint32_t)any_number();
        entry->allocate.size_case = POD__WORKER__V1__ALLOCATE__SIZE_RAW_BYTES;
        entry->allocate.raw_bytes = any_number();
        break;
    case 3:
        entry->base.what_case = POD__WORKER__V1__ENTRY__WHAT_LOAD;
        entry->base.load = &entry->load;
        entry->load.core = (uint32_t)any_number();
        entry->load.program = any_number();
        break;
    case 4:
        entry->base.what_case = POD__WORKER__V1__ENTRY__WHAT_RESET;
        entry->base.reset = &entry->reset;
        break;
    default:
        break;
    }
}

static void entry_make(struct entry *entry)
{
    pod__worker__v1__entry__init(&entry->base);
    pod__worker__v1__copy__init(&entry->copy);
    pod__worker__v1__read__init(&entry->read);
    pod__worker__v1__allocate__init(&entry->allocate);
    pod__worker__v1__load__init(&entry->load);
    pod__worker__v1__reset__init(&entry->reset);
    entry->base.op = any_number();
    entry->base.waits = entry->waits;
    entry->base.n_waits = (size_t)rand() % NUMBERS;
    entry->base.orders = entry->orders;
    entry->base.n_orders = (size_t)rand() % NUMBERS;
    for (size_t i = 0; i < NUMBERS; i++) {
        entry->waits[i] = any_number();
        entry->orders[i] = any_number();
    }
    entry->base.priority = (int32_t)any_number();
    entry->base.want_started = rand() % 2;
    entry->base.same_trace = rand() % 2;
    entry->base.operation = any_number();
    entry->base.span = any_number();
    entry_make_what(entry);
}

// What protobuf-c packs, as the field FIELD of another message.
static size_t pack_whole(const ProtobufCMessage *message,
                         unsigned char out[WIRE_SMALL_BYTES])
{
    size_t size = protobuf_c_message_get_packed_size(message);

    if (size + 2 > WIRE_SMALL_BYTES)
        return 0;
    out[0] = FIELD << 3 | 2;
    out[1] = (unsigned char)size;
    return 2 + protobuf_c_message_pack(message, out + 2);
}

static void expect_same(const ProtobufCMessage *message)
{
    unsigned char got[WIRE_SMALL_BYTES];
    unsigned char want[WIRE_SMALL_BYTES];
    unsigned char again[WIRE_SMALL_BYTES];
    struct wire_small memory;
    size_t size = pack_whole(message, want);

    assert_int_equal(wire_small_pack(FIELD, message, got), size);
    if (size == 0)
        return;
    assert_memory_equal(got, want, size);
    memset(&memory, 0xa5, sizeof(memory));
    const ProtobufCMessage *back =
        wire_small_unpack(message->descriptor, got + 2, size - 2, &memory);
    assert_non_null(back);
    assert_int_equal(pack_whole(back, again), size);
    assert_memory_equal(again, want, size);
}

static void test_any_entry(void **state)
{
    struct entry entry;

    (void)state;
    srand(1);
    for (int i = 0; i < ROUNDS; i++) {
        entry_make(&entry);
        expect_same(&entry.base.base);
    }
}

static void test_an_outcome(void **state)
{
    // op 300, started, an empty status
    const unsigned char bytes[] = {0x1a, 7, 0x08, 0xac, 2, 0x10, 1, 0x1a, 0};
    unsigned char got[WIRE_SMALL_BYTES];
    struct wire_small memory;
    Pod__Worker__V1__Outcome outcome = POD__WORKER__V1__OUTCOME__INIT;
    Pod__Worker__V1__Status status;

    (void)state;
    pod__worker__v1__status__init(&status);
    outcome.op = 300;
    outcome.started = 1;
    outcome.status = &status;
    assert_int_equal(wire_small_pack(FIELD, &outcome.base, got), sizeof(bytes));
    assert_memory_equal(got, bytes, sizeof(bytes));
    const Pod__Worker__V1__Outcome *back =
        (const void *)wire_small_unpack(outcome_type, bytes + 2, 7, &memory);
    assert_non_null(back);
    assert_int_equal(back->op, 300);
    assert_true(back->started);
    assert_non_null(back->status);
    assert_int_equal(back->status->code, 0);
    assert_string_equal(back->status->reason, "");
    assert_int_equal(back->data.len, 0);
}

// ------------------------------------------------------------ left to others

static void expect_not_packed(const ProtobufCMessage *message)
{
    unsigned char out[WIRE_SMALL_BYTES];

    assert_int_equal(wire_small_pack(FIELD, message, out), 0);
}

static void test_texts_and_bytes_are_not_packed(void **state)
{
    unsigned char byte = 7;
    char text[] = "x";
    Pod__Worker__V1__Status status;
    Pod__Worker__V1__Outcome outcome = POD__WORKER__V1__OUTCOME__INIT;
    Pod__Worker__V1__Allocate allocate = POD__WORKER__V1__ALLOCATE__INIT;
    Pod__Worker__V1__Launch launch = POD__WORKER__V1__LAUNCH__INIT;
    Pod__Worker__V1__Launch *launches[] = {&launch};
    Pod__Worker__V1__Execute execute = POD__WORKER__V1__EXECUTE__INIT;

    (void)state;
    pod__worker__v1__status__init(&status);
    status.message = text;
    expect_not_packed(&status.base);
    outcome.status = &status;
    expect_not_packed(&outcome.base);
    outcome.status = NULL;
    outcome.data.data = &byte;
    outcome.data.len = 1;
    expect_not_packed(&outcome.base);
    allocate.size_case = POD__WORKER__V1__ALLOCATE__SIZE_SHAPE;
    expect_not_packed(&allocate.base); // of a oneof also when it is empty
    execute.launches = launches;
    execute.n_launches = 1;
    expect_not_packed(&execute.base);
}

static void test_long_ones_are_not_packed(void **state)
{
    uint64_t ones[WIRE_SMALL_BYTES];
    Pod__Worker__V1__AllocateTuple tuple =
        POD__WORKER__V1__ALLOCATE_TUPLE__INIT;
    unsigned char out[WIRE_SMALL_BYTES];

    (void)state;
    for (size_t i = 0; i < WIRE_SMALL_BYTES; i++)
        ones[i] = 1;
    tuple.children = ones;
    tuple.n_children = WIRE_SMALL_BYTES - 4; // two tags and lengths
    assert_int_equal(wire_small_pack(FIELD, &tuple.base, out),
                     WIRE_SMALL_BYTES);
    tuple.n_children++;
    expect_not_packed(&tuple.base);
}

struct refused {
    const char *what;
    size_t size;
    unsigned char bytes[24];
};

static const struct refused refused_entries[] = {
    {"an unknown field", 3, {0xf8, 0x0f, 1}},
    {"field 0", 2, {0x00, 1}},
    {"a number that is not whole", 2, {0x08, 0x80}},
    {"a number of more than ten bytes",
     12,
     {0x08, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1}},
    {"a length beyond the end", 3, {0x12, 9, 1}},
    {"bytes for a number", 3, {0x0a, 1, 1}},
    {"a number for bytes", 2, {0x70, 1}},
    {"a number outside of its list", 2, {0x10, 5}},
    {"an empty list", 2, {0x12, 0}},
    {"a list whose last number is not whole", 4, {0x12, 2, 5, 0x80}},
    {"a list in two parts", 6, {0x12, 1, 5, 0x12, 1, 6}},
    {"a bool beyond one", 2, {0x28, 2}},
    {"more than 32 bits", 7, {0x20, 0x80, 0x80, 0x80, 0x80, 0x80, 1}},
    {"a text", 5, {0x32, 3, 0x0a, 1, 'x'}},
    {"bytes", 5, {0x6a, 3, 0x1a, 1, 'x'}},
    {"two kinds", 4, {0x62, 0, 0x72, 0}},
    {"the same kind twice", 4, {0x72, 0, 0x72, 0}},
    {"launches", 5, {0xa2, 0x01, 2, 0x0a, 0}},
};

static void test_what_is_not_plain_is_not_unpacked(void **state)
{
    size_t count = sizeof refused_entries / sizeof refused_entries[0];
    struct wire_small memory;

    (void)state;
    for (size_t i = 0; i < count; i++) {
        const struct refused *refused = &refused_entries[i];
        if (wire_small_unpack(entry_type, refused->bytes, refused->size,
                              &memory) != NULL)
            fail_msg("%s was unpacked", refused->what);
    }
}

// As protobuf-c has it.
static void test_of_a_number_twice_the_last_counts(void **state)
{
    const unsigned char bytes[] = {0x08, 1, 0x08, 2};
    struct wire_small memory;

    (void)state;
    const Pod__Worker__V1__Entry *entry = (const void *)wire_small_unpack(
        entry_type, bytes, sizeof(bytes), &memory);
    assert_non_null(entry);
    assert_int_equal(entry->op, 2);
}

static void test_what_takes_more_memory_is_not_unpacked(void **state)
{
    unsigned char bytes[3 + MANY] = {0x12};
    struct wire_small memory;

    (void)state;
    memset(bytes + 1, 1, sizeof(bytes) - 1);
    bytes[1] = 50;
    const Pod__Worker__V1__Entry *entry =
        (const void *)wire_small_unpack(entry_type, bytes, 52, &memory);
    assert_non_null(entry);
    assert_int_equal(entry->n_waits, 50);
    bytes[1] = (MANY & 0x7f) | 0x80;
    bytes[2] = MANY >> 7;
    assert_null(wire_small_unpack(entry_type, bytes, sizeof(bytes), &memory));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_entry),
        cmocka_unit_test(test_an_outcome),
        cmocka_unit_test(test_texts_and_bytes_are_not_packed),
        cmocka_unit_test(test_long_ones_are_not_packed),
        cmocka_unit_test(test_what_is_not_plain_is_not_unpacked),
        cmocka_unit_test(test_of_a_number_twice_the_last_counts),
        cmocka_unit_test(test_what_takes_more_memory_is_not_unpacked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
