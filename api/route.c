// SPDX-License-Identifier: Apache-2.0
#include "api/route.h"

#include <stdio.h>
#include <string.h>

static const char *const route_methods[] = {"GET", "HEAD",   "POST",
                                            "PUT", "DELETE", "OPTIONS"};

// How well a pattern fits: literals beat captures, wherever they stand first.
enum route_fit { ROUTE_NO, ROUTE_REST, ROUTE_CAPTURE, ROUTE_LITERAL };

// Where the segment that starts here ends.
static const char *route_segment_end(const char *start)
{
    return start + strcspn(start, "/");
}

static bool route_capture(struct api_match *match, const char *start,
                          size_t length)
{
    if (match->param_count == API_PARAMS_MAX || length > API_PARAM_BYTES)
        return false;
    match->params[match->param_count++] =
        (struct api_param){.start = start, .length = length};
    return true;
}

// One segment of a path against "{id}" and the suffix behind it.
static enum route_fit route_fit_capture(const char *suffix,
                                        const char *suffix_end,
                                        const char *path, const char *path_end,
                                        struct api_match *match)
{
    size_t suffix_length = (size_t)(suffix_end - suffix);
    size_t length = (size_t)(path_end - path);

    if (length <= suffix_length)
        return ROUTE_NO;
    length -= suffix_length;
    if (memcmp(path + length, suffix, suffix_length) != 0 ||
        memchr(path, ':', length) != NULL)
        return ROUTE_NO;
    return route_capture(match, path, length) ? ROUTE_CAPTURE : ROUTE_NO;
}

// The whole of a pattern; what it captures is left in `match`. Most patterns
// part from the path within a few characters.
static enum route_fit route_fit(const char *pattern, const char *path,
                                struct api_match *match)
{
    enum route_fit fit = ROUTE_LITERAL;

    match->param_count = 0;
    for (;;) {
        for (; *pattern != '{'; pattern++, path++) {
            if (*pattern != *path)
                return ROUTE_NO;
            if (*pattern == '\0')
                return fit;
        }
        const char *close = strchr(pattern, '}');
        if (close[-1] == '*')
            return route_capture(match, path, strlen(path)) ? ROUTE_REST
                                                            : ROUTE_NO;
        const char *pattern_end = route_segment_end(close);
        const char *path_end = route_segment_end(path);
        fit = route_fit_capture(close + 1, pattern_end, path, path_end, match);
        if (fit == ROUTE_NO)
            return ROUTE_NO;
        pattern = pattern_end;
        path = path_end;
    }
}

static unsigned route_bit(enum api_method method)
{
    unsigned bits = 1U << method;
    if (method == API_GET)
        bits |= 1U << API_HEAD;
    return bits | 1U << API_OPTIONS;
}

// Parameters of a pattern that fitted less well are overwritten only by the
// winner's: it is matched last, once more.
void api_route_match(const struct api_route *routes, size_t count,
                     enum api_method method, const char *path,
                     struct api_match *out_match)
{
    enum api_method wanted = method == API_HEAD ? API_GET : method;
    enum route_fit best = ROUTE_NO;
    const char *best_pattern = NULL;

    out_match->route = NULL;
    out_match->allowed = 0;
    out_match->param_count = 0;
    for (size_t i = 0; i < count; i++) {
        enum route_fit fit = route_fit(routes[i].pattern, path, out_match);
        if (fit == ROUTE_NO || fit < best)
            continue;
        if (fit > best) {
            out_match->route = NULL;
            out_match->allowed = 0;
        }
        best = fit;
        best_pattern = routes[i].pattern;
        out_match->allowed |= route_bit(routes[i].method);
        if (routes[i].method == wanted)
            out_match->route = &routes[i];
    }
    if (best_pattern != NULL)
        (void)route_fit(best_pattern, path, out_match);
}

void api_route_allow(unsigned allowed, char out_text[API_ALLOW_BYTES])
{
    size_t used = 0;

    out_text[0] = '\0';
    for (unsigned i = 0; i < API_OTHER; i++) {
        if ((allowed & 1U << i) == 0)
            continue;
        int wrote = snprintf(out_text + used, API_ALLOW_BYTES - used, "%s%s",
                             used > 0 ? ", " : "", route_methods[i]);
        used += (size_t)wrote;
    }
}
