// SPDX-License-Identifier: Apache-2.0
// Messages of the original protocol against bytes worked out by hand, both
// ways, and the bounds of unpacking.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
// clang-format off
#include <cmocka.h>
// clang-format on
#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "proto/wire.h"

#include "pod_worker.pb-c.h"
#include "tpu_service.pb-c.h"

// The client of all vectors is 5: an id is 5 * 2^44 + n.
#define ID(n) (INT64_C(87960930222080) + (n))

enum { MAX_VECTOR = 512 };

static size_t from_hex(const char *hex, unsigned char *out)
{
    size_t count = strlen(hex) / 2;
    assert_true(count <= MAX_VECTOR);
    for (size_t i = 0; i < count; i++) {
        char pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        out[i] = (unsigned char)strtoul(pair, NULL, 16);
    }
    return count;
}

// The vector unpacked; it is packed again and must give the same bytes.
static ProtobufCMessage *unpack(const ProtobufCMessageDescriptor *type,
                                const char *hex)
{
    unsigned char bytes[MAX_VECTOR];
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    size_t size = from_hex(hex, bytes);
    assert_int_equal(pod_wire_unpack(type, bytes, size, 0, &message, &err),
                     POD_OK);
    struct pod_wire_out *out = pod_wire_pack(message);
    assert_non_null(out);
    assert_int_equal(out->size, size);
    assert_memory_equal(out->head, bytes, size);
    pod_wire_out_free(out);
    return message;
}

static TpuDriver__StreamRequest__Entry *first_entry(ProtobufCMessage *message)
{
    TpuDriver__StreamRequest *request = (TpuDriver__StreamRequest *)message;
    assert_int_equal(request->n_entry, 1);
    return request->entry[0];
}

#define REQUEST  &tpu_driver__stream_request__descriptor
#define RESPONSE &tpu_driver__stream_response__descriptor

static void test_open_and_close(void **state)
{
    (void)state;
    ProtobufCMessage *open =
        unpack(&tpu_driver__open_response__descriptor, "080510901c");
    assert_int_equal(((TpuDriver__OpenResponse *)open)->client_id, 5);
    assert_int_equal(((TpuDriver__OpenResponse *)open)->max_idle_time_seconds,
                     3600);
    pod_wire_free(open);
    ProtobufCMessage *close =
        unpack(&tpu_driver__close_request__descriptor, "0d05000000");
    assert_int_equal(((TpuDriver__CloseRequest *)close)->client_id, 5);
    pod_wire_free(close);
}

static void test_alloc(void **state)
{
    (void)state;
    ProtobufCMessage *message =
        unpack(REQUEST, "f201120a0708001001188008a80181808080808014");
    const TpuDriver__StreamRequest__Entry *entry = first_entry(message);
    assert_int_equal(entry->request_case, 1);
    assert_int_equal(entry->alloc->core_id, 0);
    assert_int_equal(entry->alloc->region, 1);
    assert_int_equal(entry->alloc->size_case, 3);
    assert_int_equal(entry->alloc->num_bytes, 1024);
    assert_int_equal(entry->operation_id, ID(1));
    pod_wire_free(message);
    message = unpack(REQUEST, "f2011f0a1408011001220e100b1a0202032a060a02010020"
                              "01a80182808080808014");
    entry = first_entry(message);
    // F32[2,3]{1,0}, format DENSE: the bytes of xla.ShapeProto as they are.
    static const unsigned char shape[] = {0x10, 0x0b, 0x1a, 0x02, 0x02,
                                          0x03, 0x2a, 0x06, 0x0a, 0x02,
                                          0x01, 0x00, 0x20, 0x01};
    assert_int_equal(entry->alloc->core_id, 1);
    assert_int_equal(entry->alloc->size_case, 4);
    assert_int_equal(entry->alloc->shape.len, sizeof(shape));
    assert_memory_equal(entry->alloc->shape.data, shape, sizeof(shape));
    pod_wire_free(message);
}

