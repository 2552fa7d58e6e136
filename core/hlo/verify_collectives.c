// SPDX-License-Identifier: Apache-2.0
// Rules of the opcodes that work across replicas.
#include "core/hlo/groups.h"
#include "core/hlo/names.h"
#include "core/hlo/verify_internal.h"

// ------------------------------------------------------------------- groups

// The sizes of an iota group list must multiply to the same number, and its
// permutation be one.
static enum pod_code collective_iota(const struct verify *v,
                                     const Xla__IotaReplicaGroupListProto *iota)
{
    int64_t ids;
    int64_t product = 1;
    int64_t perm[POD_SHAPE_MAX_RANK];
    size_t rank = iota->n_iota_reshape_dims;
    size_t count = iota->n_iota_transpose_perm;
    if (iota->num_replica_groups < 1 || iota->num_devices_per_group < 1 ||
        __builtin_mul_overflow(iota->num_replica_groups,
                               iota->num_devices_per_group, &ids))
        return pod_verify_fail(v, "replica groups have impossible sizes");
    if (rank == 0 || rank > POD_SHAPE_MAX_RANK || (count != 0 && count != rank))
        return pod_verify_fail(v,
                               "replica groups have %zu dimensions and %zu "
                               "permuted ones",
                               rank, count);
    for (size_t i = 0; i < rank; i++)
        if (iota->iota_reshape_dims[i] < 1 ||
            __builtin_mul_overflow(product, iota->iota_reshape_dims[i],
                                   &product))
            return pod_verify_fail(v, "replica groups have impossible sizes");
    if (product != ids)
        return pod_verify_fail(v, "replica groups take %lld ids from %lld",
                               (long long)ids, (long long)product);
    for (size_t i = 0; i < count; i++)
        perm[i] = iota->iota_transpose_perm[i];
    return pod_verify_dimensions(v, "permuted dimension", count, perm, rank);
}

// Sets *size to the size of the smallest group, or to 0 if the program names
// none. `even`: all must be of that size.
static enum pod_code collective_groups(const struct verify *v, bool even,
                                       int64_t *size)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    enum pod_code code = POD_OK;
    int64_t most = 0;
    *size = 0;
    if (proto->replica_group_list_case ==
        XLA__HLO_INSTRUCTION_PROTO__REPLICA_GROUP_LIST_IOTA_COLLECTIVE_DEVICE_LIST)
        code = collective_iota(v, proto->iota_collective_device_list);
    if (code != POD_OK || !pod_hlo_groups_sizes(proto, size, &most))
        return code;
    if (*size == 0)
        return pod_verify_fail(v, "a replica group is empty");
    if (even && *size != most)
        return pod_verify_fail(v, "replica groups differ in size");
    return POD_OK;
}

// What holds of each that has replica groups; sets *size as above.
static enum pod_code collective_begin(const struct verify *v, bool even,
                                      int64_t *size)
{
    enum pod_code code = pod_verify_arrays(v, 1);
    return code == POD_OK ? collective_groups(v, even, size) : code;
}

static enum pod_code collective_dimension(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    if (proto->n_dimensions != 1)
        return pod_verify_fail(v, "exactly one dimension is needed");
    return pod_verify_dimensions(v, "dimension", 1, proto->dimensions,
                                 pod_verify_operand(v, 0)->rank);
}

// The part of the result that belongs to operand `index`: the whole result if
// there is one operand. The result must be a tuple of as many otherwise.
static const struct pod_shape *collective_part(const struct verify *v,
                                               uint32_t index)
{
    const struct pod_shape *shape = v->instr->shape;
    if (v->instr->operand_count == 1)
        return shape;
    if (shape->type != POD_TYPE_TUPLE ||
        shape->child_count != v->instr->operand_count)
        return NULL;
    return &shape->children[index];
}

static enum pod_code collective_no_part(const struct verify *v, uint32_t index)
{
    char is[96];
    return pod_verify_fail(v, "result %s does not fit operand %u",
                           pod_shape_brief(v->instr->shape, is, sizeof(is)),
                           (unsigned)index);
}

// --------------------------------------------------------------------- rules

// One computation serves all operands, so they must be of one type.
static enum pod_code collective_computation(const struct verify *v)
{
    for (uint32_t i = 1; i < v->instr->operand_count; i++)
        if (pod_verify_operand(v, i)->type != pod_verify_operand(v, 0)->type)
            return pod_verify_fail(v, "operands differ in type");
    return pod_verify_scalar_computation(v, 1, 2, false);
}

// Results like the operands: all-reduce, collective-permute and -broadcast.
static enum pod_code collective_alike(const struct verify *v)
{
    for (uint32_t i = 0; i < v->instr->operand_count; i++) {
        const struct pod_shape *part = collective_part(v, i);
        if (part == NULL || !pod_shape_equal(part, pod_verify_operand(v, i)))
            return collective_no_part(v, i);
    }
    return POD_OK;
}

static enum pod_code collective_all_reduce(const struct verify *v)
{
    int64_t size;
    enum pod_code code = collective_begin(v, false, &size);
    if (code == POD_OK)
        code = collective_computation(v);
    return code == POD_OK ? collective_alike(v) : code;
}

static enum pod_code collective_broadcast(const struct verify *v)
{
    int64_t size;
    enum pod_code code = collective_begin(v, true, &size);
    return code == POD_OK ? collective_alike(v) : code;
}

