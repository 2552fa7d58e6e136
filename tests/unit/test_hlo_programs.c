// SPDX-License-Identifier: Apache-2.0
// Programs that XLA wrote both as text and as a message: read either way they
// are the same, down to shapes, layouts, attributes and constants.
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/hlo/groups.h"
#include "core/hlo/literal.h"
#include "core/hlo/proto.h"
#include "core/hlo/text.h"

static unsigned char *read_file(const char *name, const char *ending,
                                size_t *length)
{
    const char *dir = getenv("POD_PROGRAMS");
    char path[1024];
    unsigned char *bytes;
    FILE *file;
    (void)snprintf(path, sizeof(path), "%s/%s/%s%s", dir, name, name, ending);
    file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("no file %s", path);
    bytes = malloc(1 << 20);
    assert_non_null(bytes);
    *length = fread(bytes, 1, 1 << 20, file);
    assert_true(*length > 0 && *length < 1 << 20);
    (void)fclose(file);
    return bytes;
}

static struct pod_hlo_module *read_program(const char *name, bool text)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    size_t length;
    unsigned char *bytes =
        read_file(name, text ? ".hlo.txt" : ".hlo.pb", &length);
    enum pod_code code =
        text ? pod_hlo_parse_text((char *)bytes, length, &module, &err)
             : pod_hlo_parse_proto(bytes, length, &module, &err);
    if (code != POD_OK)
        fail_msg("%s: %d:%d: %s", name, err.line, err.column, err.text);
    free(bytes);
    return module;
}

// ----------------------------------------------------------------- comparing

static void assert_same_constant(const struct pod_hlo_instr *a,
                                 const struct pod_hlo_instr *b)
{
    size_t size = (size_t)pod_shape_bytes(a->shape);
    unsigned char *left = malloc(size + 1);
    unsigned char *right = malloc(size + 1);
    assert_int_equal(pod_literal_read(a->proto->literal, a->shape, left, NULL),
                     POD_OK);
    assert_int_equal(pod_literal_read(b->proto->literal, b->shape, right, NULL),
                     POD_OK);
    assert_memory_equal(left, right, size);
    free(left);
    free(right);
}

// A message has a newer form of the groups than the one a text is read into.
static void assert_same_groups(const struct pod_hlo_instr *a,
                               const struct pod_hlo_instr *b)
{
    for (int64_t participants = 1; participants <= 8; participants *= 2) {
        struct pod_hlo_groups left = {.count = 0};
        struct pod_hlo_groups right = {.count = 0};
        enum pod_code code = pod_hlo_groups_make(a, participants, &left, NULL);
        assert_int_equal(pod_hlo_groups_make(b, participants, &right, NULL),
                         code);
        if (code != POD_OK)
            continue;
        assert_int_equal(left.count, right.count);
        assert_memory_equal(left.starts, right.starts,
                            (left.count + 1) * sizeof(left.starts[0]));
        assert_memory_equal(left.ids, right.ids,
                            (size_t)participants * sizeof(left.ids[0]));
        pod_hlo_groups_fini(&left);
        pod_hlo_groups_fini(&right);
    }
}

// The attributes alone, packed: without ids, names, shapes and groups, which
// are compared on their own, and without what the text does not carry.
static size_t pack_attributes(const struct pod_hlo_instr *instr,
                              unsigned char *out, size_t room)
{
    static char empty[] = "";
    Xla__HloInstructionProto proto = *instr->proto;
    size_t length;
    proto.base.n_unknown_fields = 0;
    proto.name = empty;
    proto.id = 0;
    proto.n_operand_ids = 0;
    proto.n_called_computation_ids = 0;
    proto.shape = NULL;
    proto.literal = NULL;
    proto.metadata = NULL;
    proto.frontend_attributes = NULL;
    proto.n_replica_groups = 0;
    proto.replica_group_list_case =
        XLA__HLO_INSTRUCTION_PROTO__REPLICA_GROUP_LIST__NOT_SET;
    if (proto.precision_config != NULL &&
        proto.precision_config->algorithm == 0)
        proto.precision_config = NULL; // the default, written or not
    length = xla__hlo_instruction_proto__get_packed_size(&proto);
    assert_true(length <= room);
    return xla__hlo_instruction_proto__pack(&proto, out);
}

