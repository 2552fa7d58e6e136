// SPDX-License-Identifier: Apache-2.0
// Collectives: every one gathers the parts of its group and takes from them
// what it needs. Replica numbers are the only ids: there is one partition.
#include <string.h>

#include "core/device/reference/builder.h"
#include "core/device/reference/reducer.h"
#include "core/hlo/groups.h"

// Who meets whom. Group g is ids[starts[g]] up to ids[starts[g + 1]].
struct collective_groups {
    uint32_t *group_of; // by replica
    uint32_t *starts;
    uint32_t *ids;
    uint32_t widest; // members of the biggest group
};

struct collective_any {
    uint32_t comp; // all-reduce: for what is not one plain operation
    const struct pod_ref_reducer *reducer; // or this
    size_t size;                           // bytes of an element
    size_t bytes;                          // of a part
    uint32_t gathered;                     // slot: the parts of the group
    struct collective_groups groups;
    // collective-permute: by replica, who sends to it, or POD_REF_NONE.
    const uint32_t *sources;
};

static uint32_t collective_members(const struct pod_ref_run *run,
                                   const struct collective_any *any,
                                   const uint32_t **out_ids)
{
    uint32_t group = any->groups.group_of[run->replica];

    *out_ids = any->groups.ids + any->groups.starts[group];
    return any->groups.starts[group + 1] - any->groups.starts[group];
}

// Gathers the parts of the caller's group, in group order. All replicas count
// the same collectives, those among one too: in the next one others may meet.
static enum pod_code collective_gather(struct pod_ref_run *run,
                                       const struct collective_any *any,
                                       const void *part, void *out,
                                       struct pod_err *err)
{
    const uint32_t *ids;
    const uint32_t count = collective_members(run, any, &ids);
    const uint64_t sequence = run->sequence++;

    if (any->bytes == 0)
        return POD_OK;
    if (count == 1) {
        memcpy(out, part, any->bytes);
        return POD_OK;
    }
    if (run->exchange == NULL)
        return pod_err_set(err, POD_REASON_INTERNAL,
                           "a collective among %u replicas has no exchange",
                           count);
    return run->exchange->all_gather(run->exchange, run->replica, ids, count,
                                     sequence, part, any->bytes, out,
                                     run->interrupt, err);
}

// ----------------------------------------------------------------- the groups

static enum pod_code collective_make_groups(struct pod_ref_builder *builder,
                                            struct collective_groups *groups,
                                            struct pod_err *err)
{
    struct pod_ref_pool *pool = &builder->program->pool;
    uint32_t replicas = builder->program->replicas;
    struct pod_hlo_groups given;
    enum pod_code code =
        pod_hlo_groups_make(builder->instr, (int64_t)replicas, &given, err);

    if (code != POD_OK)
        return code;
    groups->group_of = pod_ref_pool_alloc(pool, replicas, sizeof(uint32_t));
    groups->starts =
        pod_ref_pool_alloc(pool, given.count + 1, sizeof(uint32_t));
    groups->ids = pod_ref_pool_alloc(pool, replicas, sizeof(uint32_t));
    if (groups->group_of == NULL || groups->starts == NULL ||
        groups->ids == NULL) {
        pod_hlo_groups_fini(&given);
        return pod_ref_no_memory(err);
    }
    for (size_t g = 0; g < given.count; g++) {
        size_t members = given.starts[g + 1] - given.starts[g];
        if (members > groups->widest)
            groups->widest = (uint32_t)members;
        groups->starts[g + 1] = (uint32_t)given.starts[g + 1];
        for (size_t i = given.starts[g]; i < given.starts[g + 1]; i++) {
            groups->ids[i] = (uint32_t)given.ids[i];
            groups->group_of[given.ids[i]] = (uint32_t)g;
        }
    }
    pod_hlo_groups_fini(&given);
    return POD_OK;
}

// A slot for the parts of the biggest group, made by the step that comes next.
static enum pod_code collective_room(struct pod_ref_builder *builder,
                                     struct collective_any *any,
                                     struct pod_err *err)
{
    uint64_t total;

    if (__builtin_mul_overflow((uint64_t)any->bytes, any->groups.widest,
                               &total))
        return pod_ref_refuse(builder, err, POD_REASON_RESOURCE_EXHAUSTED,
                              "%u parts of %zu bytes are too many",
                              any->groups.widest, any->bytes);
    return pod_ref_slot_new(builder, total, &any->gathered, err);
}

