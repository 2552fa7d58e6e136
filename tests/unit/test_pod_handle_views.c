// SPDX-License-Identifier: Apache-2.0
// What is shown of buffers, programs and loads, from records made by hand.
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "tests/lib/hand_pod.h"

static int check_no_leak(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

static void test_buffer(void **state)
{
    (void)state;
    enum { READERS = 150 };
    struct hand_pod hand;
    struct pod_buffer_view view;
    struct pod_use uses[READERS];
    struct pod_shape shape;
    struct pod_buffer buffer = {.core = 3,
                                .host = 1,
                                .has_shape = true,
                                .shape = &shape,
                                .bytes = 8,
                                .last_writer_number = 6};
    char name[] = "weights";
    int64_t dims[] = {2};

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_ALLOCATE, POD_SCHED_WAITING);
    op->buffer = &buffer;
    op->name = name;
    buffer.handle.maker = op;
    pod_list_init(&buffer.readers);
    assert_int_equal(pod_shape_array(&shape, POD_TYPE_F32, 1, dims, NULL),
                     POD_OK);
    for (size_t i = 0; i < READERS; i++) {
        // Number 2 reads it twice.
        uses[i].op = i == 1 ? uses[0].op
                            : hand_op(&hand, POD_KIND_READ, POD_SCHED_READY);
        pod_list_push_back(&buffer.readers, &uses[i].link);
    }
    assert_int_equal(pod_get_buffer(&hand.pod, 1, &view, NULL), POD_OK);
    assert_int_equal(view.number, 1);
    assert_int_equal(view.state, POD_HANDLE_PENDING);
    assert_true(view.has_shape);
    assert_int_equal(view.shape.type, POD_TYPE_F32);
    assert_int_equal(view.shape.dims[0], 2);
    assert_int_equal(view.bytes, 8);
    assert_int_equal(view.core, 3);
    assert_int_equal(view.host, 1);
    assert_int_equal(view.last_writer, 6);
    assert_int_equal(view.freed_by, 0);
    assert_string_equal(view.name, "weights");
    assert_int_equal(view.reader_count, 100);
    assert_int_equal(view.readers[0], 2);
    assert_int_equal(view.readers[1], 3);
    assert_int_equal(view.readers[99], 101);
    pod_buffer_view_fini(&view);
    op->buffer = NULL;
    hand_pod_fini(&hand);
}

static void test_tuple(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_buffer_view view;
    uint64_t children[] = {5, 5, 6};
    struct pod_buffer buffer = {.is_tuple = true,
                                .child_numbers = children,
                                .child_count = 3,
                                .handle = {.freed_by = 9, .free_done = true}};

    hand_pod_init(&hand);
    struct pod_op *op =
        hand_op(&hand, POD_KIND_ALLOCATE_TUPLE, POD_SCHED_SUCCEEDED);
    op->buffer = &buffer;
    buffer.handle.maker = op;
    pod_list_init(&buffer.readers);
    assert_int_equal(pod_get_buffer(&hand.pod, 1, &view, NULL), POD_OK);
    assert_true(view.is_tuple);
    assert_true(view.has_shape);
    assert_int_equal(view.shape.type, POD_TYPE_TUPLE);
    assert_int_equal(view.shape.child_count, 0);
    assert_null(view.tuple_shape);
    assert_int_equal(view.child_count, 3);
    assert_memory_equal(view.children, children, sizeof(children));
    assert_int_equal(view.state, POD_HANDLE_FREED);
    assert_int_equal(view.freed_by, 9);
    assert_null(view.name);
    pod_buffer_view_fini(&view);
    op->buffer = NULL;
    hand_pod_fini(&hand);
}

