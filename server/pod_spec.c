// SPDX-License-Identifier: Apache-2.0
#include "server/pod_spec.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "core/driver/fault.h"

// A piece of the text; not NUL-terminated.
struct spec_piece {
    const char *text;
    size_t length;
};

static bool spec_is(struct spec_piece piece, const char *word)
{
    return piece.length == strlen(word) &&
           memcmp(piece.text, word, piece.length) == 0;
}

static enum pod_code spec_fault(struct spec_piece piece, const char *what,
                                struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_PARAMETER, "'%.*s': %s",
                       (int)piece.length, piece.text, what);
}

_Static_assert(POD_SPEC_MAX_HOSTS == 1024 && POD_SPEC_MAX_CORES_PER_CHIP == 64,
               "what spec_option says");

static bool spec_number(struct spec_piece piece, uint32_t most, uint32_t *out)
{
    uint64_t value = 0;
    if (!pod_parse_number(piece.text, piece.length, &value) || value > most)
        return false;
    *out = (uint32_t)value;
    return true;
}

// "2x2x1": three sides.
static enum pod_code spec_box(struct spec_piece box, struct pod_spec *spec,
                              struct pod_err *err)
{
    uint32_t sides[3] = {0};
    const char *at = box.text;
    const char *end = box.text + box.length;
    for (int i = 0; i < 3; i++) {
        const char *cross = i < 2 ? memchr(at, 'x', (size_t)(end - at)) : end;
        struct spec_piece side = {at, cross != NULL ? (size_t)(cross - at) : 0};
        if (!spec_number(side, POD_SPEC_MAX_SIDE, &sides[i]))
            return spec_fault(
                box, "expected chips as XxYxZ, each side 1 to 1024", err);
        at = cross + 1;
    }
    spec->x = sides[0];
    spec->y = sides[1];
    spec->z = sides[2];
    if ((uint64_t)spec->x * spec->y * spec->z > POD_SPEC_MAX_CHIPS)
        return spec_fault(box, "more than 4096 chips", err);
    return POD_OK;
}

// "10GB/s" or "10GB".
static bool spec_bandwidth(struct spec_piece value, uint64_t *out)
{
    if (value.length > 2 && memcmp(value.text + value.length - 2, "/s", 2) == 0)
        value.length -= 2;
    return pod_parse_bytes(value.text, value.length, out) && *out > 0;
}

// "1T", "2.5e12": operations per second.
static bool spec_flops(struct spec_piece value, double *out)
{
    char text[40];
    if (value.length == 0 || value.length >= sizeof(text) ||
        strspn(value.text, "0123456789.eEkMGTP") < value.length)
        return false;
    memcpy(text, value.text, value.length);
    text[value.length] = '\0';
    char *rest = NULL;
    double number = strtod(text, &rest);
    static const char units[] = "kMGTP";
    if (*rest != '\0') {
        const char *unit = strchr(units, *rest);
        if (unit == NULL || rest[1] != '\0')
            return false;
        for (long i = 0; i <= unit - units; i++)
            number *= 1e3;
    }
    *out = number;
    return number > 0 && number < 1e24;
}

static bool spec_device(struct spec_piece value)
{
    // No plugin is looked for: auto is the reference device.
    return spec_is(value, "reference") || spec_is(value, "auto");
}

// Keeps the script; that it can be read is seen here, so that a fault in it is
// one of the command line's.
static enum pod_code spec_fault_script(struct spec_piece value,
                                       struct pod_spec *spec,
                                       struct pod_err *err)
{
    struct pod_fault_script script;
    enum pod_code code =
        pod_fault_parse(value.text, value.length, &script, err);
    if (code != POD_OK)
        return code;
    if (value.length >= sizeof(spec->fault))
        return spec_fault(value, "longer than 255 bytes", err);
    memcpy(spec->fault, value.text, value.length);
    spec->fault[value.length] = '\0';
    return POD_OK;
}

