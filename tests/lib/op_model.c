// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/op_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

// Of the four bytes of a value; so sums of sums do not overflow.
enum { RANDOM_BYTES = 2 };

static const char *const words[] = {"increment", "fail", "sum",
                                    "more than a word, so no program"};

uint64_t model_pick(struct model *model, uint64_t below)
{
    uint64_t mixed = (model->seed += UINT64_C(0x9E3779B97F4A7C15));

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94D049BB133111EB);
    return (mixed ^ (mixed >> 31)) % below;
}

static struct model_op *new_op(struct model *model, enum pod_kind kind)
{
    struct model_op *op = &model->ops[model->op_count++];

    assert_true(model->op_count <= MODEL_OPS);
    op->kind = kind;
    return op;
}

// An edge that carries something.
static void carry(struct model *model, struct model_op *op, size_t dep)
{
    const struct model_op *from = &model->ops[dep];

    if (!from->bad)
        return;
    op->bad = true;
    op->skipped = true;
    for (size_t i = 0; i < MODEL_OPS; i++)
        op->roots[i] = op->roots[i] || from->roots[i];
}

static void fail_by_itself(struct model *model, struct model_op *op)
{
    op->bad = true;
    op->roots[op - model->ops] = true;
}

static size_t index_of(const struct model *model, const struct model_op *op)
{
    return (size_t)(op - model->ops);
}

// -------------------------------------------------------------- references

// How the present batch names what an operation made: by number, or, if it is
// of this batch, by its place.
static struct pod_ref ref_to(const struct model *model, enum pod_ref_kind kind,
                             size_t maker)
{
    for (size_t i = 0; i < model->batch_count; i++) {
        if (model->makes[i] == maker)
            return (struct pod_ref){.kind = POD_REF_REQUEST, .number = i};
        // An automatic output stands just before its execution.
        if (model->makes[i] == maker + 1 &&
            model->requests[i].kind == POD_KIND_EXECUTE &&
            model->requests[i].execute.launches[0].auto_outputs)
            return (struct pod_ref){
                .kind = POD_REF_REQUEST, .number = i, .has_output = true};
    }
    return (struct pod_ref){.kind = kind, .number = model->ops[maker].number};
}

static struct pod_ref buffer_ref(const struct model *model,
                                 const struct model_buffer *buffer)
{
    return ref_to(model, POD_REF_BUFFER, buffer->maker);
}

// A buffer that is not freed, of a core (UINT32_MAX: any); NULL: none.
static struct model_buffer *pick_buffer(struct model *model, uint32_t core)
{
    size_t fitting = 0;
    struct model_buffer *found = NULL;

    for (size_t i = 0; i < model->buffer_count; i++) {
        struct model_buffer *buffer = &model->buffers[i];
        if (buffer->freed || (core != UINT32_MAX && buffer->core != core))
            continue;
        if (model_pick(model, ++fitting) == 0)
            found = buffer;
    }
    return found;
}

static struct model_load *pick_load(struct model *model, bool gang)
{
    size_t fitting = 0;
    struct model_load *found = NULL;

    for (size_t i = 0; i < model->load_count; i++) {
        struct model_load *load = &model->loads[i];
        if (load->freed || (load->word == MODEL_WORD_SUM) != gang)
            continue;
        if (model_pick(model, ++fitting) == 0)
            found = load;
    }
    return found;
}

// ------------------------------------------------------------------- steps

// The request that stands for the newest operation.
static struct pod_request *new_request(struct model *model, enum pod_kind kind)
{
    struct pod_request *request = &model->requests[model->batch_count];

    *request = (struct pod_request){
        .kind = kind,
        .deadline_ns = POD_NEVER,
        .priority = (int)model_pick(model, 21) - 10,
    };
    return request;
}

static void add_request(struct model *model, size_t op)
{
    model->makes[model->batch_count++] = op;
}

// Some operations name another to wait for.
static void add_after(struct model *model, struct pod_request *request,
                      struct model_op *op)
{
    size_t older = index_of(model, op);

