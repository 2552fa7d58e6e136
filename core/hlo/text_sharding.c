// SPDX-License-Identifier: Apache-2.0
// How an array is cut up among partitions.
#include "core/hlo/text_internal.h"

// "devices=[2,1]0,1" or "devices=[2,1]<=[2]T(0)", then perhaps
// "last_tile_dim_replicate".
static enum pod_code sharding_tiles(struct text *t, Xla__OpSharding *sharding)
{
    enum pod_code code = pod_text_need(t, '=');
    sharding->type = 3;
    if (code == POD_OK)
        code = pod_text_int_list(t, '[', ']',
                                 &sharding->n_tile_assignment_dimensions,
                                 &sharding->tile_assignment_dimensions);
    if (code != POD_OK)
        return code;
    if (pod_text_take_string(t, "<=")) {
        code = pod_text_int_list(t, '[', ']', &sharding->n_iota_reshape_dims,
                                 &sharding->iota_reshape_dims);
        if (code == POD_OK)
            code = pod_text_permutation(t, &sharding->n_iota_transpose_perm,
                                        &sharding->iota_transpose_perm);
    } else {
        code =
            pod_text_ints_joined(t, ',', &sharding->n_tile_assignment_devices,
                                 &sharding->tile_assignment_devices);
    }
    if (code == POD_OK && pod_text_take_word(t, "last_tile_dim_replicate"))
        sharding->replicate_on_last_tile_dim = true;
    return code;
}

static enum pod_code sharding_maximal(struct text *t, Xla__OpSharding *sharding)
{
    size_t ones = 0;
    sharding->type = 1;
    if (!pod_text_take_word(t, "device") || !pod_text_take(t, '='))
        return pod_text_expected(t, "\"device=\"");
    if (!pod_text_push_int(t, 1))
        return pod_text_no_memory(t);
    ones = t->ints.count - 1;
    enum pod_code code =
        pod_text_pop_ints(t, ones, &sharding->n_tile_assignment_dimensions,
                          &sharding->tile_assignment_dimensions);
    if (code != POD_OK)
        return code;
    return pod_text_ints_joined(t, ',', &sharding->n_tile_assignment_devices,
                                &sharding->tile_assignment_devices);
}

// What stands between the braces of one array's sharding.
static enum pod_code sharding_value(struct text *t, Xla__OpSharding *sharding)
{
    static const struct {
        const char *word;
        int32_t type;
    } plain[] = {
        {"replicated", 0}, {"manual", 4}, {"unknown", 5}, {"unreduced", 6}};
    for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
        if (pod_text_take_word(t, plain[i].word)) {
            sharding->type = plain[i].type;
            return POD_OK;
        }
    }
    if (pod_text_take_word(t, "maximal"))
        return sharding_maximal(t, sharding);
    if (pod_text_take_word(t, "devices"))
        return sharding_tiles(t, sharding);
    return pod_text_unsupported_at(t, t->at, "this form of sharding is");
}

static enum pod_code sharding_end(struct text *t)
{
    if (pod_text_peek(t) != '}')
        return pod_text_unsupported_at(t, t->at, "this part of a sharding is");
    t->at++;
    return POD_OK;
}

enum pod_code pod_text_sharding(struct text *t, Xla__OpSharding **out)
{
    Xla__OpSharding *whole = pod_text_message(t, &xla__op_sharding__descriptor);
    size_t base = t->pointers.count;
    enum pod_code code = pod_text_need(t, '{');
    if (whole == NULL)
        return pod_text_no_memory(t);
    *out = whole;
    if (code != POD_OK)
        return code;
    if (pod_text_peek(t) != '{') {
        code = sharding_value(t, whole);
        return code == POD_OK ? sharding_end(t) : code;
    }
    whole->type = 2;
    do {
        Xla__OpSharding *part =
            pod_text_message(t, &xla__op_sharding__descriptor);
        if (part == NULL || !pod_text_push_pointer(t, part))
            return pod_text_no_memory(t);
        code = pod_text_need(t, '{');
        if (code == POD_OK)
            code = sharding_value(t, part);
        if (code == POD_OK)
            code = sharding_end(t);
    } while (code == POD_OK && pod_text_take(t, ','));
    if (code == POD_OK)
        code = pod_text_need(t, '}');
    if (code != POD_OK)
        return code;
    return pod_text_pop_pointers(t, base, &whole->n_tuple_shardings,
                                 &whole->tuple_shardings);
}