typedef enum pod_code collective_fn(struct pod_ref_builder *builder,
                                    uint32_t operand,
                                    const struct collective_groups *groups,
                                    uint32_t *out_slot, struct pod_err *err);

// Lowers an instruction whose operands are exchanged one by one.
static enum pod_code collective_each(struct pod_ref_builder *builder,
                                     collective_fn *lower, struct pod_err *err)
{
    uint32_t count = builder->instr->operand_count;
    struct collective_groups groups = {.widest = 0};
    uint32_t *slots = NULL;
    enum pod_code code = pod_ref_result_room(builder, count, &slots, err);

    if (code == POD_OK)
        code = collective_make_groups(builder, &groups, err);
    for (uint32_t i = 0; code == POD_OK && i < count; i++)
        code = lower(builder, i, &groups, &slots[i], err);
    return code;
}

static struct pod_ref_step collective_step(uint32_t in,
                                           const struct collective_any *any)
{
    return (struct pod_ref_step){.in = {in, POD_REF_NONE, POD_REF_NONE},
                                 .count = (int64_t)(any->bytes / any->size),
                                 .flops = (double)any->bytes,
                                 .with.detail = any};
}

// ----------------------------------------------------------------- all-reduce

// One element at a time through the computation; `total` takes it in.
static enum pod_code collective_combine(struct pod_ref_run *run,
                                        const struct collective_any *any,
                                        char *total, char *part,
                                        struct pod_err *err)
{
    const struct pod_ref_comp *comp = &run->program->comps[any->comp];

    for (size_t at = 0; at < any->bytes; at += any->size) {
        enum pod_code code;
        pod_ref_home_roots(run, any->comp);
        run->slots[comp->params[0]] = total + at;
        run->slots[comp->params[1]] = part + at;
        code = pod_ref_run_comp(run, any->comp, err);
        if (code != POD_OK)
            return code;
        if (run->slots[comp->roots[0]] != total + at)
            memcpy(total + at, run->slots[comp->roots[0]], any->size);
    }
    return POD_OK;
}

enum { COLLECTIVE_PIECE = 256 };

// One plain operation, a few elements of all parts at a time.
static void collective_reduce(const struct collective_any *any,
                              const char *parts, uint32_t part_count,
                              char *total, int64_t count)
{
    struct pod_ref_acc accs[COLLECTIVE_PIECE];

    for (int64_t i = 0; i < count; i += COLLECTIVE_PIECE) {
        const int64_t n =
            count - i < COLLECTIVE_PIECE ? count - i : COLLECTIVE_PIECE;
        const size_t at = (size_t)i * any->size;
        any->reducer->begin(accs, parts + at, 1, n);
        for (uint32_t part = 1; part < part_count; part++)
            any->reducer->rows(accs, parts + (size_t)part * any->bytes + at, n);
        any->reducer->end(total + at, accs, n);
    }
}

static enum pod_code collective_all_reduce(struct pod_ref_run *run,
                                           const struct pod_ref_step *step,
                                           struct pod_err *err)
{
    const struct collective_any *any = step->with.detail;
    char *parts = run->slots[any->gathered];
    char *total = run->slots[step->out];
    const uint32_t *ids;
    uint32_t count = collective_members(run, any, &ids);
    enum pod_code code =
        collective_gather(run, any, run->slots[step->in[0]], parts, err);

    if (code != POD_OK || any->bytes == 0)
        return code;
    if (any->reducer != NULL) {
        collective_reduce(any, parts, count, total, step->count);
        return POD_OK;
    }
    memcpy(total, parts, any->bytes);
    for (uint32_t i = 1; code == POD_OK && i < count; i++)
        code = collective_combine(run, any, total,
                                  parts + (size_t)i * any->bytes, err);
    return code;
}

// The reduction of one operand.
static enum pod_code
collective_reduce_one(struct pod_ref_builder *builder, uint32_t operand,
                      const struct collective_groups *groups,
                      uint32_t *out_slot, struct pod_err *err)
{
    const struct pod_hlo_instr *instr = builder->instr;
    const struct pod_shape *shape = pod_ref_shape(builder, operand);
    enum pod_opcode opcode =
        pod_ref_simple_op(pod_hlo_called(builder->module, instr, 0));
    struct collective_any *any =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*any));
    struct pod_ref_step step;
    enum pod_code code;

    if (any == NULL)
        return pod_ref_no_memory(err);
    any->comp = instr->called[0];
    any->size = pod_type_bytes(shape->type);
    any->bytes = (size_t)pod_shape_bytes(shape);
    any->groups = *groups;
    if (opcode != POD_OP_COUNT)
        any->reducer = pod_ref_reducer_find(opcode, shape->type);
    step = collective_step(pod_ref_in(builder, operand), any);
    step.run = collective_all_reduce;
    code = collective_room(builder, any, err);
    return code == POD_OK
               ? pod_ref_emit_new(builder, &step, any->bytes, out_slot, err)
               : code;
}