    if (older == 0 || model_pick(model, 6) != 0)
        return;
    size_t dep = model_pick(model, older);
    struct pod_ref *after = &model->refs[model->batch_count][7];
    *after = ref_to(model, POD_REF_OP, dep);
    // Not the automatic outputs of this batch: they have no number yet.
    if (after->kind == POD_REF_REQUEST ? after->has_output : after->number == 0)
        return;
    request->after = after;
    request->after_count = 1;
    carry(model, op, dep);
}

static struct pod_blob *new_blob(struct model *model, size_t size,
                                 unsigned char *out_bytes)
{
    struct pod_blob *blob = pod_blob_new(size);

    assert_non_null(blob);
    memset(blob->data, 0, size);
    for (size_t i = 0; i < size && i < RANDOM_BYTES; i++)
        blob->data[i] = (unsigned char)model_pick(model, 256);
    memcpy(out_bytes, blob->data, size);
    model->blobs[model->batch_count] = blob;
    return blob;
}

static struct model_buffer *new_buffer(struct model *model, size_t maker,
                                       uint32_t core)
{
    struct model_buffer *buffer = &model->buffers[model->buffer_count++];

    assert_true(model->buffer_count <= MODEL_BUFFERS);
    *buffer =
        (struct model_buffer){.maker = maker, .writer = maker, .core = core};
    return buffer;
}

static void step_allocate(struct model *model)
{
    static struct pod_shape scalar;
    struct model_op *op = new_op(model, POD_KIND_ALLOCATE);
    struct pod_request *request = new_request(model, POD_KIND_ALLOCATE);
    uint32_t core = (uint32_t)model_pick(model, model->cores);
    struct model_buffer *buffer = new_buffer(model, index_of(model, op), core);

    assert_int_equal(pod_shape_array(&scalar, POD_TYPE_S32, 0, NULL, NULL),
                     POD_OK);
    request->allocate.core = core;
    if (model_pick(model, 2) == 0)
        request->allocate.shape = &scalar;
    else
        request->allocate.bytes = 4;
    add_after(model, request, op);
    uint64_t how = model_pick(model, 3);
    if (how == 1)
        request->allocate.data = new_blob(model, 4, buffer->bytes);
    if (how == 2) {
        request->allocate.fill_size = 4;
        for (size_t i = 0; i < RANDOM_BYTES; i++)
            request->allocate.fill[i] = buffer->bytes[i] =
                (unsigned char)model_pick(model, 256);
    }
    add_request(model, index_of(model, op));
}

// Whether a write of the whole buffer is known to be one: the size of an
// automatic output is known when its program has been compiled.
static bool knows_size(const struct model *model,
                       const struct model_buffer *buffer)
{
    return model->compiled || !buffer->automatic ||
           !model->ops[buffer->writer].bad;
}

// The operation has become the last writer of a buffer.
static void wrote(struct model *model, struct model_buffer *buffer,
                  const struct model_op *op, size_t offset,
                  const unsigned char *bytes, size_t size)
{
    buffer->writer = index_of(model, op);
    if (!op->bad)
        memcpy(buffer->bytes + offset, bytes, size);
}

static void step_write(struct model *model)
{
    struct model_buffer *buffer = pick_buffer(model, UINT32_MAX);
    bool whole = model_pick(model, 2) == 0;
    unsigned char bytes[4];

    if (buffer == NULL || (whole && !knows_size(model, buffer)))
        return;
    struct model_op *op = new_op(model, POD_KIND_WRITE);
    struct pod_request *request = new_request(model, POD_KIND_WRITE);
    request->write.buffer = buffer_ref(model, buffer);
    request->write.offset = whole ? 0 : model_pick(model, RANDOM_BYTES);
    size_t room = RANDOM_BYTES - request->write.offset;
    size_t size = whole ? 4 : 1 + model_pick(model, room);
    request->write.data = new_blob(model, size, bytes);
    carry(model, op, buffer->maker);
    if (!whole)
        carry(model, op, buffer->writer);
    add_after(model, request, op);
    wrote(model, buffer, op, request->write.offset, bytes, size);
    add_request(model, index_of(model, op));
}

