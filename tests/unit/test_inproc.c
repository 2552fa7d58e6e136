// SPDX-License-Identifier: Apache-2.0
// The in-process driver around a fake device (fake_device.h).
#include "tests/unit/fake_host.h"

static void test_ready_tells_cores_and_chips(void **state)
{
    struct host host;

    (void)state;
    host_open(&host, 3, NULL, 1);
    assert_int_equal(host.watch.info.core_count, 3);
    assert_int_equal(host.watch.info.cores[1].worker_core, 1);
    assert_int_equal(host.watch.info.cores[1].chip, 1);
    assert_int_equal(host.watch.info.cores[2].chip, 0);
    assert_int_equal(host.watch.info.cores[0].memory_bytes, HOST_BYTES);
    assert_int_equal(host.watch.info.chip_count, 2);
    assert_int_equal(host.watch.info.chips[1].x, 1);
    assert_int_equal(host.watch.info.host_id, 1);
    assert_int_equal(host.watch.info.host_count, 2);
    assert_string_equal(host.watch.info.platform, "fake");
    calls_await(&host.watch, &host.watch.beats, 2);
    host_close(&host);
}

static void test_close_without_open(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    host_make(&host, 1, NULL, 0);
    struct pod_driver_call call = calls_make(&host.watch, &record, 1);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 8);
    host_close(&host);
    assert_int_equal(record.done, 1);
    assert_int_equal(record.err.code, POD_CANCELLED);
}

static void test_bad_options(void **state)
{
    struct fake_device *fake = fake_new(1, 1);
    uint32_t core_chip = 1;
    struct pod_driver_chip chip = {.x = 0};
    struct pod_inproc_options options = {
        .device = &fake->base,
        .chips = &chip,
        .chip_count = 1,
        .core_chips = &core_chip,
    };
    struct pod_driver *driver;
    struct pod_err err;

    (void)state;
    assert_int_equal(pod_inproc_new(&options, &driver, &err),
                     POD_INVALID_ARGUMENT);
    fake->cores = 0;
    assert_int_equal(pod_inproc_new(&options, &driver, &err),
                     POD_INVALID_ARGUMENT);
    fake->cores = POD_INPROC_MAX_CORES + 1;
    assert_int_equal(pod_inproc_new(&options, &driver, &err),
                     POD_INVALID_ARGUMENT);
    fake_free(&fake->base);
}

static void test_write_read_copy(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    host_open(&host, 2, NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 2, 1, 4);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 3, 1), 0);
    calls_write_s32(&host.watch, host.driver, 4, 1, 77);
    struct pod_driver_call call = calls_make(&host.watch, &record, 5);
    host.driver->ops->copy(host.driver, &call, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.started, 1);
    assert_int_equal(record.started_late, 0);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 6, 2), 77);
    call = calls_make(&host.watch, &record, 7);
    host.driver->ops->copy(host.driver, &call, 2, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&host.watch, &record, 8);
    host.driver->ops->read(host.driver, &call, 2, 2, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, 2);
    // The device does not lend: it is a read.
    assert_true((host.watch.info.features & POD_DRIVER_LENDS) == 0);
    call = calls_make(&host.watch, &record, 11);
    host.driver->ops->lend(host.driver, &call, 2, 0, 4);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, 4);
    assert_int_equal(record.data[0], 77);
    call = calls_make(&host.watch, &record, 9);
    host.driver->ops->deallocate(host.driver, &call, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&host.watch, &record, 10);
    host.driver->ops->read(host.driver, &call, 2, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    host_close(&host);
}

// More than one turn, and not a multiple of one.
static void test_transfer_in_turns(void **state)
{
    enum { BYTES = 3 * POD_INPROC_CHUNK_BYTES + 5 };
    struct host host;
    struct calls_record record;
    struct pod_blob *blob = pod_blob_new(BYTES + 7);

    (void)state;
    host_open(&host, 1, NULL, 0);
    host.fake->total = 2 * BYTES;
    for (size_t i = 0; i < BYTES + 7; i++)
        blob->data[i] = (unsigned char)(i % 251);
    calls_allocate(&host.watch, host.driver, 1, 0, BYTES);
    struct pod_driver_call call = calls_make(&host.watch, &record, 2);
    host.driver->ops->write(host.driver, &call, 1, 0, blob, 7, BYTES);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.started, 1);
    // The byte at i of the buffer is the one at i + 7 of the blob.
    for (size_t at = BYTES - 20; at > 20; at -= POD_INPROC_CHUNK_BYTES) {
        call = calls_make(&host.watch, &record, 3 + at);
        host.driver->ops->read(host.driver, &call, 1, at, 16);
        assert_int_equal(calls_end(&record), POD_OK);
        for (size_t i = 0; i < 16; i++)
            assert_int_equal(record.data[i], (at + i + 7) % 251);
        if (at < POD_INPROC_CHUNK_BYTES)
            break;
    }
    call = calls_make(&host.watch, &record, 2000);
    host.driver->ops->read(host.driver, &call, 1, 0, BYTES);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, BYTES);
    host_close(&host);
}

