// SPDX-License-Identifier: Apache-2.0
// reduce: the dimensions that stay and those that go, each joined where memory
// allows, are two loops around the innermost line of the operand.
//
// One operand and one plain operation is the usual case and has its own loops.
// Any other computation is run once for each element, in an order that keeps
// rounding errors small.
#include <string.h>

#include "core/device/reference/builder.h"
#include "core/device/reference/reducer.h"

struct reduce_dim {
    int64_t count;
    int64_t stride; // elements
};

struct reduce_loop {
    uint32_t rank;
    struct reduce_dim dims[POD_SHAPE_MAX_RANK];
};

// What both ways of reducing walk along. `line` is the innermost run of
// consecutive elements; it stays if `line_stays`.
struct reduce_walk {
    bool is_empty; // no elements go in
    bool line_stays;
    int64_t line;
    struct reduce_loop stay;
    struct reduce_loop go;
    int64_t out_count;
};

// A counter over the dimensions of a loop.
struct reduce_place {
    int64_t index[POD_SHAPE_MAX_RANK];
    int64_t offset; // elements
};

static bool reduce_next(const struct reduce_loop *loop,
                        struct reduce_place *place)
{
    for (uint32_t i = loop->rank; i-- > 0;) {
        const struct reduce_dim *dim = &loop->dims[i];
        place->offset += dim->stride;
        if (++place->index[i] < dim->count)
            return true;
        place->offset -= dim->count * dim->stride;
        place->index[i] = 0;
    }
    return false;
}

static void reduce_loop_add(struct reduce_loop *loop, int64_t count,
                            int64_t stride)
{
    struct reduce_dim *last =
        loop->rank > 0 ? &loop->dims[loop->rank - 1] : NULL;

    if (count == 1)
        return;
    if (last != NULL && last->stride == count * stride) {
        last->count *= count;
        last->stride = stride;
        return;
    }
    loop->dims[loop->rank++] = (struct reduce_dim){count, stride};
}

static void reduce_make_walk(const struct pod_shape *in,
                             const struct pod_shape *out, size_t gone_count,
                             const int64_t *gone, struct reduce_walk *walk)
{
    bool goes[POD_SHAPE_MAX_RANK] = {false};
    int64_t stride = 1;
    int64_t strides[POD_SHAPE_MAX_RANK];
    struct reduce_loop *inner;

    memset(walk, 0, sizeof(*walk));
    walk->out_count = pod_shape_elements(out);
    walk->is_empty = pod_shape_elements(in) == 0;
    walk->line = 1;
    if (walk->is_empty)
        return;
    for (size_t i = 0; i < gone_count; i++)
        goes[gone[i]] = true;
    for (uint32_t i = in->rank; i-- > 0;) {
        strides[i] = stride;
        stride *= in->dims[i];
    }
    for (uint32_t i = 0; i < in->rank; i++)
        reduce_loop_add(goes[i] ? &walk->go : &walk->stay, in->dims[i],
                        strides[i]);
    walk->line_stays =
        walk->stay.rank > 0 && walk->stay.dims[walk->stay.rank - 1].stride == 1;
    inner = walk->line_stays ? &walk->stay : &walk->go;
    if (inner->rank > 0)
        walk->line = inner->dims[--inner->rank].count;
}

// -------------------------------------------------------- one plain operation

enum { REDUCE_COLUMNS = 256 }; // accumulators at a time

struct reduce_simple {
    const struct pod_ref_reducer *reducer;
    size_t size;
    struct reduce_walk walk;
};

// The line goes: one accumulator for each result.
static void reduce_lines(const struct reduce_simple *simple, const char *in,
                         const void *init, char *out)
{
    const struct reduce_walk *walk = &simple->walk;
    struct reduce_place stay = {.offset = 0};
    struct pod_ref_acc acc;

    do {
        struct reduce_place go = {.offset = stay.offset};
        simple->reducer->begin(&acc, init, 0, 1);
        do {
            simple->reducer->line(&acc, in + (size_t)go.offset * simple->size,
                                  walk->line);
        } while (reduce_next(&walk->go, &go));
        simple->reducer->end(out, &acc, 1);
        out += simple->size;
    } while (reduce_next(&walk->stay, &stay));
}