static void read_buffer(struct model *model, struct model_buffer *buffer)
{
    struct model_op *op = new_op(model, POD_KIND_READ);
    struct pod_request *request = new_request(model, POD_KIND_READ);

    request->read.buffer = buffer_ref(model, buffer);
    request->read.offset = model_pick(model, 4);
    op->data_size = 4 - request->read.offset;
    if (model_pick(model, 2) == 0) {
        request->read.length = UINT64_MAX;
    } else {
        op->data_size = 1 + model_pick(model, op->data_size);
        request->read.length = op->data_size;
    }
    carry(model, op, buffer->maker);
    // Some read what is there whatever became of the last writer.
    op->runs_anyway = !op->bad && model_pick(model, 4) == 0;
    request->run_on_failure = op->runs_anyway;
    if (!op->runs_anyway) {
        carry(model, op, buffer->writer);
        add_after(model, request, op);
    }
    memcpy(op->data, buffer->bytes + request->read.offset, op->data_size);
    add_request(model, index_of(model, op));
}

static void step_read(struct model *model)
{
    struct model_buffer *buffer = pick_buffer(model, UINT32_MAX);

    if (buffer != NULL)
        read_buffer(model, buffer);
}

static void step_copy(struct model *model)
{
    struct model_buffer *from = pick_buffer(model, UINT32_MAX);
    struct model_buffer *to = pick_buffer(model, UINT32_MAX);

    if (from == to || !knows_size(model, to))
        return;
    struct model_op *op = new_op(model, POD_KIND_COPY);
    struct pod_request *request = new_request(model, POD_KIND_COPY);
    request->copy.from = buffer_ref(model, from);
    request->copy.to = buffer_ref(model, to);
    carry(model, op, from->maker);
    carry(model, op, from->writer);
    carry(model, op, to->maker);
    add_after(model, request, op);
    wrote(model, to, op, 0, from->bytes, 4);
    add_request(model, index_of(model, op));
}

static void step_free(struct model *model)
{
    struct model_buffer *buffer = pick_buffer(model, UINT32_MAX);

    if (buffer == NULL)
        return;
    struct model_op *op = new_op(model, POD_KIND_FREE);
    struct pod_request *request = new_request(model, POD_KIND_FREE);
    request->free.handle = buffer_ref(model, buffer);
    buffer->freed = true;
    add_request(model, index_of(model, op));
}

static void step_load(struct model *model)
{
    if (model->load_count == MODEL_LOADS)
        return;
    struct model_load *load = &model->loads[model->load_count++];
    struct model_op *op = new_op(model, POD_KIND_LOAD);
    struct pod_request *request = new_request(model, POD_KIND_LOAD);
    *load = (struct model_load){
        .maker = index_of(model, op),
        .word = (enum model_word)model_pick(model, MODEL_WORD_COUNT),
        .core = (uint32_t)model_pick(model, model->cores),
    };
    request->load.core = load->core;
    request->load.program =
        ref_to(model, POD_REF_PROGRAM, model->programs[load->word]);
    carry(model, op, model->programs[load->word]);
    add_after(model, request, op);
    add_request(model, index_of(model, op));
}

static void step_unload(struct model *model)
{
    struct model_load *load = pick_load(model, model_pick(model, 3) == 0);

    if (load == NULL)
        return;
    struct model_op *op = new_op(model, POD_KIND_UNLOAD);
    struct pod_request *request = new_request(model, POD_KIND_UNLOAD);
    request->unload.load = ref_to(model, POD_REF_LOAD, load->maker);
    load->freed = true;
    add_request(model, index_of(model, op));
}