static void test_transfers(void **state)
{
    (void)state;
    ProtobufCMessage *message =
        unpack(REQUEST, "f2012d220d08818080808080141203616263a0018180808080"
                        "8014a00182808080808014a80183808080808014b00107");
    const TpuDriver__StreamRequest__Entry *entry = first_entry(message);
    assert_int_equal(entry->transfer_to->target_handle, ID(1));
    assert_int_equal(entry->transfer_to->data.len, 3);
    assert_memory_equal(entry->transfer_to->data.data, "abc", 3);
    assert_int_equal(entry->n_wait_for_id, 2);
    assert_int_equal(entry->wait_for_id[0], ID(1));
    assert_int_equal(entry->wait_for_id[1], ID(2));
    assert_int_equal(entry->operation_id, ID(3));
    assert_int_equal(entry->thread_id, 7);
    pod_wire_free(message);
    message = unpack(REQUEST, "f201132a080881808080808014a80184808080808014");
    assert_int_equal(first_entry(message)->transfer_from->source_handle, ID(1));
    pod_wire_free(message);
    message =
        unpack(REQUEST,
               "f2011b521008818080808080141082808080808014a80185808080808014");
    entry = first_entry(message);
    assert_int_equal(entry->transfer_from_to->source_handle, ID(1));
    assert_int_equal(entry->transfer_from_to->target_handle, ID(2));
    pod_wire_free(message);
}

static void test_programs(void **state)
{
    (void)state;
    ProtobufCMessage *message =
        unpack(REQUEST, "f201153a0a08001086808080808014a80187808080808014");
    const TpuDriver__StreamRequest__Entry *entry = first_entry(message);
    assert_int_equal(entry->load->core_id, 0);
    assert_int_equal(entry->load->compiled_program_handle, ID(6));
    pod_wire_free(message);
    message = unpack(REQUEST, "f2012e4a230887808080808014108180808080801418828"
                              "080808080142209080110011a030a0100a8018880808080"
                              "8014");
    entry = first_entry(message);
    static const unsigned char assignment[] = {0x08, 0x01, 0x10, 0x01, 0x1a,
                                               0x03, 0x0a, 0x01, 0x00};
    assert_int_equal(entry->execute->loaded_program_handle, ID(7));
    assert_int_equal(entry->execute->n_input_handle, 1);
    assert_int_equal(entry->execute->input_handle[0], ID(1));
    assert_int_equal(entry->execute->n_output_handle, 1);
    assert_int_equal(entry->execute->output_handle[0], ID(2));
    assert_int_equal(entry->execute->device_assignment.len, sizeof(assignment));
    assert_memory_equal(entry->execute->device_assignment.data, assignment,
                        sizeof(assignment));
    pod_wire_free(message);
}

static void test_answers(void **state)
{
    (void)state;
    ProtobufCMessage *message =
        unpack(RESPONSE, "a2010c520208005881808080808014");
    const TpuDriver__StreamResponse *response =
        (TpuDriver__StreamResponse *)message;
    assert_int_equal(response->entry[0]->status->code, 0);
    assert_int_equal(response->entry[0]->operation_id, ID(1));
    pod_wire_free(message);
    message = unpack(RESPONSE, "a201131a051203616263520208005884808080808014");
    response = (TpuDriver__StreamResponse *)message;
    assert_int_equal(response->entry[0]->transfer_from->data.len, 3);
    pod_wire_free(message);
    message = unpack(RESPONSE, "a2010f520508031201785888808080808014");
    response = (TpuDriver__StreamResponse *)message;
    assert_int_equal(response->entry[0]->status->code, 3);
    assert_string_equal(response->entry[0]->status->message, "x");
    pod_wire_free(message);
}

