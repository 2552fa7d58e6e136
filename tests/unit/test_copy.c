// SPDX-License-Identifier: Apache-2.0
// Copies past the caches: each byte where it belongs, and no other touched,
// wherever both ends lie.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/copy.h"

enum {
    LINE = 64,
    ROOM = 16 << 10,
    GUARD = 0xA5,
};

// No two bytes near each other are alike, and none is the guard.
static unsigned char byte_at(size_t i)
{
    return (unsigned char)((i * 7 + i / 127) % 160);
}

// Copies into memory full of guards, byte by byte compared.
static void copy_and_check(unsigned char *room, const unsigned char *from,
                           size_t at, size_t bytes)
{
    memset(room, GUARD, ROOM);
    pod_copy_past_caches(room + at, from, bytes);
    for (size_t i = 0; i < ROOM; i++) {
        unsigned char expected =
            i >= at && i - at < bytes ? from[i - at] : GUARD;
        if (room[i] != expected)
            fail_msg("byte %zu is %02x, not %02x: %zu bytes at %zu", i, room[i],
                     expected, bytes, at);
    }
}

struct rooms {
    unsigned char *to;
    unsigned char *from;
};

static void rooms_init(struct rooms *rooms)
{
    rooms->to = aligned_alloc(LINE, ROOM);
    rooms->from = aligned_alloc(LINE, ROOM);
    assert_non_null(rooms->to);
    assert_non_null(rooms->from);
    for (size_t i = 0; i < ROOM; i++)
        rooms->from[i] = byte_at(i);
}

static void rooms_fini(struct rooms *rooms)
{
    free(rooms->to);
    free(rooms->from);
}

static void test_every_place(void **state)
{
    struct rooms rooms;

    (void)state;
    rooms_init(&rooms);
    for (size_t to = 0; to < LINE; to++) {
        for (size_t from = 0; from < LINE; from += 9)
            copy_and_check(rooms.to, rooms.from + from, LINE + to, 2000);
    }
    rooms_fini(&rooms);
}

static void test_every_length(void **state)
{
    static const size_t places[] = {0, 1, 63};
    struct rooms rooms;

    (void)state;
    rooms_init(&rooms);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        for (size_t bytes = 0; bytes < 1400; bytes++)
            copy_and_check(rooms.to, rooms.from + 5, LINE + places[i], bytes);
    }
    copy_and_check(rooms.to, rooms.from, 0, ROOM);
    rooms_fini(&rooms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_place),
        cmocka_unit_test(test_every_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