enum pod_code pod_ref_lower_all_reduce(struct pod_ref_builder *builder,
                                       struct pod_err *err)
{
    return collective_each(builder, collective_reduce_one, err);
}

// ----------------------------------------------------------------- all-gather

static enum pod_code collective_all_gather(struct pod_ref_run *run,
                                           const struct pod_ref_step *step,
                                           struct pod_err *err)
{
    const struct collective_any *any = step->with.detail;

    return collective_gather(run, any, run->slots[step->in[0]],
                             run->slots[any->gathered], err);
}

// The parts, which lie one behind the other, put side by side along a
// dimension.
static enum pod_code collective_lay_out(struct pod_ref_builder *builder,
                                        const struct pod_shape *from,
                                        const struct pod_shape *to,
                                        const struct collective_any *any,
                                        uint32_t *out_slot, struct pod_err *err)
{
    uint32_t along = (uint32_t)builder->instr->proto->dimensions[0];
    struct pod_ref_move_plan plan = {.size = any->size, .rank = from->rank + 1};
    int64_t in_strides[POD_SHAPE_MAX_RANK];
    int64_t out_strides[POD_SHAPE_MAX_RANK];
    uint64_t bytes = (uint64_t)pod_shape_bytes(to);

    if (from->rank == POD_SHAPE_MAX_RANK)
        return pod_ref_refuse(builder, err, POD_REASON_UNIMPLEMENTED,
                              "all-gather of rank %d is not implemented by the "
                              "device \"reference\"",
                              POD_SHAPE_MAX_RANK);
    pod_ref_strides(from, in_strides);
    pod_ref_strides(to, out_strides);
    plan.dims[0] =
        (struct pod_ref_move_dim){.count = any->groups.widest,
                                  .from = (int64_t)any->bytes,
                                  .to = from->dims[along] * out_strides[along]};
    for (uint32_t i = 0; i < from->rank; i++)
        plan.dims[i + 1] = (struct pod_ref_move_dim){.count = from->dims[i],
                                                     .from = in_strides[i],
                                                     .to = out_strides[i]};
    return pod_ref_emit_move(builder, &plan, any->gathered, bytes, out_slot,
                             err);
}

static enum pod_code
collective_gather_one(struct pod_ref_builder *builder, uint32_t operand,
                      const struct collective_groups *groups,
                      uint32_t *out_slot, struct pod_err *err)
{
    const struct pod_shape *from = pod_ref_shape(builder, operand);
    const struct pod_shape *to = builder->instr->shape;
    struct collective_any *any =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*any));
    struct pod_ref_step step;
    enum pod_code code;

    if (any == NULL)
        return pod_ref_no_memory(err);
    if (to->type == POD_TYPE_TUPLE)
        to = &to->children[operand];
    any->size = pod_type_bytes(from->type);
    any->bytes = (size_t)pod_shape_bytes(from);
    any->groups = *groups;
    if ((uint64_t)pod_shape_bytes(to) != (uint64_t)any->bytes * groups->widest)
        return pod_ref_refuse(builder, err, POD_REASON_INVALID_PROGRAM,
                              "the result is not %u parts long",
                              groups->widest);
    step = collective_step(pod_ref_in(builder, operand), any);
    step.run = collective_all_gather;
    code = collective_room(builder, any, err);
    step.out = any->gathered;
    if (code == POD_OK)
        code = pod_ref_emit(builder, &step, err);
    if (code == POD_OK)
        code = collective_lay_out(builder, from, to, any, out_slot, err);
    return code;
}

enum pod_code pod_ref_lower_all_gather(struct pod_ref_builder *builder,
                                       struct pod_err *err)
{
    return collective_each(builder, collective_gather_one, err);
}

// --------------------------------------------------------- collective-permute

static enum pod_code collective_permute(struct pod_ref_run *run,
                                        const struct pod_ref_step *step,
                                        struct pod_err *err)
{
    const struct collective_any *any = step->with.detail;
    uint32_t source = any->sources[run->replica];
    char *parts = run->slots[any->gathered];
    enum pod_code code =
        collective_gather(run, any, run->slots[step->in[0]], parts, err);