static enum pod_code spec_option(struct spec_piece name,
                                 struct spec_piece value,
                                 struct spec_piece whole, struct pod_spec *spec,
                                 struct pod_err *err)
{
    const char *expected = NULL;
    bool good = false;
    if (spec_is(name, "hosts")) {
        expected = "expected 1 to 1024";
        good = spec_number(value, POD_SPEC_MAX_HOSTS, &spec->hosts);
    } else if (spec_is(name, "cores")) {
        expected = "expected 1 to 64";
        good = spec_number(value, POD_SPEC_MAX_CORES_PER_CHIP,
                           &spec->cores_per_chip);
    } else if (spec_is(name, "hbm")) {
        expected = "expected bytes of a core, such as 16GiB";
        good = pod_parse_bytes(value.text, value.length, &spec->hbm_bytes) &&
               spec->hbm_bytes > 0;
    } else if (spec_is(name, "device")) {
        expected = "expected reference or auto";
        good = spec_device(value);
    } else if (spec_is(name, "latency")) {
        expected = "expected a duration, such as 5ms";
        good = pod_parse_duration(value.text, value.length, &spec->latency_ns);
    } else if (spec_is(name, "bandwidth")) {
        expected = "expected bytes a second, such as 10GB/s";
        good = spec_bandwidth(value, &spec->bandwidth);
    } else if (spec_is(name, "flops")) {
        expected = "expected operations a second, such as 1T";
        good = spec_flops(value, &spec->flops);
    } else if (spec_is(name, "fault")) {
        return spec_fault_script(value, spec, err);
    } else {
        expected = "unknown option; known are hosts, cores, hbm, device, "
                   "latency, bandwidth, flops, fault";
    }
    return good ? POD_OK : spec_fault(whole, expected, err);
}

// Whether an option stands before `name` in the list, too.
static bool spec_is_again(const char *list, struct spec_piece name)
{
    while (list < name.text) {
        struct spec_piece earlier = {list, strcspn(list, "=,")};
        if (earlier.length == name.length &&
            memcmp(earlier.text, name.text, name.length) == 0)
            return true;
        list += strcspn(list, ",") + 1;
    }
    return false;
}

static enum pod_code spec_options(const char *list, struct pod_spec *spec,
                                  struct pod_err *err)
{
    const char *at = list;

    while (*at != '\0') {
        struct spec_piece whole = {at, strcspn(at, ",")};
        const char *equals = memchr(at, '=', whole.length);
        if (equals == NULL)
            return spec_fault(whole, "expected option=value", err);
        struct spec_piece name = {at, (size_t)(equals - at)};
        struct spec_piece value = {equals + 1, whole.length - name.length - 1};
        if (spec_is_again(list, name))
            return spec_fault(whole, "the option stands there twice", err);
        enum pod_code code = spec_option(name, value, whole, spec, err);
        if (code != POD_OK)
            return code;
        at += whole.length;
        at += *at == ',' ? 1 : 0;
    }
    return POD_OK;
}

enum pod_code pod_spec_parse(const char *text, struct pod_spec *out_spec,
                             struct pod_err *err)
{
    static const char scheme[] = "local:";
    struct pod_spec spec = {
        .hosts = 1, .cores_per_chip = 1, .hbm_bytes = UINT64_C(1) << 30};
    if (strncmp(text, scheme, sizeof(scheme) - 1) != 0)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "expected local:XxYxZ[,option=value...] or "
                           "grpc+pod://HOST:PORT[,HOST:PORT...]");
    text += sizeof(scheme) - 1;
    struct spec_piece box = {text, strcspn(text, ",")};
    enum pod_code code = spec_box(box, &spec, err);
    if (code != POD_OK)
        return code;
    text += box.length;
    code = spec_options(*text == ',' ? text + 1 : text, &spec, err);
    if (code != POD_OK)
        return code;
    uint32_t chips = spec.x * spec.y * spec.z;
    if (chips % spec.hosts != 0)
        return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                           "hosts=%u: does not divide the %u chips", spec.hosts,
                           chips);
    *out_spec = spec;
    return POD_OK;
}