// `large` must be `small` but for dimension `dim`, a multiple: by `size`, or,
// if that is 0, by any number.
static bool collective_multiple(const struct pod_shape *large,
                                const struct pod_shape *small, int64_t dim,
                                int64_t size)
{
    struct pod_shape want = *small;
    if (large == NULL || large->rank != small->rank || dim >= small->rank)
        return false;
    if (size == 0)
        size = small->dims[dim] == 0 ? 1 : large->dims[dim] / small->dims[dim];
    if (size < 1 ||
        __builtin_mul_overflow(want.dims[dim], size, &want.dims[dim]))
        return false;
    return pod_shape_equal(large, &want);
}

static enum pod_code collective_all_gather(const struct verify *v)
{
    int64_t size;
    enum pod_code code = collective_begin(v, true, &size);
    if (code == POD_OK)
        code = collective_dimension(v);
    for (uint32_t i = 0; i < v->instr->operand_count && code == POD_OK; i++)
        if (!collective_multiple(collective_part(v, i),
                                 pod_verify_operand(v, i),
                                 v->instr->proto->dimensions[0], size))
            code = collective_no_part(v, i);
    return code;
}

static enum pod_code collective_reduce_scatter(const struct verify *v)
{
    int64_t size;
    enum pod_code code = collective_begin(v, true, &size);
    if (code == POD_OK)
        code = collective_dimension(v);
    if (code == POD_OK)
        code = collective_computation(v);
    for (uint32_t i = 0; i < v->instr->operand_count && code == POD_OK; i++) {
        const struct pod_shape *part = collective_part(v, i);
        if (part == NULL ||
            !collective_multiple(pod_verify_operand(v, i), part,
                                 v->instr->proto->dimensions[0], size))
            code = collective_no_part(v, i);
    }
    return code;
}

// With a dimension one array is split along it; without, each operand goes to
// one member of the group.
static enum pod_code collective_all_to_all(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    int64_t size;
    enum pod_code code = collective_begin(v, true, &size);
    if (code == POD_OK && proto->n_dimensions > 0) {
        code = collective_dimension(v);
        if (code == POD_OK && v->instr->operand_count != 1)
            return pod_verify_fail(
                v, "with a dimension there must be exactly one operand");
        if (code == POD_OK && size > 0 &&
            pod_verify_operand(v, 0)->dims[proto->dimensions[0]] % size != 0)
            return pod_verify_fail(
                v, "dimension %lld does not split into %lld parts",
                (long long)proto->dimensions[0], (long long)size);
        return code == POD_OK ? collective_alike(v) : code;
    }
    if (code == POD_OK && size > 0 && v->instr->operand_count != size)
        return pod_verify_fail(v, "there are %u operands for groups of %lld",
                               (unsigned)v->instr->operand_count,
                               (long long)size);
    for (uint32_t i = 1; i < v->instr->operand_count && code == POD_OK; i++)
        if (!pod_shape_equal(pod_verify_operand(v, i),
                             pod_verify_operand(v, 0)))
            code = pod_verify_fail(v, "operands differ in shape");
    return code == POD_OK ? collective_alike(v) : code;
}

// Adds an id to a set; it must not be there already, nor be negative.
static enum pod_code collective_once(const struct verify *v,
                                     struct pod_hlo_names *set,
                                     const int64_t *id, const char *what)
{
    enum pod_hlo_names_result added;
    if (*id < 0)
        return pod_verify_fail(v, "%s %lld is negative", what, (long long)*id);
    added = pod_hlo_names_add(set, (const char *)id, sizeof(*id), 0);
    if (added == POD_HLO_NAMES_TAKEN)
        return pod_verify_fail(v, "%s %lld occurs twice", what, (long long)*id);
    if (added == POD_HLO_NAMES_NO_MEMORY)
        return pod_err_set(v->err, POD_REASON_OUT_OF_MEMORY,
                           "no memory to verify the program");
    return POD_OK;
}

static enum pod_code collective_permute(const struct verify *v)
{
    const Xla__HloInstructionProto *proto = v->instr->proto;
    struct pod_hlo_names sources = {.slots = NULL};
    struct pod_hlo_names targets = {.slots = NULL};
    enum pod_code code = pod_verify_arrays(v, 1);
    for (size_t i = 0; i < proto->n_source_target_pairs && code == POD_OK;
         i++) {
        const Xla__SourceTarget *pair = proto->source_target_pairs[i];
        code = collective_once(v, &sources, &pair->source, "source");
        if (code == POD_OK)
            code = collective_once(v, &targets, &pair->target, "target");
    }
    pod_hlo_names_fini(&sources);
    pod_hlo_names_fini(&targets);
    return code == POD_OK ? collective_alike(v) : code;
}

static enum pod_code (*const collective_rules[POD_OP_COUNT])(
    const struct verify *) = {
    [POD_OP_ALL_REDUCE] = collective_all_reduce,
    [POD_OP_ALL_GATHER] = collective_all_gather,
    [POD_OP_REDUCE_SCATTER] = collective_reduce_scatter,
    [POD_OP_ALL_TO_ALL] = collective_all_to_all,
    [POD_OP_COLLECTIVE_PERMUTE] = collective_permute,
    [POD_OP_COLLECTIVE_BROADCAST] = collective_broadcast,
};

bool pod_verify_collective(const struct verify *v, enum pod_code *out)
{
    if (collective_rules[v->instr->opcode] == NULL)
        return false;
    *out = collective_rules[v->instr->opcode](v);
    return true;
}
