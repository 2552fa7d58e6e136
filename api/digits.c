// SPDX-License-Identifier: Apache-2.0
#include "api/digits.h"

#include <string.h>

char *api_put_padded(char *at, uint64_t value, int width)
{
    for (int i = width - 1; i >= 0; i--) {
        at[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return at + width;
}

char *api_put_u64(char *at, uint64_t value)
{
    int width = 1;
    for (uint64_t rest = value; rest >= 10; rest /= 10)
        width++;
    return api_put_padded(at, value, width);
}

char *api_put_hex(char *at, uint64_t value)
{
    for (int i = 15; i >= 0; i--) {
        at[i] = "0123456789abcdef"[value & 15];
        value >>= 4;
    }
    return at + 16;
}

char *api_put_text(char *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(at, text, length);
    return at + length;
}
