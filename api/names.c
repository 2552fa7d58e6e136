// SPDX-License-Identifier: Apache-2.0
#include "api/names.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "api/json.h"
#include "core/base/str.h"

enum { NAMES_UNDEFINED = UINT32_MAX, NAMES_SHOWN = 64 };

struct api_name {
    struct api_name *next; // of the same hash
    uint32_t operation;    // NAMES_UNDEFINED
    enum pod_ref_kind makes;
    size_t length;
    const char *text;
};

struct api_name_use {
    struct api_name_use *next;
    struct api_name *name;
    struct pod_ref *ref;
    enum pod_ref_kind kind;
    uint32_t operation;
    const char *place;
};

void api_names_init(struct api_names *names, struct api_memory *memory)
{
    *names = (struct api_names){.memory = memory};
    (void)!getrandom(&names->seed, sizeof(names->seed), 0);
}

void api_names_fini(struct api_names *names)
{
    pod_map_fini(&names->map);
}

const char *api_place_print(const struct api_place *place,
                            char buffer[POD_ERR_POINTER_BYTES])
{
    char pointer[POD_ERR_POINTER_BYTES];

    (void)api_read_pointer(place->reader, pointer);
    if (place->index == SIZE_MAX)
        (void)snprintf(buffer, POD_ERR_POINTER_BYTES, "%.40s/%.20s", pointer,
                       place->member);
    else
        (void)snprintf(buffer, POD_ERR_POINTER_BYTES, "%.36s/%.12s/%u", pointer,
                       place->member, (unsigned)place->index);
    return buffer;
}

// -------------------------------------------------------------------- hashing

static uint64_t names_mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product =
        (__extension__(unsigned __int128) a) * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Eight bytes at a time, each folded in by a wide multiplication.
static uint64_t names_hash(const struct api_names *names, const char *text,
                           size_t length)
{
    uint64_t hash = names->seed ^ length;
    uint64_t word;

    for (; length >= sizeof(word);
         text += sizeof(word), length -= sizeof(word)) {
        memcpy(&word, text, sizeof(word));
        hash = names_mix(hash ^ word, UINT64_C(0x9E3779B97F4A7C15));
    }
    word = 0;
    memcpy(&word, text, length);
    hash = names_mix(hash ^ word ^ names->seed, UINT64_C(0xD6E8FEB86659FD93));
    return hash != 0 ? hash : 1;
}

// The name, made if it is not known; NULL: no memory.
static struct api_name *names_get(struct api_names *names,
                                  const struct api_name_text *text)
{
    void **kept = pod_map_at(&names->map, text->hash);

    if (kept == NULL)
        return NULL;
    struct api_name *first = *kept;
    for (struct api_name *name = first; name != NULL; name = name->next) {
        if (name->length == text->length &&
            memcmp(name->text, text->text, text->length) == 0)
            return name;
    }
    struct api_name *name =
        api_memory_take(names->memory, sizeof(*name) + text->length + 1);
    if (name == NULL)
        return NULL;
    char *copy = (char *)(name + 1);
    memcpy(copy, text->text, text->length);
    copy[text->length] = '\0';
    *name = (struct api_name){.next = first,
                              .operation = NAMES_UNDEFINED,
                              .length = text->length,
                              .text = copy};
    *kept = name;
    return name;
}

// ----------------------------------------------------------------- definitions

struct api_name_text api_names_expect(const struct api_names *names,
                                      const char *text)
{
    size_t length = strlen(text);
    uint64_t hash = names_hash(names, text, length);

    pod_map_expect(&names->map, hash);
    return (struct api_name_text){text, length, hash};
}

enum pod_code api_names_define(struct api_names *names,
                               const struct api_name_text *text,
                               enum pod_ref_kind makes, const char **out_text,
                               struct pod_err *err)
{
    struct api_name *name = names_get(names, text);

    if (name == NULL)
        return api_memory_error(names->memory, err);
    if (name->operation != NAMES_UNDEFINED)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "operation %u already has this ref",
                           name->operation);
    name->operation = (uint32_t)names->current;
    name->makes = makes;
    *out_text = name->text;
    return POD_OK;
}

// ------------------------------------------------------------------ references

