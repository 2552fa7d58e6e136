// SPDX-License-Identifier: Apache-2.0
#include "core/base/copy.h"

#include <string.h>

// The detector of races does not know such stores.
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)

#include <emmintrin.h>
#include <stdint.h>

enum {
    COPY_LINE = 64, // of a cache
    COPY_WORD = sizeof(__m128i),
    // Of fewer bytes the ends, and the fence, would count.
    COPY_SMALL_BYTES = 16 * COPY_LINE,
};

// Whole lines, `to` at the beginning of one.
static void copy_lines(unsigned char *to, const unsigned char *from,
                       size_t bytes)
{
    for (size_t at = 0; at < bytes; at += COPY_LINE) {
        const __m128i *source = (const void *)(from + at);
        __m128i *line = (void *)(to + at);
        __m128i first = _mm_loadu_si128(source);
        __m128i second = _mm_loadu_si128(source + 1);
        __m128i third = _mm_loadu_si128(source + 2);
        __m128i fourth = _mm_loadu_si128(source + 3);
        _mm_stream_si128(line, first);
        _mm_stream_si128(line + 1, second);
        _mm_stream_si128(line + 2, third);
        _mm_stream_si128(line + 3, fourth);
    }
    // Such stores come before later ones of this thread only after this.
    _mm_sfence();
}

_Static_assert(COPY_LINE == 4 * COPY_WORD, "a line is four words");

void pod_copy_past_caches(void *to, const void *from, size_t bytes)
{
    unsigned char *out = to;
    const unsigned char *in = from;
    size_t head = (size_t)(-(uintptr_t)to % COPY_LINE);

    if (bytes < COPY_SMALL_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    size_t lines = (bytes - head) / COPY_LINE * COPY_LINE;
    memcpy(out, in, head);
    copy_lines(out + head, in + head, lines);
    memcpy(out + head + lines, in + head + lines, bytes - head - lines);
}

#else

void pod_copy_past_caches(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

#endif