static void expect(struct host *host, struct calls_record *record,
                   enum pod_reason reason, const char *text)
{
    (void)host;
    (void)calls_end(record);
    assert_string_equal(pod_reason_name(record->err.reason),
                        pod_reason_name(reason));
    if (strstr(record->err.text, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, record->err.text);
}

static void test_refusals(void **state)
{
    struct host host;
    struct calls_record record;
    const struct pod_driver_ops *ops;
    struct pod_blob *blob = calls_blob("12345678", 8);
    uint64_t child = 1;

    (void)state;
    host_open(&host, 2, NULL, 0);
    ops = host.driver->ops;
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 2, 0, 8);
    struct pod_driver_call call = calls_make(&host.watch, &record, 10);
    ops->allocate(host.driver, &call, 2, NULL, 4);
    expect(&host, &record, POD_REASON_UNKNOWN_CORE, "core 2");
    call = calls_make(&host.watch, &record, 11);
    ops->read(host.driver, &call, 1, 2, 3);
    expect(&host, &record, POD_REASON_OUT_OF_RANGE, "buf-1");
    call = calls_make(&host.watch, &record, 12);
    ops->write(host.driver, &call, 1, UINT64_MAX, blob, 0, 2);
    expect(&host, &record, POD_REASON_OUT_OF_RANGE, "buf-1");
    call = calls_make(&host.watch, &record, 13);
    ops->write(host.driver, &call, 1, 0, blob, 6, 3);
    expect(&host, &record, POD_REASON_BAD_LENGTH, "3 bytes at 6 of 8");
    call = calls_make(&host.watch, &record, 14);
    ops->copy(host.driver, &call, 1, 2);
    expect(&host, &record, POD_REASON_SHAPE_MISMATCH, "buf-2");
    call = calls_make(&host.watch, &record, 15);
    ops->deallocate(host.driver, &call, 99);
    expect(&host, &record, POD_REASON_UNKNOWN_HANDLE, "buf-99");
    call = calls_make(&host.watch, &record, 16);
    ops->load(host.driver, &call, 0, 1);
    expect(&host, &record, POD_REASON_UNKNOWN_HANDLE, "buf-1 is not a program");
    call = calls_make(&host.watch, &record, 17);
    ops->unload(host.driver, &call, 98);
    expect(&host, &record, POD_REASON_UNKNOWN_HANDLE, "load-98");
    call = calls_make(&host.watch, &record, 18);
    ops->allocate_tuple(host.driver, &call, 1, &child, 1);
    expect(&host, &record, POD_REASON_CORE_MISMATCH, "buf-1");
    call = calls_make(&host.watch, &record, 19);
    ops->allocate(host.driver, &call, 0, NULL, UINT64_MAX);
    expect(&host, &record, POD_REASON_RESOURCE_EXHAUSTED, "the core has");
    call = calls_make(&host.watch, &record, 20);
    ops->compile(host.driver, &call, POD_FORMAT_MLIR_TEXT, blob, 1);
    expect(&host, &record, POD_REASON_INVALID_PROGRAM, "not a word");
    call = calls_make(&host.watch, &record, 21);
    calls_execute(host.driver, &call, 97, 1, 2);
    expect(&host, &record, POD_REASON_UNKNOWN_HANDLE, "load-97");
    call = calls_make(&host.watch, &record, 1);
    ops->allocate(host.driver, &call, 0, NULL, 4);
    expect(&host, &record, POD_REASON_INTERNAL, "op-1 already made");
    pod_blob_unref(blob);
    host_close(&host);
}

// 1 MiB: 700 KiB and two smaller ones are held, and one that is the smallest.
static void test_no_room_names_the_largest(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    host_open(&host, 2, NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 1024);
    calls_allocate(&host.watch, host.driver, 2, 0, 700 * 1024);
    calls_allocate(&host.watch, host.driver, 3, 0, 100 * 1024);
    calls_allocate(&host.watch, host.driver, 4, 0, 100 * 1024);
    calls_allocate(&host.watch, host.driver, 5, 1, 1024 * 1024);
    struct pod_driver_call call = calls_make(&host.watch, &record, 6);
    host.driver->ops->allocate(host.driver, &call, 0, NULL, 1024 * 1024 + 512);
    assert_int_equal(calls_end(&record), POD_RESOURCE_EXHAUSTED);
    assert_string_equal(
        record.err.text,
        "the core has no room for 1.0 MiB: 123 KiB of 1 MiB are "
        "free; largest: buf-2 (700 KiB), buf-3 (100 KiB), "
        "buf-4 (100 KiB)");
    host_close(&host);
}

