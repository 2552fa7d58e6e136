// SPDX-License-Identifier: Apache-2.0
#include "api/build.h"

#include <string.h>
#include <time.h>

#include "api/digits.h"
#include "api/ids.h"
#include "api/problem.h"
#include "core/base/clock.h"

enum { TIME_SECOND_BYTES = sizeof("2026-01-01T00:00:00.") - 1 };

struct api_build api_build_object(void)
{
    json_t *json = json_object();
    return (struct api_build){.json = json, .failed = json == NULL};
}

struct api_build api_build_array(void)
{
    json_t *json = json_array();
    return (struct api_build){.json = json, .failed = json == NULL};
}

json_t *api_build_take(struct api_build *build)
{
    json_t *json = build->json;
    build->json = NULL;
    if (!build->failed)
        return json;
    json_decref(json);
    return NULL;
}

void api_set(struct api_build *build, const char *key, json_t *owned_value)
{
    if (json_object_set_new_nocheck(build->json, key, owned_value) != 0)
        build->failed = true;
}

void api_append(struct api_build *build, json_t *owned_value)
{
    if (json_array_append_new(build->json, owned_value) != 0)
        build->failed = true;
}

void api_set_bool(struct api_build *build, const char *key, bool value)
{
    api_set(build, key, json_boolean(value));
}

void api_set_number(struct api_build *build, const char *key, int64_t value)
{
    api_set(build, key, json_integer(value));
}

void api_set_u64(struct api_build *build, const char *key, uint64_t value)
{
    char text[API_DIGITS_MAX + 1];
    *api_put_u64(text, value) = '\0';
    api_set(build, key, json_string_nocheck(text));
}

void api_set_word(struct api_build *build, const char *key, const char *word)
{
    api_set(build, key, json_string_nocheck(word));
}

void api_set_text(struct api_build *build, const char *key, const char *text)
{
    api_set(build, key, text != NULL ? api_json_text(text) : json_null());
}

static json_t *build_id(enum pod_ref_kind kind, uint64_t number)
{
    char text[API_ID_BYTES];
    return json_string_nocheck(api_id_print(kind, number, text));
}

void api_set_id(struct api_build *build, const char *key,
                enum pod_ref_kind kind, uint64_t number)
{
    api_set(build, key, number != 0 ? build_id(kind, number) : json_null());
}

void api_append_id(struct api_build *build, enum pod_ref_kind kind,
                   uint64_t number)
{
    api_append(build, build_id(kind, number));
}

void api_set_ids(struct api_build *build, const char *key,
                 enum pod_ref_kind kind, const uint64_t *numbers, size_t count)
{
    struct api_build list = api_build_array();
    for (size_t i = 0; i < count; i++)
        api_append_id(&list, kind, numbers[i]);
    api_set(build, key, api_build_take(&list));
}

// -------------------------------------------------------------------- times

// Years are those of nanoseconds in an int64: always of four digits.
static char *time_put(char *at, int value, int width, char after)
{
    at = api_put_padded(at, (uint64_t)value, width);
    *at = after;
    return at + 1;
}

// The times of an answer are close to each other: "2026-01-01T00:00:00." of
// the last second that this thread asked for.
static const char *time_second(time_t second)
{
    static _Thread_local struct {
        time_t second;
        char text[TIME_SECOND_BYTES + 1]; // empty: of none
    } last;
    if (last.second == second && last.text[0] != '\0')
        return last.text;
    struct tm parts;
    (void)gmtime_r(&second, &parts);
    char *at = time_put(last.text, parts.tm_year + 1900, 4, '-');
    at = time_put(at, parts.tm_mon + 1, 2, '-');
    at = time_put(at, parts.tm_mday, 2, 'T');
    at = time_put(at, parts.tm_hour, 2, ':');
    at = time_put(at, parts.tm_min, 2, ':');
    *time_put(at, parts.tm_sec, 2, '.') = '\0';
    last.second = second;
    return last.text;
}

const char *api_time_print(int64_t wall_ns, char buffer[API_TIME_BYTES])
{
    int64_t fraction = wall_ns % POD_NS_PER_S;
    time_t second = (time_t)(wall_ns / POD_NS_PER_S);
    if (fraction < 0) {
        fraction += POD_NS_PER_S;
        second--;
    }
    memcpy(buffer, time_second(second), TIME_SECOND_BYTES);
    *time_put(buffer + TIME_SECOND_BYTES, (int)(fraction / 1000), 6, 'Z') =
        '\0';
    return buffer;
}

