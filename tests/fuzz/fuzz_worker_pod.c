// SPDX-License-Identifier: Apache-2.0
// Any bytes as messages of our own service: on both streams of a session, and
// as what other workers send and answer.
//
// The first byte says what the rest is: bits 0 and 1 which stream gets it; with
// bit 2 its first half goes to the control stream instead, and what a peer
// answers is the second half.
#include <stdlib.h>
#include <string.h>

#include "pod_worker.pb-c.h"
#include "tests/fuzz/lib/fuzz_worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { FUZZ_PLACES = 3, FUZZ_FETCH = 3, FUZZ_HALVES = 4 };

struct fuzz_bytes {
    const uint8_t *data;
    size_t size;
};

// Another worker, that answers a fetch: some bytes, then whatever.
static void fuzz_peer(void *arg, const char *method,
                      struct rpc_stream *owned_stream)
{
    static const uint8_t piece[] = {0x0a, 4, 1, 2, 3, 4};
    const struct fuzz_bytes *bytes = arg;

    (void)method;
    fake_rpc_deliver(owned_stream, piece, sizeof(piece));
    fake_rpc_deliver(owned_stream, bytes->data, bytes->size);
    fake_rpc_end(owned_stream, POD_OK);
    rpc_stream_unref(owned_stream);
}

static uint64_t fuzz_hello(struct fuzz_worker *fuzz)
{
    static const uint8_t versions[] = {0x08, 1, 0x10, 1};
    struct pod_wire_out *reply =
        fake_rpc_request(fuzz->loop, fuzz_worker_method(fuzz, "Hello"),
                         versions, sizeof(versions));
    Pod__Worker__V1__HelloResponse *hello =
        pod__worker__v1__hello_response__unpack(NULL, reply->size, reply->head);
    uint64_t session = hello->session;

    pod__worker__v1__hello_response__free_unpacked(hello, NULL);
    pod_wire_out_free(reply);
    return session;
}

static struct rpc_stream *fuzz_stream(struct fuzz_worker *fuzz,
                                      uint64_t session,
                                      Pod__Worker__V1__Role role)
{
    struct rpc_stream *stream =
        fake_rpc_accept(fuzz->loop, fuzz_worker_method(fuzz, "Session"));
    Pod__Worker__V1__SessionRequest first =
        POD__WORKER__V1__SESSION_REQUEST__INIT;

    first.session = session;
    first.role = role;
    struct pod_wire_out *out = pod_wire_pack(&first.base);
    fake_rpc_deliver(stream, out->head, out->size);
    pod_wire_out_free(out);
    return stream;
}

// A fetch from this session: its first field is known to nobody else.
static void fuzz_fetch(struct rpc_stream *stream, uint64_t session,
                       struct fuzz_bytes rest)
{
    Pod__Worker__V1__FetchRequest head = POD__WORKER__V1__FETCH_REQUEST__INIT;

    head.session = session;
    struct pod_wire_out *out = pod_wire_pack(&head.base);
    uint8_t *whole = malloc(out->size + rest.size);
    memcpy(whole, out->head, out->size);
    if (rest.size > 0)
        memcpy(whole + out->size, rest.data, rest.size);
    fake_rpc_deliver(stream, whole, out->size + rest.size);
    free(whole);
    pod_wire_out_free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes rest = {.data = data + 1, .size = size - 1};
    struct fake_rpc_peer peer = {.opened = fuzz_peer, .arg = &rest};
    struct fuzz_worker fuzz;

    if (size == 0)
        return 0;
    fake_rpc_set_peer(&peer);
    fuzz_worker_start(&fuzz);
    uint64_t session = fuzz_hello(&fuzz);
    struct rpc_stream *streams[] = {
        fuzz_stream(&fuzz, session, POD__WORKER__V1__ROLE__CONTROL),
        fuzz_stream(&fuzz, session, POD__WORKER__V1__ROLE__DATA),
        fake_rpc_accept(fuzz.loop, fuzz_worker_method(&fuzz, "Exchange")),
        fake_rpc_accept(fuzz.loop, fuzz_worker_method(&fuzz, "Fetch")),
    };
    size_t half = (data[0] & FUZZ_HALVES) != 0 ? rest.size / 2 : 0;
    if (half > 0)
        fake_rpc_deliver(streams[0], rest.data, half);
    rest.data += half;
    rest.size -= half;
    if ((data[0] & FUZZ_PLACES) == FUZZ_FETCH)
        fuzz_fetch(streams[FUZZ_FETCH], session, rest);
    else
        fake_rpc_deliver(streams[data[0] & FUZZ_PLACES], rest.data, rest.size);
    fuzz_worker_wait(&fuzz);
    for (int i = 3; i >= 0; i--) {
        fake_rpc_half_close(streams[i]);
        fake_rpc_end(streams[i], POD_CANCELLED);
        fake_rpc_await_end(streams[i]);
        rpc_stream_unref(streams[i]);
    }
    fuzz_worker_stop(&fuzz);
    return 0;
}
