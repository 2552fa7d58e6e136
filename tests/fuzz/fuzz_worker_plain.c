// SPDX-License-Identifier: Apache-2.0
// Any bytes as a message of the plain protocol's stream: every operation ends,
// nothing is left of them.

#include "tests/fuzz/lib/fuzz_worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_worker fuzz;

    fuzz_worker_start(&fuzz);
    pod_wire_out_free(fake_rpc_request(
        fuzz.loop, fuzz_worker_method(&fuzz, "Open"), NULL, 0));
    struct rpc_stream *stream =
        fake_rpc_accept(fuzz.loop, fuzz_worker_method(&fuzz, "StreamExecute"));
    // Twice: numbers that were used before, and ended, are refused.
    fake_rpc_deliver(stream, data, size);
    fake_rpc_deliver(stream, data, size);
    fake_rpc_half_close(stream);
    fuzz_worker_wait(&fuzz);
    fake_rpc_end(stream, POD_CANCELLED);
    fake_rpc_await_end(stream);
    rpc_stream_unref(stream);
    fuzz_worker_stop(&fuzz);
    return 0;
}