static void add_bytes(unsigned char *to, const unsigned char *from,
                      int32_t number)
{
    int32_t value;

    memcpy(&value, from, 4);
    uint32_t sum = (uint32_t)value + (uint32_t)number;
    memcpy(to, &sum, 4);
}

// The members of one launch; its inputs' and load's failures are carried.
static void set_launch(struct model *model, struct model_op *op, size_t index,
                       const struct model_load *load,
                       const struct model_buffer *input,
                       const struct model_buffer *output)
{
    struct pod_ref *refs = &model->refs[model->batch_count][2 * index];

    refs[0] = buffer_ref(model, input);
    model->launches[model->batch_count][index] = (struct pod_launch){
        .load = ref_to(model, POD_REF_LOAD, load->maker),
        .inputs = &refs[0],
        .input_count = 1,
        .auto_outputs = output == NULL,
    };
    if (output != NULL) {
        refs[1] = buffer_ref(model, output);
        model->launches[model->batch_count][index].outputs = &refs[1];
        model->launches[model->batch_count][index].output_count = 1;
        carry(model, op, output->maker);
    }
    carry(model, op, load->maker);
    carry(model, op, input->maker);
    carry(model, op, input->writer);
}

static void step_execute(struct model *model)
{
    struct model_load *load = pick_load(model, false);
    if (load == NULL)
        return;
    struct model_buffer *input = pick_buffer(model, load->core);
    if (input == NULL)
        return;
    struct model_buffer *output =
        model_pick(model, 3) == 0 ? NULL : pick_buffer(model, load->core);
    if (output == NULL && model->buffer_count == MODEL_BUFFERS)
        return;
    struct model_buffer *made = output;
    struct model_op *allocate = NULL;
    if (output == NULL) {
        allocate = new_op(model, POD_KIND_ALLOCATE);
        carry(model, allocate, load->maker);
        made = new_buffer(model, index_of(model, allocate), load->core);
        made->automatic = true;
    }
    struct model_op *op = new_op(model, POD_KIND_EXECUTE);
    struct pod_request *request = new_request(model, POD_KIND_EXECUTE);
    set_launch(model, op, 0, load, input, output);
    request->execute.launches = model->launches[model->batch_count];
    request->execute.launch_count = 1;
    if (allocate != NULL)
        carry(model, op, made->maker);
    add_after(model, request, op);
    if (!op->bad && load->word == MODEL_WORD_FAIL)
        fail_by_itself(model, op);
    unsigned char result[4];
    add_bytes(result, input->bytes, 1);
    wrote(model, made, op, 0, result, 4);
    add_request(model, index_of(model, op));
}

static void step_gang(struct model *model)
{
    struct model_load *loads[2] = {pick_load(model, true),
                                   pick_load(model, true)};
    struct model_buffer *inputs[2], *outputs[2];

    if (loads[0] == NULL || loads[0]->core == loads[1]->core)
        return;
    for (size_t i = 0; i < 2; i++) {
        inputs[i] = pick_buffer(model, loads[i]->core);
        outputs[i] = pick_buffer(model, loads[i]->core);
        if (inputs[i] == NULL)
            return;
    }
    struct model_op *op = new_op(model, POD_KIND_EXECUTE);
    struct pod_request *request = new_request(model, POD_KIND_EXECUTE);
    request->execute.launches = model->launches[model->batch_count];
    request->execute.launch_count = 2;
    request->execute.is_gang = true;
    for (size_t i = 0; i < 2; i++)
        set_launch(model, op, i, loads[i], inputs[i], outputs[i]);
    add_after(model, request, op);
    unsigned char sum[4];
    int32_t second;
    memcpy(&second, inputs[1]->bytes, 4);
    add_bytes(sum, inputs[0]->bytes, second);
    for (size_t i = 0; i < 2; i++)
        wrote(model, outputs[i], op, 0, sum, 4);
    add_request(model, index_of(model, op));
}