static void test_system_info(void **state)
{
    (void)state;
    ProtobufCMessage *message = unpack(
        &tpu_driver__query_system_info_response__descriptor,
        "0a370a1a0a0e080010001800a006e807a806840710001a06080010001800120d08601"
        "50000003fa00664a806321a0208002000280130013801");
    const TpuDriver__SystemInfo *info =
        ((TpuDriver__QuerySystemInfoResponse *)message)->system_info;
    assert_int_equal(info->n_tpu_chip, 1);
    assert_int_equal(info->tpu_chip[0]->core[0]->hbm_bytes_available, 1000);
    assert_int_equal(info->tpu_chip[0]->core[0]->hbm_bytes_allocatable, 900);
    assert_int_equal(info->cpu->num_cpu_cores, 96);
    assert_true(info->cpu->cpu_load_average_1min == 0.5F);
    assert_int_equal(info->cpu->ram_bytes_total, 100);
    assert_int_equal(info->core_count, 1);
    pod_wire_free(message);
}

// Repeated numbers may come packed as well.
static void test_packed_waits(void **state)
{
    (void)state;
    // wait_for_id [1, 2] packed: a2 01 02 01 02; operation_id 3.
    static const unsigned char bytes[] = {0xa2, 0x01, 0x02, 0x01,
                                          0x02, 0xa8, 0x01, 0x03};
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    assert_int_equal(
        pod_wire_unpack(&tpu_driver__stream_request__entry__descriptor, bytes,
                        sizeof(bytes), 0, &message, &err),
        POD_OK);
    const TpuDriver__StreamRequest__Entry *entry =
        (TpuDriver__StreamRequest__Entry *)message;
    assert_int_equal(entry->n_wait_for_id, 2);
    assert_int_equal(entry->wait_for_id[1], 2);
    pod_wire_free(message);
}

// A field nobody knows, in a program and beside it, comes out as it went in.
static void test_unknown_fields_pass_through(void **state)
{
    (void)state;
    ProtobufCMessage *message =
        unpack(REQUEST, "f2011c320d0a08fa3e05aabbccddeeb83e05"
                        "a80183808080808014ba3e0178");
    const TpuDriver__StreamRequest__Entry *entry = first_entry(message);
    assert_int_equal(entry->compile->hlo_program.len, 8);
    assert_int_equal(entry->compile->hlo_program.data[7], 0xee);
    pod_wire_free(message);
}

// --------------------------------------------------------------------- bounds

static void expect_refusal(const unsigned char *bytes, size_t size,
                           size_t budget)
{
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    long live = pod_mem_live();
    assert_int_equal(
        pod_wire_unpack(REQUEST, bytes, size, budget, &message, &err),
        POD_INVALID_ARGUMENT);
    assert_null(message);
    assert_int_equal(pod_mem_live(), live);
}

static void test_malformed(void **state)
{
    (void)state;
    static const unsigned char cut[] = {0xf2, 0x01, 0x05, 0xa8, 0x01};
    static const unsigned char no_id[] = {0xf2, 0x01, 0x00};
    expect_refusal(cut, sizeof(cut), 0);
    expect_refusal(no_id, sizeof(no_id), 0);
}

// Thousands of tiny entries take much memory: more than the budget is refused,
// and all that was taken is given back.
static void test_budget(void **state)
{
    (void)state;
    enum { COUNT = 10000, BYTES = 6 };
    static const unsigned char entry[BYTES] = {0xf2, 0x01, 0x03,
                                               0xa8, 0x01, 0x01};
    unsigned char *bytes = malloc((size_t)COUNT * BYTES);
    assert_non_null(bytes);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(bytes + i * BYTES, entry, BYTES);
    expect_refusal(bytes, (size_t)COUNT * BYTES, 0);
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    long live = pod_mem_live();
    assert_int_equal(pod_wire_unpack(REQUEST, bytes, (size_t)COUNT * BYTES,
                                     16 << 20, &message, &err),
                     POD_OK);
    pod_wire_free(message);
    assert_int_equal(pod_mem_live(), live);
    free(bytes);
}