    if (code != POD_OK || any->bytes == 0)
        return code;
    if (source == POD_REF_NONE)
        memset(run->slots[step->out], 0, any->bytes);
    else // the group is all replicas in order
        memcpy(run->slots[step->out], parts + (size_t)source * any->bytes,
               any->bytes);
    return POD_OK;
}

static enum pod_code collective_make_sources(struct pod_ref_builder *builder,
                                             struct collective_any *any,
                                             struct pod_err *err)
{
    const Xla__HloInstructionProto *proto = builder->instr->proto;
    struct pod_ref_pool *pool = &builder->program->pool;
    uint32_t replicas = builder->program->replicas;
    uint32_t *sources = pod_ref_pool_alloc(pool, replicas, sizeof(*sources));
    uint32_t *ids = pod_ref_pool_alloc(pool, replicas, sizeof(*ids));
    uint32_t *starts = pod_ref_pool_alloc(pool, 2, sizeof(*starts));

    any->groups.group_of = pod_ref_pool_alloc(pool, replicas, sizeof(*ids));
    if (sources == NULL || ids == NULL || starts == NULL ||
        any->groups.group_of == NULL)
        return pod_ref_no_memory(err);
    for (uint32_t i = 0; i < replicas; i++) {
        sources[i] = POD_REF_NONE;
        ids[i] = i;
    }
    starts[1] = replicas;
    for (size_t i = 0; i < proto->n_source_target_pairs; i++) {
        int64_t source = proto->source_target_pairs[i]->source;
        int64_t target = proto->source_target_pairs[i]->target;
        if (source < 0 || source >= replicas || target < 0 ||
            target >= replicas)
            return pod_ref_refuse(builder, err, POD_REASON_INVALID_PROGRAM,
                                  "source and target {%lld,%lld} are not below "
                                  "the number of replicas, %u",
                                  (long long)source, (long long)target,
                                  replicas);
        sources[target] = (uint32_t)source;
    }
    any->sources = sources;
    any->groups.ids = ids;
    any->groups.starts = starts;
    any->groups.widest = replicas;
    return POD_OK;
}

enum pod_code pod_ref_lower_collective_permute(struct pod_ref_builder *builder,
                                               struct pod_err *err)
{
    const struct pod_hlo_instr *instr = builder->instr;
    struct collective_any *any =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*any));
    struct pod_ref_step step;
    enum pod_code code;

    if (any == NULL)
        return pod_ref_no_memory(err);
    if (instr->operand_count != 1 || instr->shape->type == POD_TYPE_TUPLE)
        return pod_ref_refuse(builder, err, POD_REASON_UNIMPLEMENTED,
                              "collective-permute of several arrays is not "
                              "implemented by the device \"reference\"");
    if (instr->proto->channel_id > 0)
        return pod_ref_refuse(builder, err, POD_REASON_UNIMPLEMENTED,
                              "collective-permute among partitions is not "
                              "implemented by the device \"reference\"");
    any->size = pod_type_bytes(instr->shape->type);
    any->bytes = (size_t)pod_shape_bytes(instr->shape);
    step = collective_step(pod_ref_in(builder, 0), any);
    step.run = collective_permute;
    code = collective_make_sources(builder, any, err);
    if (code == POD_OK)
        code = collective_room(builder, any, err);
    return code == POD_OK ? pod_ref_emit_result(builder, &step, err) : code;
}

// ------------------------------------------------------------------------ ids

static enum pod_code collective_replica_id(struct pod_ref_run *run,
                                           const struct pod_ref_step *step,
                                           struct pod_err *err)
{
    (void)err;
    memcpy(run->slots[step->out], &run->replica, sizeof(run->replica));
    return POD_OK;
}

enum pod_code pod_ref_lower_replica_id(struct pod_ref_builder *builder,
                                       struct pod_err *err)
{
    struct pod_ref_step step = {
        .run = collective_replica_id,
        .in = {POD_REF_NONE, POD_REF_NONE, POD_REF_NONE}};

    return pod_ref_emit_result(builder, &step, err);
}

enum pod_code pod_ref_lower_partition_id(struct pod_ref_builder *builder,
                                         struct pod_err *err)
{
    static const uint32_t zero;
    uint32_t slot;
    enum pod_code code =
        pod_ref_slot_fixed(builder, sizeof(zero), &zero, &slot, err);

    return code == POD_OK ? pod_ref_result(builder, &slot, 1, err) : code;
}