static void test_tuples(void **state)
{
    struct host host;
    struct calls_record record;
    uint64_t children[] = {1, 1, 2};
    uint64_t nested[] = {3, 3};

    (void)state;
    host_open(&host, 1, NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 2, 0, 4);
    struct pod_driver_call call = calls_make(&host.watch, &record, 3);
    host.driver->ops->allocate_tuple(host.driver, &call, 0, children, 3);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&host.watch, &record, 4);
    host.driver->ops->allocate_tuple(host.driver, &call, 0, nested, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&host.watch, &record, 5);
    host.driver->ops->read(host.driver, &call, 3, 0, 4);
    expect(&host, &record, POD_REASON_IS_A_TUPLE, "buf-3");
    call = calls_make(&host.watch, &record, 6);
    host.driver->ops->copy(host.driver, &call, 1, 3);
    expect(&host, &record, POD_REASON_IS_A_TUPLE, "buf-3");
    // Children first: the tuples keep them (the fake device checks).
    for (uint64_t op = 1; op <= 4; op++) {
        call = calls_make(&host.watch, &record, 10 + op);
        host.driver->ops->deallocate(host.driver, &call, op);
        assert_int_equal(calls_end(&record), POD_OK);
    }
    assert_int_equal(host.fake->buffers, 0);
    host_close(&host);
}

// Each tuple has the one before it twice: nodes double at each step.
static void test_tuple_limits(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    host_open(&host, 1, NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    enum pod_code code = POD_OK;
    uint64_t op = 1;
    while (code == POD_OK && op < 40) {
        uint64_t twice[] = {op, op};
        struct pod_driver_call call = calls_make(&host.watch, &record, ++op);
        host.driver->ops->allocate_tuple(host.driver, &call, 0, twice, 2);
        code = calls_end(&record);
    }
    // 2^n - 1 nodes at the n-th: the 16th has 65535, the 17th too many.
    assert_int_equal(op, 17);
    assert_string_equal(pod_reason_name(record.err.reason), "BAD_SHAPE");
    op = 100;
    uint64_t once = 1;
    code = POD_OK;
    while (code == POD_OK && op < 200) {
        struct pod_driver_call call = calls_make(&host.watch, &record, op);
        host.driver->ops->allocate_tuple(host.driver, &call, 0, &once, 1);
        code = calls_end(&record);
        once = op++;
    }
    assert_int_equal(op, 100 + POD_SHAPE_MAX_DEPTH + 1);
    host_close(&host);
}

static void test_execute(void **state)
{
    struct host host;
    struct calls_record record;

    (void)state;
    host_open(&host, 2, NULL, 0);
    calls_allocate(&host.watch, host.driver, 1, 1, 4);
    calls_allocate(&host.watch, host.driver, 2, 1, 4);
    calls_allocate(&host.watch, host.driver, 3, 1, 8);
    calls_write_s32(&host.watch, host.driver, 4, 1, 41);
    calls_program(&host.watch, host.driver, 5, 1, "increment");
    struct pod_driver_call call = calls_make(&host.watch, &record, 7);
    calls_execute(host.driver, &call, 6, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.started, 1);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 8, 2), 42);
    call = calls_make(&host.watch, &record, 9);
    calls_execute(host.driver, &call, 6, 2, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 10, 2), 43);
    call = calls_make(&host.watch, &record, 11);
    calls_execute(host.driver, &call, 6, 3, 2);
    expect(&host, &record, POD_REASON_SHAPE_MISMATCH, "");
    assert_string_equal(record.err.pointer, "/inputs/0");
    // The program may go while its load is there, and the load while it runs.
    call = calls_make(&host.watch, &record, 12);
    host.driver->ops->free_program(host.driver, &call, 5);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&host.watch, &record, 13);
    calls_execute(host.driver, &call, 6, 2, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&host.watch, &record, 14);
    host.driver->ops->unload(host.driver, &call, 6);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(host.fake->programs, 0);
    host_close(&host);
}

