// SPDX-License-Identifier: Apache-2.0
// A server with a few routes of its own, for the tests of the HTTP layer.
//
//   GET    /hello               {"hello":"world"}
//   POST   /echo                the JSON body
//   POST   /poke                {} or nothing: 204
//   GET    /things/{id}         {"id":"..."}, parameter "n" known
//   DELETE /things/{id}
//   POST   /things/{id}:poke    {"poked":"..."}
//   GET    /rest/{path*}        the rest as text
//   GET    /accept              which of octet-stream, x-npy, json is best
//   PUT    /data                the number of bytes and their sum
//   PUT    /exact               the same, exactly 1,000 bytes
//   GET    /bytes               `n` bytes (at % 251), with Range
//   GET    /stream              `n` bytes through a stream, from a thread that
//                               waits `pause` ms first and leaves out the last
//                               `missing` bytes
//   GET    /park                parks until POST /wake; 200 with the cause
//   POST   /wake
//   GET    /spin                a handler that parks with no time left for ever
//   GET    /silent              a handler that gives no answer
#ifndef POD_TESTS_LIB_HTTP_FIXTURE_H
#define POD_TESTS_LIB_HTTP_FIXTURE_H

#include <stdatomic.h>
#include <stdint.h>

#include "api/server.h"

struct fixture {
    struct api_server *server;
    unsigned port;
    _Atomic uint64_t staging_used;
    uint64_t staging_max;
    atomic_int handled;  // data bodies that reached their handler
    atomic_int released; // parked requests that have ended
};

// Starts a server on 127.0.0.1:0; zero limits are the defaults, but that no
// time passes that is not given. Aborts the program if it cannot.
struct fixture *fixture_start(const struct api_limits *limits,
                              uint64_t staging_max);
void fixture_stop(struct fixture *fixture);
// Waits (up to a minute) until as many are parked; false if it never came.
bool fixture_await_parked(const struct fixture *fixture, uint64_t parked);
bool fixture_await_connections(const struct fixture *fixture, uint64_t count);
bool fixture_await_refused(const struct fixture *fixture, uint64_t count);

#endif
