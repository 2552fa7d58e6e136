// SPDX-License-Identifier: Apache-2.0
// Any bytes around the bulk of a write: the message without its bulk must be
// what protobuf-c makes of the whole.
//
// The first byte says how long the pieces are in which the message comes; what
// follows is divided over the places where fields may stand, before and behind
// the bulk on each level.
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pod_worker.pb-c.h"
#include "proto/wire_lean.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    FUZZ_LEVELS = 3,
    FUZZ_PLACES = 2 * FUZZ_LEVELS,
    FUZZ_MAX_BYTES = 2 * WIRE_LEAN_BYTES,
    FUZZ_HEAD_BYTES = 8, // of a tag and a length
    FUZZ_MESSAGE_BYTES =
        WIRE_LEAN_BULK_BYTES + FUZZ_MAX_BYTES + FUZZ_LEVELS * FUZZ_HEAD_BYTES,
};

static const struct wire_lean_path fuzz_path = {
    .numbers = {3, 13, 3}, .depth = FUZZ_LEVELS, .repeated = true};

// Written from its end to its begin, since lengths come before what they are
// of.
struct fuzz_message {
    unsigned char bytes[FUZZ_MESSAGE_BYTES];
    size_t begin;
};

static void fuzz_put(struct fuzz_message *message, const uint8_t *data,
                     size_t size)
{
    assert(size <= message->begin);
    message->begin -= size;
    if (size > 0)
        memcpy(message->bytes + message->begin, data, size);
}

static void fuzz_put_head(struct fuzz_message *message, uint32_t number,
                          size_t length)
{
    uint8_t head[FUZZ_HEAD_BYTES] = {(uint8_t)(number << 3 | 2)};
    size_t size = 1;

    for (; length >= 0x80; length >>= 7)
        head[size++] = (uint8_t)(length | 0x80);
    head[size++] = (uint8_t)length;
    fuzz_put(message, head, size);
}

static void fuzz_message_make(struct fuzz_message *message, const uint8_t *data,
                              size_t size)
{
    static const uint8_t bulk[WIRE_LEAN_BULK_BYTES] = {1, 2, 3};
    const size_t share = size / FUZZ_PLACES;
    size_t end = sizeof(message->bytes);

    message->begin = end;
    for (size_t i = 0; i < FUZZ_LEVELS; i++)
        fuzz_put(message, data + i * share, share);
    // The three behind the bulk lie one after the other; each level ends with
    // its own.
    size_t level_end[FUZZ_LEVELS] = {end, end - share, end - 2 * share};
    fuzz_put(message, bulk, sizeof(bulk));
    for (size_t i = FUZZ_LEVELS; i-- > 0;) {
        size_t length = i + 1 == FUZZ_LEVELS
                            ? sizeof(bulk)
                            : level_end[i + 1] - message->begin;
        fuzz_put_head(message, fuzz_path.numbers[i], length);
        fuzz_put(message, data + (FUZZ_LEVELS + i) * share, share);
    }
}

// What protobuf-c packs of it again; NULL: it does not unpack.
static unsigned char *fuzz_again(Pod__Worker__V1__SessionRequest *request,
                                 size_t *out_size)
{
    if (request == NULL)
        return NULL;
    *out_size = pod__worker__v1__session_request__get_packed_size(request);
    unsigned char *again = malloc(*out_size + 1);
    (void)pod__worker__v1__session_request__pack(request, again);
    return again;
}

// The bulk that was left out goes where the whole message has it.
static void fuzz_put_back(Pod__Worker__V1__SessionRequest *left,
                          const Pod__Worker__V1__SessionRequest *whole)
{
    for (size_t i = 0; i < whole->n_entries; i++) {
        const Pod__Worker__V1__Entry *entry = whole->entries[i];
        if (entry->what_case != POD__WORKER__V1__ENTRY__WHAT_WRITE ||
            entry->write->data.len < WIRE_LEAN_BULK_BYTES)
            continue;
        ProtobufCBinaryData *data = &left->entries[i]->write->data;
        assert(data->len == 0);
        data->data = malloc(entry->write->data.len);
        data->len = entry->write->data.len;
        memcpy(data->data, entry->write->data.data, data->len);
    }
}

static void fuzz_compare(const struct fuzz_message *message,
                         const struct wire_lean *lean)
{
    size_t size = sizeof(message->bytes) - message->begin;
    size_t whole_size = 0;
    size_t left_size = 0;
    Pod__Worker__V1__SessionRequest *whole =
        pod__worker__v1__session_request__unpack(
            NULL, size, message->bytes + message->begin);
    Pod__Worker__V1__SessionRequest *left =
        pod__worker__v1__session_request__unpack(NULL, lean->size, lean->bytes);

    assert((whole == NULL) == (left == NULL));
    if (whole != NULL) {
        assert(whole->n_entries == left->n_entries);
        fuzz_put_back(left, whole);
    }
    unsigned char *a = fuzz_again(whole, &whole_size);
    unsigned char *b = fuzz_again(left, &left_size);
    assert(whole_size == left_size);
    assert(a == NULL || memcmp(a, b, whole_size) == 0);
    free(a);
    free(b);
    pod__worker__v1__session_request__free_unpacked(whole, NULL);
    pod__worker__v1__session_request__free_unpacked(left, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct fuzz_message message;
    static struct pod_blob_piece pieces[FUZZ_MESSAGE_BYTES];
    static struct wire_lean lean;

    if (size == 0 || size > FUZZ_MAX_BYTES)
        return 0;
    fuzz_message_make(&message, data + 1, size - 1);
    size_t whole = sizeof(message.bytes) - message.begin;
    // One byte a piece up to a few thousand.
    size_t most = (size_t)1 << (data[0] % 16);
    size_t count = 0;
    for (size_t at = 0; at < whole; at += pieces[count++].size) {
        size_t rest = whole - at;
        pieces[count] =
            (struct pod_blob_piece){.data = message.bytes + message.begin + at,
                                    .begin = at,
                                    .size = rest < most ? rest : most};
    }
    if (wire_lean(pieces, count, &fuzz_path, &lean)) {
        assert(lean.place <= lean.size && lean.size <= WIRE_LEAN_BYTES);
        assert(lean.bulk_size <= whole &&
               lean.bulk_begin <= whole - lean.bulk_size);
        fuzz_compare(&message, &lean);
    }
    return 0;
}