static void step_compile(struct model *model, enum model_word word)
{
    struct model_op *op = new_op(model, POD_KIND_COMPILE);
    struct pod_request *request = new_request(model, POD_KIND_COMPILE);
    size_t length = strlen(words[word]);
    struct pod_blob *blob = pod_blob_new(length);

    assert_non_null(blob);
    memcpy(blob->data, words[word], length);
    model->blobs[model->batch_count] = blob;
    model->programs[word] = index_of(model, op);
    request->compile.format = POD_FORMAT_HLO_TEXT;
    request->compile.program = blob;
    request->compile.replicas = word == MODEL_WORD_SUM ? 2 : 1;
    request->compile.digest = words[word];
    if (word == MODEL_WORD_BROKEN)
        fail_by_itself(model, op);
    add_request(model, index_of(model, op));
}

// ----------------------------------------------------------------- running

static enum pod_code submit_graph(struct model *model, uint64_t *numbers,
                                  struct pod_err *err)
{
    const struct pod_request self = {.kind = POD_KIND_GRAPH,
                                     .deadline_ns = POD_NEVER};
    const struct pod_request *ops[MODEL_BATCH];
    struct pod_faults faults = {.items = err, .capacity = 1};
    struct pod_err refusal;
    uint64_t number;

    for (size_t i = 0; i < model->batch_count; i++)
        ops[i] = &model->requests[i];
    const struct pod_graph_request graph = {
        .self = &self, .ops = ops, .count = model->batch_count};
    return pod_submit_graph(model->pod, &graph, &number, numbers, &faults,
                            &refusal);
}

static void submit(struct model *model)
{
    uint64_t numbers[MODEL_BATCH];
    struct pod_err err = POD_ERR_NONE;

    if (model->batch_count == 0)
        return;
    enum pod_code code =
        model->graphs ? submit_graph(model, numbers, &err)
                      : pod_submit(model->pod, model->requests,
                                   model->batch_count, numbers, NULL, &err);
    if (code != POD_OK)
        fail_msg("refused at '%s': %s", err.pointer, err.text);
    for (size_t i = 0; i < model->batch_count; i++) {
        model->ops[model->makes[i]].number = numbers[i];
        if (model->requests[i].kind == POD_KIND_EXECUTE &&
            model->requests[i].execute.launches[0].auto_outputs)
            model->ops[model->makes[i] - 1].number = numbers[i] - 1;
        pod_blob_unref(model->blobs[i]);
        model->blobs[i] = NULL;
    }
    model->batch_count = 0;
}

static void step_any(struct model *model)
{
    uint64_t which = model_pick(model, 100);

    if (model->no_programs && which >= 62 && which < 94)
        which %= 62;
    if (model->no_programs && which >= 98)
        return;
    if (which < 15 && model->buffer_count < MODEL_BUFFERS)
        step_allocate(model);
    else if (which < 35)
        step_write(model);
    else if (which < 50)
        step_read(model);
    else if (which < 62)
        step_copy(model);
    else if (which < 82)
        step_execute(model);
    else if (which < 90)
        step_gang(model);
    else if (which < 94)
        step_load(model);
    else if (which < 98)
        step_free(model);
    else
        step_unload(model);
}

static void compile_all(struct model *model)
{
    for (int word = 0; word < MODEL_WORD_COUNT; word++)
        step_compile(model, (enum model_word)word);
    submit(model);
    for (int i = 0; i < 10; i++) {
        step_load(model);
        submit(model);
    }
    if (model_pick(model, 2) == 0) {
        pod_await_idle(model->pod, 60 * POD_NS_PER_S);
        model->compiled = true;
    }
}

void model_run(struct model *model, int steps)
{
    if (!model->no_programs)
        compile_all(model);
    for (int i = 0; i < steps; i++) {
        step_any(model);
        if (model->batch_count == MODEL_BATCH || model_pick(model, 2) == 0)
            submit(model);
    }
    submit(model);
    for (size_t i = 0; i < model->buffer_count; i++) {
        if (!model->buffers[i].freed)
            read_buffer(model, &model->buffers[i]);
        submit(model);
    }
}