// The line stays: a few neighbouring results at a time.
static void reduce_columns(const struct reduce_simple *simple, const char *in,
                           const void *init, char *out, int64_t count)
{
    const struct reduce_walk *walk = &simple->walk;
    struct reduce_place go = {.offset = 0};
    struct pod_ref_acc accs[REDUCE_COLUMNS];

    simple->reducer->begin(accs, init, 0, count);
    do {
        simple->reducer->rows(accs, in + (size_t)go.offset * simple->size,
                              count);
    } while (reduce_next(&walk->go, &go));
    simple->reducer->end(out, accs, count);
}

static enum pod_code reduce_run_simple(struct pod_ref_run *run,
                                       const struct pod_ref_step *step,
                                       struct pod_err *err)
{
    const struct reduce_simple *simple = step->with.detail;
    const struct reduce_walk *walk = &simple->walk;
    const char *in = run->slots[step->in[0]];
    const void *init = run->slots[step->in[1]];
    char *out = run->slots[step->out];
    struct reduce_place stay = {.offset = 0};

    (void)err;
    if (walk->is_empty) {
        pod_ref_fill(out, init, simple->size, walk->out_count);
        return POD_OK;
    }
    if (!walk->line_stays) {
        reduce_lines(simple, in, init, out);
        return POD_OK;
    }
    do {
        const char *line = in + (size_t)stay.offset * simple->size;
        for (int64_t i = 0; i < walk->line; i += REDUCE_COLUMNS) {
            int64_t count = walk->line - i;
            count = count < REDUCE_COLUMNS ? count : REDUCE_COLUMNS;
            reduce_columns(simple, line + (size_t)i * simple->size, init, out,
                           count);
            out += (size_t)count * simple->size;
        }
    } while (reduce_next(&walk->stay, &stay));
    return POD_OK;
}

static enum pod_code reduce_lower_simple(struct pod_ref_builder *builder,
                                         const struct pod_ref_reducer *reducer,
                                         const struct reduce_walk *walk,
                                         struct pod_err *err)
{
    struct pod_ref_step step = {
        .run = reduce_run_simple,
        .in = {pod_ref_in(builder, 0), pod_ref_in(builder, 1), POD_REF_NONE},
        .flops = (double)pod_shape_elements(pod_ref_shape(builder, 0))};
    struct reduce_simple *simple =
        pod_ref_pool_alloc(&builder->program->pool, 1, sizeof(*simple));

    if (simple == NULL)
        return pod_ref_no_memory(err);
    simple->reducer = reducer;
    simple->size = pod_type_bytes(builder->instr->shape->type);
    simple->walk = *walk;
    step.with.detail = simple;
    return pod_ref_emit_result(builder, &step, err);
}

// ------------------------------------------------------------ any computation

struct reduce_operand {
    uint32_t in;
    uint32_t init;
    uint32_t out;
    uint32_t size;
};

enum {
    REDUCE_BLOCK = 16, // elements that are taken one after another
    REDUCE_LEVELS = 64,
    REDUCE_TEMPS = 2 + REDUCE_LEVELS
};

struct reduce_any {
    uint32_t comp;
    uint32_t count; // operands
    uint32_t temps; // slot: REDUCE_TEMPS uint64_t an operand
    struct reduce_walk walk;
    struct reduce_operand operands[];
};

// How far one result is. The values of blocks are combined in pairs, those of
// pairs in pairs and so on: a sum of halves that takes all its elements one
// after another soon loses them all. Neighbours stay neighbours, so that a
// computation needs to be associative, as XLA wants it, but not commutative.
struct reduce_tree {
    uint64_t *value;   // of the block at hand, one for each operand
    uint64_t *fresh;   // what the computation has made
    uint64_t *pending; // values that wait for the next one of their size
    uint32_t pending_count;
    uint32_t taken;  // elements of the block at hand
    uint64_t blocks; // whole ones
};

// The tree's value becomes that of the computation, whose right half of
// parameters is set. All of it is made before any is stored: the computation
// may hand one operand's value on as another one's.
static enum pod_code reduce_apply(struct pod_ref_run *run,
                                  const struct reduce_any *any,
                                  struct reduce_tree *tree, uint64_t *left,
                                  struct pod_err *err)
{
    const struct pod_ref_comp *comp = &run->program->comps[any->comp];
    enum pod_code code;