// Takes ".outputs[3]" off the end. False: malformed.
static bool names_cut_output(const char *text, size_t *in_out_length,
                             struct pod_ref *out)
{
    static const char suffix[] = ".outputs[";
    const char *start = strstr(text, suffix);
    uint64_t output = 0;

    if (start == NULL)
        return true;
    const char *digits = start + strlen(suffix);
    size_t count = strspn(digits, "0123456789");
    bool zero = count == 1 && digits[0] == '0';
    if (strcmp(digits + count, "]") != 0 ||
        (!zero && !pod_parse_number(digits, count, &output)) ||
        output >= UINT32_MAX)
        return false;
    *in_out_length = (size_t)(start - text);
    out->has_output = true;
    out->output = (uint32_t)output;
    return true;
}

static enum pod_code names_undefined(const struct api_name *name,
                                     struct pod_err *err)
{
    return pod_err_set(
        err, POD_REASON_UNKNOWN_HANDLE,
        "no operation of the graph has the ref '%.*s'",
        (int)pod_utf8_clip(name->text, name->length, NAMES_SHOWN), name->text);
}

static enum pod_code names_bind(const struct api_name *name,
                                enum pod_ref_kind kind, struct pod_ref *ref,
                                struct pod_err *err)
{
    static const char *const nouns[] = {
        [POD_REF_BUFFER] = "buffer",
        [POD_REF_PROGRAM] = "program",
        [POD_REF_LOAD] = "load",
    };
    enum pod_ref_kind makes = ref->has_output ? POD_REF_BUFFER : name->makes;

    ref->number = name->operation;
    if (kind == POD_REF_NONE || kind == makes)
        return POD_OK;
    return pod_err_set(
        err, POD_REASON_UNKNOWN_HANDLE, "'%.*s' makes no %s%s",
        (int)pod_utf8_clip(name->text, name->length, NAMES_SHOWN), name->text,
        nouns[kind],
        kind == POD_REF_BUFFER ? " (an execution makes outputs)" : "");
}

static enum pod_code names_keep(struct api_names *names, struct api_name *name,
                                enum pod_ref_kind kind,
                                const struct api_place *place,
                                struct pod_ref *ref, struct pod_err *err)
{
    struct api_name_use *use = api_memory_alloc(names->memory, sizeof(*use));
    char printed[POD_ERR_POINTER_BYTES];
    char *copy =
        api_memory_strdup(names->memory, api_place_print(place, printed));

    if (use == NULL || copy == NULL)
        return api_memory_error(names->memory, err);
    *use = (struct api_name_use){.next = names->uses,
                                 .name = name,
                                 .ref = ref,
                                 .kind = kind,
                                 .operation = (uint32_t)names->current,
                                 .place = copy};
    names->uses = use;
    return POD_OK;
}

enum pod_code api_names_refer(struct api_names *names, const char *text,
                              enum pod_ref_kind kind,
                              const struct api_place *place,
                              struct pod_ref *out, struct pod_err *err)
{
    size_t length = strlen(text + 1);

    *out = (struct pod_ref){.kind = POD_REF_REQUEST};
    if (!names_cut_output(text + 1, &length, out))
        return pod_err_set(
            err, POD_REASON_UNKNOWN_HANDLE,
            "name an output as .outputs[0], .outputs[1] and so on");
    const struct api_name_text wanted = {text + 1, length,
                                         names_hash(names, text + 1, length)};
    struct api_name *name = names_get(names, &wanted);
    if (name == NULL)
        return api_memory_error(names->memory, err);
    if (name->operation == NAMES_UNDEFINED)
        return names_keep(names, name, kind, place, out, err);
    return names_bind(name, kind, out, err);
}

void api_names_resolve(struct api_names *names,
                       void (*fault)(void *arg, size_t operation,
                                     const struct pod_err *err),
                       void *arg)
{
    struct pod_err err;

    for (struct api_name_use *use = names->uses; use != NULL; use = use->next) {
        enum pod_code code =
            use->name->operation == NAMES_UNDEFINED
                ? names_undefined(use->name, &err)
                : names_bind(use->name, use->kind, use->ref, &err);
        if (code == POD_OK)
            continue;
        pod_err_at(&err, "%s", use->place);
        fault(arg, use->operation, &err);
    }
    names->uses = NULL;
}