// Without memory no message is malformed, however far it was unpacked.
static void test_no_memory(void **state)
{
    enum { COUNT = 100, BYTES = 6 };
    static const unsigned char entry[BYTES] = {0xf2, 0x01, 0x03,
                                               0xa8, 0x01, 0x01};
    unsigned char bytes[COUNT * BYTES];
    long live = pod_mem_live();
    int failed = 0;

    (void)state;
    for (size_t i = 0; i < COUNT; i++)
        memcpy(bytes + i * BYTES, entry, BYTES);
    for (enum pod_code code = POD_UNKNOWN; code != POD_OK; failed++) {
        struct pod_err err = POD_ERR_NONE;
        ProtobufCMessage *message = NULL;
        pod_mem_fail_after(failed, 1);
        code =
            pod_wire_unpack(REQUEST, bytes, sizeof(bytes), 0, &message, &err);
        pod_mem_fail_after(-1, 0);
        if (code != POD_OK)
            assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
        pod_wire_free(message);
        assert_int_equal(pod_mem_live(), live);
    }
    assert_true(failed > 2);
}

static void test_walk(void **state)
{
    (void)state;
    // 1: varint 300; 2: bytes "ab"; 3: 32 bits; 4: 64 bits.
    static const unsigned char bytes[] = {
        0x08, 0xac, 0x02, 0x12, 0x02, 'a', 'b', 0x1d, 1, 0,   0,
        0,    0x21, 2,    0,    0,    0,   0,   0,    0, 0x80};
    struct pod_wire_field field;
    size_t at = 0;
    assert_true(pod_wire_next(bytes, sizeof(bytes), &at, &field));
    assert_int_equal(field.number, 1);
    assert_int_equal(field.value, 300);
    assert_true(pod_wire_next(bytes, sizeof(bytes), &at, &field));
    assert_int_equal(field.size, 2);
    assert_memory_equal(field.data, "ab", 2);
    assert_true(pod_wire_next(bytes, sizeof(bytes), &at, &field));
    assert_int_equal(field.value, 1);
    assert_true(pod_wire_next(bytes, sizeof(bytes), &at, &field));
    assert_true(field.value == (UINT64_C(1) << 63 | 2));
    assert_false(pod_wire_next(bytes, sizeof(bytes), &at, &field));
    assert_int_equal(at, sizeof(bytes));
    // Each shorter message but those that end between fields is at fault.
    static const size_t whole[] = {0, 3, 7, 12};
    for (size_t size = 0; size < sizeof(bytes); size++) {
        bool ends = false;
        for (size_t i = 0; i < 4; i++)
            ends = ends || whole[i] == size;
        at = 0;
        while (pod_wire_next(bytes, size, &at, &field))
            ;
        assert_int_equal(at == size, ends);
    }
}

static void test_walk_refuses(void **state)
{
    (void)state;
    static const unsigned char faults[][12] = {
        {0x00, 0x01},             // field 0
        {0x0b, 0x00},             // groups
        {0x0a, 0xff, 0xff, 0xff}, // a length that never ends
        {0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01},
    };
    struct pod_wire_field field;
    for (size_t i = 0; i < 4; i++) {
        size_t at = 0;
        assert_false(pod_wire_next(faults[i], sizeof(faults[i]), &at, &field));
        assert_int_equal(at, 0);
    }
}

// ------------------------------------------------------------ leaving a field

enum { BULK_BYTES = 100000, BULK_ENTRY_BYTES = BULK_BYTES + 8192 };

// Entry.write, Write.data
static const struct wire_lean_path bulk_path = {.numbers = {13, 3}, .depth = 2};