    for (uint32_t i = 0; i < any->count; i++)
        run->slots[comp->params[i]] = &left[i];
    code = pod_ref_run_comp(run, any->comp, err);
    if (code != POD_OK)
        return code;
    for (uint32_t i = 0; i < any->count; i++)
        memcpy(&tree->fresh[i], run->slots[comp->roots[i]],
               any->operands[i].size);
    memcpy(tree->value, tree->fresh, any->count * sizeof(*tree->value));
    return POD_OK;
}

// Combines the last pending value with the one at hand.
static enum pod_code reduce_merge(struct pod_ref_run *run,
                                  const struct reduce_any *any,
                                  struct reduce_tree *tree, struct pod_err *err)
{
    const struct pod_ref_comp *comp = &run->program->comps[any->comp];
    uint64_t *left = tree->pending + (size_t)--tree->pending_count * any->count;

    for (uint32_t i = 0; i < any->count; i++)
        run->slots[comp->params[any->count + i]] = &tree->value[i];
    return reduce_apply(run, any, tree, left, err);
}

static enum pod_code reduce_end_block(struct pod_ref_run *run,
                                      const struct reduce_any *any,
                                      struct reduce_tree *tree,
                                      struct pod_err *err)
{
    // The ones at the end of `blocks` are the pending values of equal size.
    for (uint64_t rest = tree->blocks; (rest & 1) != 0; rest >>= 1) {
        enum pod_code code = reduce_merge(run, any, tree, err);
        if (code != POD_OK)
            return code;
    }
    memcpy(tree->pending + (size_t)tree->pending_count * any->count,
           tree->value, any->count * sizeof(*tree->value));
    tree->pending_count++;
    tree->blocks++;
    tree->taken = 0;
    return POD_OK;
}

// Takes the elements at `offset`. The first block has begun with the initial
// values; others begin with an element.
static enum pod_code reduce_take(struct pod_ref_run *run,
                                 const struct reduce_any *any,
                                 struct reduce_tree *tree, int64_t offset,
                                 struct pod_err *err)
{
    const struct pod_ref_comp *comp = &run->program->comps[any->comp];
    bool begins = tree->taken == 0 && tree->blocks > 0;
    enum pod_code code = POD_OK;

    for (uint32_t i = 0; i < any->count; i++) {
        const struct reduce_operand *operand = &any->operands[i];
        char *element =
            (char *)run->slots[operand->in] + (size_t)offset * operand->size;
        run->slots[comp->params[any->count + i]] = element;
        if (begins)
            memcpy(&tree->value[i], element, operand->size);
    }
    if (!begins)
        code = reduce_apply(run, any, tree, tree->value, err);
    if (code == POD_OK && ++tree->taken == REDUCE_BLOCK)
        code = reduce_end_block(run, any, tree, err);
    return code;
}

// Combines what is pending.
static enum pod_code reduce_finish(struct pod_ref_run *run,
                                   const struct reduce_any *any,
                                   struct reduce_tree *tree,
                                   struct pod_err *err)
{
    enum pod_code code = POD_OK;

    if (tree->taken == 0 && tree->pending_count > 0)
        memcpy(tree->value,
               tree->pending + (size_t)--tree->pending_count * any->count,
               any->count * sizeof(*tree->value));
    while (code == POD_OK && tree->pending_count > 0)
        code = reduce_merge(run, any, tree, err);
    return code;
}

static enum pod_code reduce_element(struct pod_ref_run *run,
                                    const struct reduce_any *any,
                                    int64_t in_offset, int64_t out_index,
                                    struct pod_err *err)
{
    const struct reduce_walk *walk = &any->walk;
    struct reduce_place go = {.offset = in_offset};
    int64_t line = walk->line_stays ? 1 : walk->line;
    uint64_t *temps = run->slots[any->temps];
    struct reduce_tree tree = {.value = temps,
                               .fresh = temps + any->count,
                               .pending = temps + (size_t)2 * any->count};
    enum pod_code code = POD_OK;

    for (uint32_t i = 0; i < any->count; i++)
        memcpy(&tree.value[i], run->slots[any->operands[i].init],
               any->operands[i].size);
    do {
        for (int64_t i = 0; !walk->is_empty && i < line; i++) {
            code = reduce_take(run, any, &tree, go.offset + i, err);
            if (code != POD_OK)
                return code;
        }
    } while (reduce_next(&walk->go, &go));
    code = reduce_finish(run, any, &tree, err);
    for (uint32_t i = 0; code == POD_OK && i < any->count; i++)
        memcpy((char *)run->slots[any->operands[i].out] +
                   (size_t)out_index * any->operands[i].size,
               &tree.value[i], any->operands[i].size);
    return code;
}