static void test_priorities_order_a_core(void **state)
{
    struct host host;
    struct calls_record gate, records[4];
    static const int priorities[] = {0, 5, -3, 5};

    (void)state;
    host_with_gate(&host);
    struct pod_driver_call call = calls_make(&host.watch, &gate, 20);
    calls_execute(host.driver, &call, 11, 6, 6);
    fake_await_waiting(host.fake, 1);
    for (uint64_t i = 0; i < 4; i++) {
        call = calls_make(&host.watch, &records[i], 21 + i);
        call.priority = priorities[i];
        calls_execute(host.driver, &call, 13, i + 1, i + 1);
    }
    fake_gate(host.fake, true);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(calls_end(&records[i]), POD_OK);
    static const int32_t order[] = {6, 2, 4, 1, 3};
    assert_memory_equal(host.fake->order, order, sizeof order);
    host_close(&host);
}

static void test_buffers_in_use(void **state)
{
    struct host host;
    struct calls_record gate, record;
    struct pod_blob *blob = calls_blob("1234", 4);

    (void)state;
    host_with_gate(&host);
    struct pod_driver_call call = calls_make(&host.watch, &gate, 20);
    calls_execute(host.driver, &call, 11, 1, 2);
    fake_await_waiting(host.fake, 1);
    call = calls_make(&host.watch, &record, 21);
    host.driver->ops->write(host.driver, &call, 1, 0, blob, 0, 4);
    expect(&host, &record, POD_REASON_IN_USE, "buf-1 is being read");
    call = calls_make(&host.watch, &record, 22);
    host.driver->ops->read(host.driver, &call, 2, 0, 4);
    expect(&host, &record, POD_REASON_IN_USE, "buf-2 is being written");
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 23, 1), 1);
    // A free during use takes the handle at once and the memory at the end.
    for (uint64_t i = 1; i <= 2; i++) {
        call = calls_make(&host.watch, &record, 30 + i);
        host.driver->ops->deallocate(host.driver, &call, i);
        assert_int_equal(calls_end(&record), POD_OK);
    }
    assert_int_equal(host.fake->buffers, 6);
    fake_gate(host.fake, true);
    assert_int_equal(calls_end(&gate), POD_OK);
    assert_int_equal(host.fake->buffers, 4);
    pod_blob_unref(blob);
    host_close(&host);
}

// A number that is open cannot be used again.
static void test_number_used_twice(void **state)
{
    struct host host;
    struct calls_record gate, twice;

    (void)state;
    host_with_gate(&host);
    struct pod_driver_call call = calls_make(&host.watch, &gate, 20);
    calls_execute(host.driver, &call, 11, 1, 2);
    fake_await_waiting(host.fake, 1);
    call = calls_make(&host.watch, &twice, 20);
    calls_execute(host.driver, &call, 13, 3, 4);
    expect(&host, &twice, POD_REASON_INTERNAL, "the operation is already open");
    fake_gate(host.fake, true);
    assert_int_equal(calls_end(&gate), POD_OK);
    host_close(&host);
}

// A call that was to wait for the next one goes with it, whatever that is.
static void test_more_calls_follow(void **state)
{
    struct host host;
    struct calls_record first, next;

    (void)state;
    host_open(&host, 1, NULL, 0);
    const struct pod_driver_ops *ops = host.driver->ops;
    calls_allocate(&host.watch, host.driver, 1, 0, 4);
    calls_allocate(&host.watch, host.driver, 2, 0, 4);
    for (uint64_t i = 0; i < 4; i++) {
        struct pod_driver_call call =
            calls_make(&host.watch, &first, 10 + 2 * i);
        call.more = true;
        ops->copy(host.driver, &call, 1, 2);
        call = calls_make(&host.watch, &next, 11 + 2 * i);
        if (i == 0)
            ops->copy(host.driver, &call, 2, 1); // of the same thread
        else if (i == 1)
            ops->allocate(host.driver, &call, 0, NULL, 4);
        else if (i == 2)
            calls_execute(host.driver, &call, 99, 1, 2); // there is none
        else
            ops->reset(host.driver, &call);
        assert_int_equal(calls_end(&next), i == 2 ? POD_NOT_FOUND : POD_OK);
        enum pod_code code = calls_end(&first);
        // A reset ends what has not begun.
        assert_true(code == POD_OK || (i == 3 && code == POD_CANCELLED));
    }
    host_close(&host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready_tells_cores_and_chips),
        cmocka_unit_test(test_close_without_open),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_write_read_copy),
        cmocka_unit_test(test_transfer_in_turns),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_room_names_the_largest),
        cmocka_unit_test(test_tuples),
        cmocka_unit_test(test_tuple_limits),
        cmocka_unit_test(test_execute),
        cmocka_unit_test(test_priorities_order_a_core),
        cmocka_unit_test(test_buffers_in_use),
        cmocka_unit_test(test_number_used_twice),
        cmocka_unit_test(test_more_calls_follow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