// An entry 7 that writes so many bytes of 'b', with so many waits, packed.
static size_t bulk_entry(size_t bytes, size_t waits, unsigned char *out)
{
    Pod__Worker__V1__Entry entry = POD__WORKER__V1__ENTRY__INIT;
    Pod__Worker__V1__Write write = POD__WORKER__V1__WRITE__INIT;
    uint64_t *numbers = calloc(waits + 1, sizeof(*numbers));
    assert_non_null(numbers);
    for (size_t i = 0; i < waits; i++)
        numbers[i] = 1000000 + i;
    entry.op = 7;
    entry.waits = numbers;
    entry.n_waits = waits;
    entry.priority = -3;
    entry.what_case = POD__WORKER__V1__ENTRY__WHAT_WRITE;
    entry.write = &write;
    write.buffer = 5;
    write.offset = 300;
    write.data.data = malloc(bytes);
    write.data.len = bytes;
    assert_non_null(write.data.data);
    memset(write.data.data, 'b', bytes);
    assert_true(pod__worker__v1__entry__get_packed_size(&entry) <=
                BULK_ENTRY_BYTES);
    size_t size = pod__worker__v1__entry__pack(&entry, out);
    free(write.data.data);
    free(numbers);
    return size;
}

// Unpacks it, and says how much was left where it lies; 0: nothing.
static size_t bulk_unpack(const unsigned char *data, size_t size,
                          Pod__Worker__V1__Entry **out_entry)
{
    struct pod_err err = POD_ERR_NONE;
    struct pod_wire_bulk bulk = {.data = data, .size = 1};
    ProtobufCMessage *message = NULL;
    assert_int_equal(pod_wire_unpack_but(&pod__worker__v1__entry__descriptor,
                                         &bulk_path, data, size, &message,
                                         &bulk, &err),
                     POD_OK);
    *out_entry = (Pod__Worker__V1__Entry *)message;
    if (bulk.data == NULL)
        return 0;
    assert_true(bulk.data >= data && bulk.data + bulk.size <= data + size);
    assert_int_equal(bulk.data[-1] != 'b', true);
    assert_int_equal(bulk.data[0], 'b');
    assert_int_equal(bulk.data[bulk.size - 1], 'b');
    return bulk.size;
}

static void bulk_check(size_t bytes, size_t waits, size_t left)
{
    unsigned char *data = malloc(BULK_ENTRY_BYTES);
    Pod__Worker__V1__Entry *entry = NULL;
    assert_non_null(data);
    size_t size = bulk_entry(bytes, waits, data);
    assert_int_equal(bulk_unpack(data, size, &entry), left);
    assert_int_equal(entry->op, 7);
    assert_int_equal(entry->priority, -3);
    assert_int_equal(entry->n_waits, waits);
    assert_int_equal(entry->waits[waits - 1], 1000000 + waits - 1);
    assert_int_equal(entry->what_case, POD__WORKER__V1__ENTRY__WHAT_WRITE);
    assert_int_equal(entry->write->buffer, 5);
    assert_int_equal(entry->write->offset, 300);
    assert_int_equal(entry->write->data.len, bytes - left);
    pod_wire_free(&entry->base);
    free(data);
}

static void test_much_is_left(void **state)
{
    (void)state;
    bulk_check(BULK_BYTES, 2, BULK_BYTES);
    bulk_check(64 << 10, 1, 64 << 10);
    bulk_check((64 << 10) - 1, 1, 0); // not much
    bulk_check(BULK_BYTES, 1400, 0);  // too much beside it
}

static void test_what_is_there_twice_is_not_left(void **state)
{
    (void)state;
    unsigned char *data = malloc(2 * BULK_ENTRY_BYTES);
    Pod__Worker__V1__Entry *entry = NULL;
    assert_non_null(data);
    size_t size = bulk_entry(BULK_BYTES, 1, data);
    size += bulk_entry(BULK_BYTES - 1, 1, data + size);
    assert_int_equal(bulk_unpack(data, size, &entry), 0);
    assert_int_equal(entry->n_waits, 2);
    assert_int_equal(entry->write->data.len, BULK_BYTES - 1);
    pod_wire_free(&entry->base);
    free(data);
}