static enum pod_code reduce_run_any(struct pod_ref_run *run,
                                    const struct pod_ref_step *step,
                                    struct pod_err *err)
{
    const struct reduce_any *any = step->with.detail;
    const struct reduce_walk *walk = &any->walk;
    struct reduce_place stay = {.offset = 0};
    int64_t line = walk->line_stays ? walk->line : 1;
    int64_t done = 0;

    pod_ref_home_roots(run, any->comp);
    while (done < walk->out_count) {
        // Nothing goes in: all results are the same.
        int64_t inner = walk->is_empty ? walk->out_count : line;
        for (int64_t i = 0; i < inner; i++) {
            enum pod_code code =
                reduce_element(run, any, stay.offset + i, done++, err);
            if (code != POD_OK)
                return code;
        }
        reduce_next(&walk->stay, &stay);
    }
    return POD_OK;
}

// The leaf of the result that operand i makes.
static const struct pod_shape *
reduce_out_shape(const struct pod_ref_builder *builder, uint32_t i)
{
    const struct pod_shape *shape = builder->instr->shape;

    return shape->type == POD_TYPE_TUPLE ? &shape->children[i] : shape;
}

static enum pod_code reduce_lower_any(struct pod_ref_builder *builder,
                                      const struct reduce_walk *walk,
                                      struct pod_err *err)
{
    uint32_t count = builder->instr->operand_count / 2;
    struct reduce_any *any =
        pod_ref_pool_alloc(&builder->program->pool, 1,
                           sizeof(*any) + count * sizeof(*any->operands));
    struct pod_ref_step step = {
        .run = reduce_run_any,
        .in = {POD_REF_NONE, POD_REF_NONE, POD_REF_NONE},
        .out = POD_REF_NONE,
        .with.detail = any};
    uint32_t *results;
    enum pod_code code = pod_ref_result_room(builder, count, &results, err);

    if (code != POD_OK)
        return code;
    if (any == NULL)
        return pod_ref_no_memory(err);
    any->comp = builder->instr->called[0];
    any->count = count;
    any->walk = *walk;
    code = pod_ref_slot_new(builder,
                            (uint64_t)count * REDUCE_TEMPS * sizeof(uint64_t),
                            &any->temps, err);
    for (uint32_t i = 0; code == POD_OK && i < count; i++) {
        const struct pod_shape *shape = reduce_out_shape(builder, i);
        any->operands[i] = (struct reduce_operand){
            .in = pod_ref_in(builder, i),
            .init = pod_ref_in(builder, count + i),
            .size = (uint32_t)pod_type_bytes(shape->type)};
        pod_ref_use(builder, any->operands[i].in);
        pod_ref_use(builder, any->operands[i].init);
        code = pod_ref_slot_new(builder, (uint64_t)pod_shape_bytes(shape),
                                &any->operands[i].out, err);
        results[i] = any->operands[i].out;
    }
    return code == POD_OK ? pod_ref_emit(builder, &step, err) : code;
}

enum pod_code pod_ref_lower_reduce(struct pod_ref_builder *builder,
                                   struct pod_err *err)
{
    const struct pod_hlo_instr *instr = builder->instr;
    const struct pod_ref_reducer *reducer = NULL;
    enum pod_opcode opcode =
        pod_ref_simple_op(pod_hlo_called(builder->module, instr, 0));
    struct reduce_walk walk;

    if (instr->operand_count == 0)
        return pod_ref_result(builder, NULL, 0, err);
    reduce_make_walk(pod_ref_shape(builder, 0), reduce_out_shape(builder, 0),
                     instr->proto->n_dimensions, instr->proto->dimensions,
                     &walk);
    if (instr->operand_count == 2 && opcode != POD_OP_COUNT)
        reducer = pod_ref_reducer_find(opcode, pod_ref_shape(builder, 0)->type);
    if (reducer != NULL)
        return reduce_lower_simple(builder, reducer, &walk, err);
    return reduce_lower_any(builder, &walk, err);
}
