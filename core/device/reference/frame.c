// SPDX-License-Identifier: Apache-2.0
// Placing the arrays of a computation in its frame.
//
// Walks the steps in order. An array takes a free block of its size class, or
// of one up to twice as big, or fresh memory at the end; after the step that
// reads it last its block is free again. An array may also take over the block
// of an operand that ends there. Costs a constant for each array.
#include <string.h>

#include "core/base/mem.h"
#include "core/device/reference/builder.h"

enum {
    FRAME_ALIGN_BITS = 6, // blocks are multiples of 64 bytes
    FRAME_CLASSES = 64 * 4,
    FRAME_LOOK_UP = 4, // classes tried: up to double the size
};

struct frame_block {
    uint64_t offset;
    uint32_t size_class;
    uint32_t next; // free block of the class
};

struct frame {
    struct pod_ref_builder *builder;
    uint32_t count; // arrays of this computation
    uint32_t steps;
    // Lists of arrays by step: those it makes, those it reads last.
    uint32_t *made;
    uint32_t *made_next;
    uint32_t *last;
    uint32_t *last_next;
    uint32_t *block_of; // of each array; POD_REF_NONE: none, or passed on
    struct frame_block *blocks;
    uint32_t block_count;
    uint32_t free[FRAME_CLASSES];
    uint64_t end;
};

// Four classes for each doubling. `*out_size` is the size of its blocks.
static uint32_t frame_class(uint64_t bytes, uint64_t *out_size)
{
    uint64_t units = (bytes + (1U << FRAME_ALIGN_BITS) - 1) >> FRAME_ALIGN_BITS;
    uint32_t shift = 0;

    if (units == 0)
        units = 1;
    if (units >= 8) {
        shift = 61U - (uint32_t)__builtin_clzll(units);
        units = (units + (UINT64_C(1) << shift) - 1) >> shift;
        if (units == 8) {
            units = 4;
            shift++;
        }
    }
    *out_size = units << (shift + FRAME_ALIGN_BITS);
    return shift * 4 + (uint32_t)units;
}

static enum pod_code frame_take(struct frame *frame, uint64_t bytes,
                                uint32_t *out_block, struct pod_err *err)
{
    uint64_t size;
    uint32_t wanted = frame_class(bytes, &size);

    for (uint32_t c = wanted; c <= wanted + FRAME_LOOK_UP; c++) {
        uint32_t block = c < FRAME_CLASSES ? frame->free[c] : POD_REF_NONE;
        if (block != POD_REF_NONE) {
            frame->free[c] = frame->blocks[block].next;
            *out_block = block;
            return POD_OK;
        }
    }
    if (size > frame->builder->scratch_bytes ||
        frame->end > frame->builder->scratch_bytes - size)
        return pod_err_set(
            err, POD_REASON_RESOURCE_EXHAUSTED,
            "computation \"%s\" needs more than the %llu bytes of memory that "
            "an execution may take for values between its inputs and outputs",
            frame->builder->hlo->proto->name,
            (unsigned long long)frame->builder->scratch_bytes);
    frame->blocks[frame->block_count] =
        (struct frame_block){.offset = frame->end, .size_class = wanted};
    frame->end += size;
    *out_block = frame->block_count++;
    return POD_OK;
}

static void frame_give(struct frame *frame, uint32_t slot)
{
    uint32_t block = frame->block_of[slot];

    if (block == POD_REF_NONE)
        return;
    frame->blocks[block].next = frame->free[frame->blocks[block].size_class];
    frame->free[frame->blocks[block].size_class] = block;
    frame->block_of[slot] = POD_REF_NONE;
}

// The block of an operand that ends at this step and is as big, or none.
static uint32_t frame_inherited(struct frame *frame, uint32_t slot)
{
    const struct pod_ref_builder *builder = frame->builder;
    uint32_t first = builder->first_slot;
    const struct pod_ref_life *life = &builder->lives[first + slot];

    for (int i = 0; i < 2; i++) {
        uint32_t from = life->heirs_of[i];
        uint32_t block;
        if (from == POD_REF_NONE || builder->lives[from].last != life->made ||
            builder->slots[from].bytes != builder->slots[first + slot].bytes)
            continue;
        block = frame->block_of[from - first];
        frame->block_of[from - first] = POD_REF_NONE;
        if (block != POD_REF_NONE)
            return block;
    }
    return POD_REF_NONE;
}

static enum pod_code frame_step(struct frame *frame, uint32_t step,
                                struct pod_err *err)
{
    struct pod_ref_slot *slots =
        frame->builder->slots + frame->builder->first_slot;
    uint32_t slot;

    for (slot = frame->made[step]; slot != POD_REF_NONE;
         slot = frame->made_next[slot]) {
        uint32_t block = frame_inherited(frame, slot);
        if (block == POD_REF_NONE) {
            enum pod_code code =
                frame_take(frame, slots[slot].bytes, &block, err);
            if (code != POD_OK)
                return code;
        }
        frame->block_of[slot] = block;
        slots[slot].offset = frame->blocks[block].offset;
    }
    for (slot = frame->last[step]; slot != POD_REF_NONE;
         slot = frame->last_next[slot])
        frame_give(frame, slot);
    return POD_OK;
}

static void frame_index(struct frame *frame)
{
    const struct pod_ref_builder *builder = frame->builder;

    for (uint32_t step = 0; step <= frame->steps; step++) {
        frame->made[step] = POD_REF_NONE;
        frame->last[step] = POD_REF_NONE;
    }
    for (uint32_t slot = 0; slot < frame->count; slot++) {
        const struct pod_ref_life *life =
            &builder->lives[builder->first_slot + slot];
        uint32_t last = life->last != POD_REF_NONE ? life->last : life->made;
        frame->block_of[slot] = POD_REF_NONE;
        if (!builder->slots[builder->first_slot + slot].in_arena)
            continue;
        frame->made_next[slot] = frame->made[life->made];
        frame->made[life->made] = slot;
        frame->last_next[slot] = frame->last[last];
        frame->last[last] = slot;
    }
}

enum pod_code pod_ref_frame(struct pod_ref_builder *builder,
                            struct pod_err *err)
{
    struct frame frame = {.builder = builder,
                          .count = builder->slot_count - builder->first_slot,
                          .steps = builder->step_count};
    size_t lists = (size_t)frame.steps + 1;
    size_t words = lists * 2 + (size_t)frame.count * 3;
    uint32_t *memory = pod_calloc(words, sizeof(*memory));
    enum pod_code code = POD_OK;

    frame.blocks = pod_calloc(frame.count, sizeof(*frame.blocks));
    if (memory == NULL || frame.blocks == NULL) {
        code = pod_ref_no_memory(err);
        goto out;
    }
    frame.made = memory;
    frame.last = frame.made + lists;
    frame.made_next = frame.last + lists;
    frame.last_next = frame.made_next + frame.count;
    frame.block_of = frame.last_next + frame.count;
    memset(frame.free, 0xff, sizeof(frame.free)); // POD_REF_NONE each
    frame_index(&frame);
    for (uint32_t step = 0; code == POD_OK && step < frame.steps; step++)
        code = frame_step(&frame, step, err);
    builder->comp->frame_bytes = frame.end;
out:
    pod_free(frame.blocks);
    pod_free(memory);
    return code;
}