static void test_what_is_cut_is_refused(void **state)
{
    (void)state;
    unsigned char *data = malloc(BULK_ENTRY_BYTES);
    struct pod_wire_bulk bulk;
    ProtobufCMessage *message = NULL;
    struct pod_err err = POD_ERR_NONE;
    assert_non_null(data);
    size_t size = bulk_entry(BULK_BYTES, 1, data);
    const size_t cuts[] = {1, 2, BULK_BYTES / 2, BULK_BYTES + 1};
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++) {
        assert_int_equal(
            pod_wire_unpack_but(&pod__worker__v1__entry__descriptor, &bulk_path,
                                data, size - cuts[i], &message, &bulk, &err),
            POD_INVALID_ARGUMENT);
        assert_null(bulk.data);
    }
    free(data);
}

static void test_blob_owns_message(void **state)
{
    (void)state;
    unsigned char bytes[MAX_VECTOR];
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    long live = pod_mem_live();
    size_t size = from_hex("1203616263", bytes);
    assert_int_equal(
        pod_wire_unpack(&tpu_driver__transfer_from_device_response__descriptor,
                        bytes, size, 0, &message, &err),
        POD_OK);
    struct pod_blob *blob = pod_wire_blob(
        message, ((TpuDriver__TransferFromDeviceResponse *)message)->data);
    assert_non_null(blob);
    assert_int_equal(blob->size, 3);
    assert_memory_equal(blob->data, "abc", 3);
    pod_blob_unref(blob);
    assert_int_equal(pod_mem_live(), live);
}

// What is built around a tail is what protobuf packs of the whole.
static void test_pack_levels(void **state)
{
    (void)state;
    struct pod_blob *blob = pod_blob_new(300);
    assert_non_null(blob);
    memset(blob->data, 'z', 300);
    TpuDriver__StreamResponse__Entry entry =
        TPU_DRIVER__STREAM_RESPONSE__ENTRY__INIT;
    TpuDriver__StatusMessage status = TPU_DRIVER__STATUS_MESSAGE__INIT;
    entry.status = &status;
    entry.operation_id = ID(4);
    const struct pod_wire_level levels[] = {{20, &entry.base}, {3, NULL}};
    struct pod_wire_out *out =
        pod_wire_pack_levels(levels, 2, 2, blob, 50, 200);
    assert_non_null(out);
    size_t size = out->size + out->tail_size;
    unsigned char *whole = malloc(size);
    assert_non_null(whole);
    memcpy(whole, out->head, out->size);
    memcpy(whole + out->size, out->tail->data + out->tail_offset,
           out->tail_size);
    struct pod_err err = POD_ERR_NONE;
    ProtobufCMessage *message = NULL;
    assert_int_equal(pod_wire_unpack(RESPONSE, whole, size, 0, &message, &err),
                     POD_OK);
    const TpuDriver__StreamResponse__Entry *got =
        ((TpuDriver__StreamResponse *)message)->entry[0];
    assert_int_equal(got->operation_id, ID(4));
    assert_int_equal(got->transfer_from->data.len, 200);
    assert_int_equal(got->transfer_from->data.data[199], 'z');
    pod_wire_free(message);
    free(whole);
    pod_wire_out_free(out);
    pod_blob_unref(blob);
}

static void test_clean_text(void **state)
{
    (void)state;
    char good[] = "caf\xc3\xa9";
    char bad[] = "caf\xe9 \xff";
    pod_wire_clean_text(good);
    pod_wire_clean_text(bad);
    assert_string_equal(good, "caf\xc3\xa9");
    assert_string_equal(bad, "caf? ?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_open_and_close),
        cmocka_unit_test(test_alloc),
        cmocka_unit_test(test_transfers),
        cmocka_unit_test(test_programs),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_system_info),
        cmocka_unit_test(test_packed_waits),
        cmocka_unit_test(test_unknown_fields_pass_through),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_budget),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_walk),
        cmocka_unit_test(test_walk_refuses),
        cmocka_unit_test(test_much_is_left),
        cmocka_unit_test(test_what_is_there_twice_is_not_left),
        cmocka_unit_test(test_what_is_cut_is_refused),
        cmocka_unit_test(test_blob_owns_message),
        cmocka_unit_test(test_pack_levels),
        cmocka_unit_test(test_clean_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