static void assert_same_instr(const struct pod_hlo_module *modules[2],
                              const struct pod_hlo_comp *comps[2], uint32_t at)
{
    const struct pod_hlo_instr *a = &comps[0]->instrs[at];
    const struct pod_hlo_instr *b = &comps[1]->instrs[at];
    unsigned char left[4096];
    unsigned char right[4096];
    size_t length;
    assert_string_equal(a->proto->name, b->proto->name);
    assert_int_equal(a->opcode, b->opcode);
    assert_true(pod_shape_equal_layout(a->shape, b->shape));
    assert_int_equal(a->operand_count, b->operand_count);
    assert_memory_equal(a->operands, b->operands,
                        a->operand_count * sizeof(a->operands[0]));
    assert_int_equal(a->called_count, b->called_count);
    for (uint32_t i = 0; i < a->called_count; i++)
        assert_string_equal(pod_hlo_called(modules[0], a, i)->proto->name,
                            pod_hlo_called(modules[1], b, i)->proto->name);
    length = pack_attributes(a, left, sizeof(left));
    assert_int_equal(pack_attributes(b, right, sizeof(right)), length);
    assert_memory_equal(left, right, length);
    assert_same_groups(a, b);
    if (a->opcode == POD_OP_CONSTANT)
        assert_same_constant(a, b);
}

static void assert_same_signature(const struct pod_hlo_module *modules[2])
{
    struct pod_str left = {.data = NULL};
    struct pod_str right = {.data = NULL};
    pod_program_shape_print(&modules[0]->shape, true, &left);
    pod_program_shape_print(&modules[1]->shape, true, &right);
    assert_string_equal(left.data, right.data);
    pod_str_fini(&left);
    pod_str_fini(&right);
}

static void assert_same(const char *name)
{
    struct pod_hlo_module *text = read_program(name, true);
    struct pod_hlo_module *message = read_program(name, false);
    const struct pod_hlo_module *modules[2] = {text, message};
    print_message("%s\n", name);
    assert_int_equal(text->count, message->count);
    assert_int_equal(text->entry, message->entry);
    assert_same_signature(modules);
    for (uint32_t c = 0; c < text->count; c++) {
        const struct pod_hlo_comp *comps[2] = {&text->comps[c],
                                               &message->comps[c]};
        assert_string_equal(comps[0]->proto->name, comps[1]->proto->name);
        assert_int_equal(comps[0]->count, comps[1]->count);
        assert_int_equal(comps[0]->root, comps[1]->root);
        assert_int_equal(comps[0]->param_count, comps[1]->param_count);
        for (uint32_t i = 0; i < comps[0]->count; i++)
            assert_same_instr(modules, comps, i);
    }
    pod_hlo_module_free(text);
    pod_hlo_module_free(message);
}

static void test_text_and_message_agree(void **state)
{
    const char *path = getenv("POD_PROGRAMS");
    struct dirent *entry;
    DIR *dir;
    int count = 0;
    (void)state;
    if (path == NULL)
        fail_msg("POD_PROGRAMS does not name the folder of the programs");
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        char file[1024];
        FILE *found;
        (void)snprintf(file, sizeof(file), "%s/%s/%s.hlo.pb", path,
                       entry->d_name, entry->d_name);
        found = fopen(file, "rb");
        if (found == NULL)
            continue; // no program, but the folder of bad ones and the like
        (void)fclose(found);
        assert_same(entry->d_name);
        count++;
    }
    (void)closedir(dir);
    assert_int_equal(count, 150);
}

static int nothing_left(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_and_message_agree),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