static void make_program(struct pod_program *program, struct pod_op *op)
{
    static const char text[] = "(f32[2], s32[])";

    memset(program, 0, sizeof(*program));
    op->program = program;
    program->handle.maker = op;
    program->format = POD_FORMAT_HLO_PROTO;
    program->replicas = 4;
    program->bytes = 99;
    strcpy(program->digest, "sha-256:ab");
    program->has_shape = true;
    pod_list_init(&program->loads);
    program->shape.count = 1;
    program->shape.parameters = pod_calloc(1, sizeof(struct pod_shape));
    assert_non_null(program->shape.parameters);
    assert_int_equal(pod_shape_parse(text, strlen(text),
                                     &program->shape.parameters[0], NULL),
                     POD_OK);
    assert_int_equal(pod_shape_parse("s8[3]", 5, &program->shape.result, NULL),
                     POD_OK);
}

static void add_load(struct pod_program *program, struct pod_loaded *load,
                     struct pod_op *op)
{
    memset(load, 0, sizeof(*load));
    op->load = load;
    load->handle.maker = op;
    load->program = program;
    load->program_number = program->handle.maker->number;
    load->core = 7;
    load->host = 3;
    pod_list_push_back(&program->loads, &load->program_link);
    program->load_count++;
}

static void test_program_and_loads(void **state)
{
    (void)state;
    struct hand_pod hand;
    struct pod_program program;
    struct pod_loaded loads[2];
    struct pod_program_view view;
    struct pod_load_view load;

    hand_pod_init(&hand);
    struct pod_op *op = hand_op(&hand, POD_KIND_COMPILE, POD_SCHED_SUCCEEDED);
    // Other than by a pin of its own it would be free to expire.
    op->pins = 1;
    make_program(&program, op);
    for (size_t i = 0; i < 2; i++)
        add_load(&program, &loads[i],
                 hand_op(&hand, POD_KIND_LOAD, POD_SCHED_SUCCEEDED));
    assert_int_equal(pod_get_program(&hand.pod, 1, &view, NULL), POD_OK);
    assert_int_equal(view.replicas, 4);
    assert_int_equal(view.format, POD_FORMAT_HLO_PROTO);
    assert_int_equal(view.bytes, 99);
    assert_string_equal(view.digest, "sha-256:ab");
    assert_int_equal(view.load_count, 2);
    assert_int_equal(view.loads[0], 2);
    assert_int_equal(view.loads[1], 3);
    assert_true(view.has_shape);
    assert_int_equal(view.shape.count, 1);
    assert_true(pod_shape_equal(&view.shape.parameters[0],
                                &program.shape.parameters[0]));
    assert_ptr_not_equal(view.shape.parameters, program.shape.parameters);
    assert_int_equal(view.shape.result.type, POD_TYPE_S8);
    pod_program_view_fini(&view);
    pod_program_view_fini(&view);
    assert_int_equal(op->pins, 1);

    assert_int_equal(pod_get_load(&hand.pod, 3, &load, NULL), POD_OK);
    assert_int_equal(load.number, 3);
    assert_int_equal(load.program, 1);
    assert_int_equal(load.core, 7);
    assert_int_equal(load.host, 3);

    // Without memory nothing stays pinned or allocated.
    long live = pod_mem_live();
    for (long allowed = 0;; allowed++) {
        pod_mem_fail_after(allowed, 1);
        enum pod_code code = pod_get_program(&hand.pod, 1, &view, NULL);
        pod_mem_fail_after(-1, 0);
        if (code == POD_OK) {
            assert_true(allowed >= 3);
            break;
        }
        assert_int_equal(code, POD_RESOURCE_EXHAUSTED);
        assert_int_equal(pod_mem_live(), live);
        assert_int_equal(op->pins, 1);
    }
    pod_program_view_fini(&view);
    pod_program_shape_fini(&program.shape);
    for (struct pod_op *each = op; each != NULL;
         each = pod_table_get(&hand.pod.table, each->number + 1)) {
        each->program = NULL;
        each->load = NULL;
    }
    hand_pod_fini(&hand);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_buffer, check_no_leak),
        cmocka_unit_test_teardown(test_tuple, check_no_leak),
        cmocka_unit_test_teardown(test_program_and_loads, check_no_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