void api_set_time(struct api_build *build, const char *key, int64_t wall_ns)
{
    char text[API_TIME_BYTES];
    api_set(build, key, json_string_nocheck(api_time_print(wall_ns, text)));
}

void api_set_duration(struct api_build *build, const char *key, int64_t ns)
{
    char text[40];
    uint64_t length = ns > 0 ? (uint64_t)ns : 0;
    char *at = api_put_u64(text, length / (uint64_t)POD_NS_PER_S);
    *at++ = '.';
    at = api_put_padded(at, length / 1000, 6);
    *at++ = 's';
    *at = '\0';
    api_set(build, key, json_string_nocheck(text));
}

// Exactly `count` digits.
static bool time_digits(const char **at, int count, int *out)
{
    *out = 0;
    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9')
            return false;
        *out = *out * 10 + (**at - '0');
    }
    return true;
}

static bool time_literal(const char **at, const char *set)
{
    if (**at == '\0' || strchr(set, **at) == NULL)
        return false;
    (*at)++;
    return true;
}

static int time_days_of_month(const struct tm *parts)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int year = parts->tm_year;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return days[parts->tm_mon - 1] + (leap && parts->tm_mon == 2);
}

static bool time_date(const char **at, struct tm *parts)
{
    return time_digits(at, 4, &parts->tm_year) && time_literal(at, "-") &&
           time_digits(at, 2, &parts->tm_mon) && time_literal(at, "-") &&
           time_digits(at, 2, &parts->tm_mday) && time_literal(at, "Tt ") &&
           time_digits(at, 2, &parts->tm_hour) && time_literal(at, ":") &&
           time_digits(at, 2, &parts->tm_min) && time_literal(at, ":") &&
           time_digits(at, 2, &parts->tm_sec) && parts->tm_mon >= 1 &&
           parts->tm_mon <= 12 && parts->tm_mday >= 1 &&
           parts->tm_mday <= time_days_of_month(parts) &&
           parts->tm_hour <= 23 && parts->tm_min <= 59 && parts->tm_sec <= 60;
}

static bool time_fraction(const char **at, int64_t *out_ns)
{
    int64_t unit = POD_NS_PER_S;
    *out_ns = 0;
    if (!time_literal(at, "."))
        return true;
    const char *start = *at;
    for (; **at >= '0' && **at <= '9'; (*at)++) {
        unit /= 10;
        *out_ns += unit * (**at - '0');
    }
    return *at > start && *at - start <= 9;
}

// "Z", or an offset such as "+02:00".
static bool time_zone(const char **at, int64_t *out_seconds)
{
    int hours = 0;
    int minutes = 0;
    *out_seconds = 0;
    if (time_literal(at, "Zz"))
        return true;
    bool west = **at == '-';
    if (!time_literal(at, "+-") || !time_digits(at, 2, &hours) ||
        !time_literal(at, ":") || !time_digits(at, 2, &minutes) || hours > 23 ||
        minutes > 59)
        return false;
    *out_seconds = (west ? -1 : 1) * (hours * 3600 + minutes * 60);
    return true;
}

bool api_time_parse(const char *text, int64_t *out_wall_ns)
{
    struct tm parts = {0};
    int64_t fraction = 0;
    int64_t offset = 0;
    const char *at = text;
    if (!time_date(&at, &parts) || !time_fraction(&at, &fraction) ||
        !time_zone(&at, &offset) || *at != '\0')
        return false;
    parts.tm_year -= 1900;
    parts.tm_mon -= 1;
    int64_t seconds = (int64_t)timegm(&parts) - offset;
    int64_t wall = 0;
    // Years beyond 2262 do not fit nanoseconds: they are as far as can be.
    if (__builtin_mul_overflow(seconds, POD_NS_PER_S, &wall) ||
        __builtin_add_overflow(wall, fraction, &wall))
        wall = seconds < 0 ? INT64_MIN + 1 : INT64_MAX;
    *out_wall_ns = wall;
    return true;
}
