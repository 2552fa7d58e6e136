// SPDX-License-Identifier: Apache-2.0
// Blobs whose bytes lie in pieces, and a driver that writes them.
#include "tests/unit/fake_host.h"

#include <stdlib.h>

enum { PIECES = 7, BYTES = 3 * POD_INPROC_CHUNK_BYTES / 2 };

// Byte i is i % 251. The pieces are of different sizes, the first of 1.
struct pieces {
    struct pod_blob_piece list[PIECES];
    unsigned char *bytes;
    bool freed;
};

static void pieces_free(void *arg, size_t size)
{
    struct pieces *pieces = arg;

    assert_int_equal(size, BYTES);
    pieces->freed = true;
}

static struct pod_blob *pieces_blob(struct pieces *pieces)
{
    struct pod_blob *blob = pod_blob_new(0);
    size_t at = 0;

    pieces->freed = false;
    pieces->bytes = malloc(BYTES + PIECES);
    for (size_t i = 0; i < PIECES; i++) {
        size_t size = i == 0            ? 1
                      : i == PIECES - 1 ? BYTES - at
                                        : BYTES / PIECES + i;
        // Not side by side in memory.
        unsigned char *data = pieces->bytes + at + i;
        for (size_t k = 0; k < size; k++)
            data[k] = (unsigned char)((at + k) % 251);
        pieces->list[i] =
            (struct pod_blob_piece){.data = data, .begin = at, .size = size};
        at += size;
    }
    blob->data = NULL;
    blob->size = BYTES;
    blob->pieces = pieces->list;
    blob->piece_count = PIECES;
    blob->on_free = pieces_free;
    blob->arg = pieces;
    return blob;
}

static void test_runs(void **state)
{
    struct pieces pieces;
    struct pod_blob *blob = pieces_blob(&pieces);
    const unsigned char *data = NULL;

    (void)state;
    assert_int_equal(pod_blob_run(blob, 0, &data), 1);
    assert_ptr_equal(data, pieces.list[0].data);
    for (size_t i = 1; i < PIECES; i++) {
        const struct pod_blob_piece *piece = &pieces.list[i];
        assert_int_equal(pod_blob_run(blob, piece->begin, &data), piece->size);
        assert_ptr_equal(data, piece->data);
        size_t last = piece->begin + piece->size - 1;
        assert_int_equal(pod_blob_run(blob, last, &data), 1);
        assert_ptr_equal(data, piece->data + piece->size - 1);
    }
    assert_false(pod_blob_claim(blob));
    pod_blob_give_up(blob);
    assert_false(pod_blob_claim(blob)); // nobody can have it as one
    pod_blob_unref(blob);
    assert_true(pieces.freed);
    free(pieces.bytes);
    blob = pod_blob_new(9);
    assert_int_equal(pod_blob_run(blob, 4, &data), 5);
    assert_ptr_equal(data, blob->data + 4);
    pod_blob_unref(blob);
}

// A part of it, in turns that end inside pieces.
static void test_written_by_a_driver(void **state)
{
    enum { FROM = 3, TO = 10, COUNT = BYTES - 5 };
    struct host host;
    struct calls_record record;
    struct pieces pieces;
    struct pod_blob *blob = pieces_blob(&pieces);

    (void)state;
    host_open(&host, 1, NULL, 0);
    host.fake->total = 2 * BYTES;
    calls_allocate(&host.watch, host.driver, 1, 0, BYTES + TO);
    struct pod_driver_call call = calls_make(&host.watch, &record, 2);
    host.driver->ops->write(host.driver, &call, 1, TO, blob, FROM, COUNT);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
    for (size_t at = 0; at + CALLS_DATA_BYTES <= COUNT; at += 4001) {
        call = calls_make(&host.watch, &record, 3 + at);
        host.driver->ops->read(host.driver, &call, 1, TO + at,
                               CALLS_DATA_BYTES);
        assert_int_equal(calls_end(&record), POD_OK);
        for (size_t i = 0; i < CALLS_DATA_BYTES; i++)
            assert_int_equal(record.data[i], (FROM + at + i) % 251);
    }
    assert_int_equal(calls_read_s32(&host.watch, host.driver, 2000000, 1), 0);
    host_close(&host);
    assert_true(pieces.freed);
    free(pieces.bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_written_by_a_driver),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
