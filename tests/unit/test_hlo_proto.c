// SPDX-License-Identifier: Apache-2.0
// The message reader, by messages that are made from a sound one by a change.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/mem.h"
#include "core/base/str.h"
#include "core/hlo/literal.h"
#include "core/hlo/proto.h"
#include "core/hlo/text.h"

static const char *const sound =
    "HloModule m\n"
    "add { x = f32[] parameter(0) y = f32[] parameter(1) "
    "ROOT z = f32[] add(x, y) }\n"
    "ENTRY e { p = f32[2,3] parameter(0) c = f32[] constant(7)\n"
    "ROOT r = f32[2] reduce(p, c), dimensions={1}, to_apply=add }\n";

struct bytes {
    unsigned char *data;
    size_t length;
};

static struct bytes pack_text(const char *text, bool bare)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    struct bytes bytes;
    if (pod_hlo_parse_text(text, strlen(text), &module, &err) != POD_OK)
        fail_msg("%s", err.text);
    assert_int_equal(
        pod_hlo_module_pack(module, bare, &bytes.data, &bytes.length, &err),
        POD_OK);
    pod_hlo_module_free(module);
    return bytes;
}

// A module that a test may change; free with xla__hlo_module_proto's function.
static Xla__HloModuleProto *unpacked(void)
{
    struct bytes bytes = pack_text(sound, true);
    Xla__HloModuleProto *proto =
        xla__hlo_module_proto__unpack(NULL, bytes.length, bytes.data);
    assert_non_null(proto);
    pod_free(bytes.data);
    return proto;
}

static enum pod_code parse_changed(Xla__HloModuleProto *proto,
                                   struct pod_hlo_module **out,
                                   struct pod_err *err)
{
    size_t length = xla__hlo_module_proto__get_packed_size(proto);
    unsigned char *bytes = malloc(length);
    enum pod_code code;
    *err = POD_ERR_NONE;
    assert_non_null(bytes);
    (void)xla__hlo_module_proto__pack(proto, bytes);
    xla__hlo_module_proto__free_unpacked(proto, NULL);
    code = pod_hlo_parse_proto(bytes, length, out, err);
    free(bytes);
    return code;
}

static void assert_changed_refused(Xla__HloModuleProto *proto, const char *part)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err;
    assert_int_equal(parse_changed(proto, &module, &err), POD_INVALID_ARGUMENT);
    assert_int_equal(err.reason, POD_REASON_INVALID_PROGRAM);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s", err.text);
}

static void assert_bytes_refused(const void *bytes, size_t length,
                                 const char *part)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(pod_hlo_parse_proto(bytes, length, &module, &err),
                     POD_INVALID_ARGUMENT);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s", err.text);
}

static void assert_is_the_sound_one(const struct bytes *bytes)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    const struct pod_hlo_instr *root;
    if (pod_hlo_parse_proto(bytes->data, bytes->length, &module, &err) !=
        POD_OK)
        fail_msg("%s", err.text);
    assert_int_equal(module->count, 2);
    assert_int_equal(module->entry, 1);
    assert_int_equal(module->comps[1].count, 3);
    root = &module->comps[1].instrs[module->comps[1].root];
    assert_int_equal(root->opcode, POD_OP_REDUCE);
    assert_int_equal(root->operands[1], 1);
    assert_int_equal(root->called[0], 0);
    assert_int_equal(root->line, 0);
    assert_int_equal(module->replica_count, 0);
    pod_hlo_module_free(module);
}

static void test_both_containers(void **state)
{
    struct bytes bare = pack_text(sound, true);
    struct bytes whole = pack_text(sound, false);
    (void)state;
    assert_int_not_equal(bare.length, whole.length);
    assert_is_the_sound_one(&bare);
    assert_is_the_sound_one(&whole);
    pod_free(bare.data);
    pod_free(whole.data);
}

// As XLA writes them since 2025: the computation's id in the high half.
static void test_wide_ids(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    struct pod_hlo_module *module = NULL;
    struct pod_err err;
    (void)state;
    for (size_t c = 0; c < proto->n_computations; c++) {
        Xla__HloComputationProto *comp = proto->computations[c];
        int64_t high = (int64_t)(c + 7) << 32;
        for (size_t i = 0; i < comp->n_instructions; i++) {
            Xla__HloInstructionProto *instr = comp->instructions[i];
            instr->id = high + (int64_t)i + 1;
            // Operands without the high half name the same instructions.
            for (size_t o = 0; o < instr->n_operand_ids; o++)
                instr->operand_ids[o] = (int64_t)o + 1;
        }
        comp->root_id = high + 3;
    }
    assert_int_equal(parse_changed(proto, &module, &err), POD_OK);
    assert_int_equal(module->comps[1].root, 2);
    assert_int_equal(module->comps[1].instrs[2].operands[1], 1);
    pod_hlo_module_free(module);
}

static void test_unknown_fields_survive(void **state)
{
    static const unsigned char extra[] = {0xc2, 0x3e, 2, 'h', 'i'}; // 1000
    struct bytes bytes = pack_text(sound, true);
    unsigned char *longer = malloc(bytes.length + sizeof(extra));
    struct pod_hlo_module *module = NULL;
    struct bytes again;
    (void)state;
    memcpy(longer, bytes.data, bytes.length);
    memcpy(longer + bytes.length, extra, sizeof(extra));
    assert_int_equal(pod_hlo_parse_proto(longer, bytes.length + sizeof(extra),
                                         &module, NULL),
                     POD_OK);
    assert_int_equal(
        pod_hlo_module_pack(module, true, &again.data, &again.length, NULL),
        POD_OK);
    assert_non_null(memmem(again.data, again.length, extra, sizeof(extra)));
    pod_free(again.data);
    pod_free(bytes.data);
    free(longer);
    pod_hlo_module_free(module);
}

// ------------------------------------------------------------ malformed bytes

static void test_malformed(void **state)
{
    static const unsigned char group[] = {0x0b, 0x0c};
    static const unsigned char number[] = {0x00, 0x01};
    static const unsigned char endless[] = {0x28, 0xff, 0xff, 0xff, 0xff, 0xff,
                                            0xff, 0xff, 0xff, 0xff, 0xff, 1};
    static const unsigned char beyond[] = {0x0a, 0x7f, 'a'};
    static const unsigned char name_number[] = {0x08, 0x01};
    (void)state;
    assert_bytes_refused("", 0, "empty");
    assert_bytes_refused(group, 2, "at byte 0: field has an impossible type");
    assert_bytes_refused(number, 2,
                         "at byte 0: field has an impossible number");
    assert_bytes_refused(endless, 12, "longer than ten bytes");
    assert_bytes_refused(beyond, 3, "at byte 3: message ends inside a field");
    assert_bytes_refused(name_number, 2, "");
}

static void test_every_prefix(void **state)
{
    struct bytes bytes = pack_text(sound, false);
    (void)state;
    for (size_t n = 0; n < bytes.length; n++) {
        unsigned char *copy = malloc(n == 0 ? 1 : n);
        memcpy(copy, bytes.data, n);
        assert_bytes_refused(copy, n, "");
        free(copy);
    }
    pod_free(bytes.data);
}

// computations { instructions { shape { tuple_shapes { tuple_shapes ... } } } }
static void test_depth_limit(void **state)
{
    enum { DEEP = 200 };
    unsigned char bytes[8 * DEEP];
    size_t start = sizeof(bytes);
    (void)state;
    for (int i = 0; i < DEEP; i++) {
        static const unsigned char tags[] = {0x1a, 0x12, 0x1a};
        size_t length = sizeof(bytes) - start;
        // Two bytes of length, whether they are needed or not.
        bytes[--start] = (unsigned char)(length >> 7);
        bytes[--start] = (unsigned char)(length | 0x80);
        bytes[--start] = DEEP - i <= 3 ? tags[DEEP - i - 1] : 0x22;
    }
    assert_bytes_refused(bytes + start, sizeof(bytes) - start,
                         "more than 100 deep");
}

static void test_length_limit(void **state)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    assert_int_equal(
        pod_hlo_parse_proto("", (size_t)POD_HLO_MAX_BYTES + 1, &module, &err),
        POD_RESOURCE_EXHAUSTED);
}

// 200 KB of empty instructions would unfold to 64 MB.
static void test_amplification(void **state)
{
    enum { COUNT = 100000, INNER = 2 * COUNT };
    unsigned char *bytes = calloc(1, INNER + 8);
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    (void)state;
    bytes[0] = 0x1a; // computations
    bytes[1] = (INNER & 0x7f) | 0x80;
    bytes[2] = ((INNER >> 7) & 0x7f) | 0x80;
    bytes[3] = INNER >> 14;
    for (int i = 0; i < COUNT; i++)
        bytes[4 + 2 * i] = 0x12; // instructions, of length 0
    bytes[4 + INNER] = 0x22;     // host_program_shape, of length 0
    assert_int_equal(pod_hlo_parse_proto(bytes, INNER + 6, &module, &err),
                     POD_RESOURCE_EXHAUSTED);
    assert_int_equal(err.reason, POD_REASON_RESOURCE_EXHAUSTED);
    free(bytes);
}

// ----------------------------------------------------------- unsound programs

// An instruction of the entry, or of the computation it calls.
static Xla__HloInstructionProto *entry_instr(Xla__HloModuleProto *proto,
                                             size_t index)
{
    return proto->computations[1]->instructions[index];
}

static void test_no_signature(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    xla__program_shape_proto__free_unpacked(proto->host_program_shape, NULL);
    proto->host_program_shape = NULL;
    assert_changed_refused(proto, "no signature");
}

static void test_wrong_signature(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    proto->host_program_shape->parameters[0]->dimensions[0] = 3;
    assert_changed_refused(proto, "signature says f32[3,3]");
}

static void test_entry_missing(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    proto->entry_computation_id = 77;
    assert_changed_refused(proto, "entry computation (id 77)");
}

static void test_root_missing(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    proto->computations[0]->root_id = 99;
    assert_changed_refused(proto, "computation \"add\": root (id 99)");
}

static void test_computation_order(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    Xla__HloComputationProto *first = proto->computations[0];
    (void)state;
    proto->computations[0] = proto->computations[1];
    proto->computations[1] = first;
    assert_changed_refused(proto, "is not one before this one");
}

static void test_recursion(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    entry_instr(proto, 2)->called_computation_ids[0] = 2;
    assert_changed_refused(proto, "called computation (id 2) is not one");
}

static void test_operand_order(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    entry_instr(proto, 2)->operand_ids[0] = entry_instr(proto, 2)->id;
    assert_changed_refused(proto, "is not an instruction before this one");
    // An operand of another computation is none of this one.
    proto = unpacked();
    entry_instr(proto, 2)->operand_ids[0] =
        proto->computations[0]->instructions[0]->id;
    assert_changed_refused(proto, "operand 0 (id 1)");
}

static void test_ids_twice(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    entry_instr(proto, 1)->id = entry_instr(proto, 0)->id + (1LL << 32);
    assert_changed_refused(proto, "is used twice");
    proto = unpacked();
    entry_instr(proto, 1)->id = -5;
    assert_changed_refused(proto, "id -5 is negative");
    proto = unpacked();
    proto->computations[1]->id = proto->computations[0]->id;
    assert_changed_refused(proto, "");
    proto = unpacked();
    proto->computations[0]->id = -1;
    assert_changed_refused(proto, "id -1 is invalid");
}

static void set_text(char **field, const char *text)
{
    free(*field);
    *field = strdup(text);
}

static void test_names(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    set_text(&entry_instr(proto, 1)->name, "p");
    assert_changed_refused(proto, "\"p\" (constant) of computation \"e\": name "
                                  "is used twice");
    proto = unpacked();
    set_text(&proto->computations[1]->name, "add");
    assert_changed_refused(proto, "name is used twice");
    proto = unpacked();
    set_text(&entry_instr(proto, 1)->name, "\xff\x01");
    assert_changed_refused(proto, "\"??\" (constant)");
    proto = unpacked();
    set_text(&proto->name, "a\nb");
    assert_changed_refused(proto, "the program's name");
    proto = unpacked();
    set_text(&entry_instr(proto, 1)->opcode, "constanz");
    assert_changed_refused(proto, "no opcode \"constanz\"");
}

static void test_shape_faults(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    xla__shape_proto__free_unpacked(entry_instr(proto, 0)->shape, NULL);
    entry_instr(proto, 0)->shape = NULL;
    assert_changed_refused(proto, "there is no shape");
    proto = unpacked();
    entry_instr(proto, 0)->shape->element_type = 77;
    assert_changed_refused(proto, "element type 77");
    proto = unpacked();
    entry_instr(proto, 0)->shape->dimensions[1] = -3;
    assert_changed_refused(proto, "negative");
}

static void test_literal_faults(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    (void)state;
    entry_instr(proto, 1)->literal->n_f32s = 0;
    assert_changed_refused(proto, "0 bytes of data, not 4");
    proto = unpacked();
    entry_instr(proto, 1)->literal->shape->element_type = POD_TYPE_S32;
    assert_changed_refused(proto, "literal is s32[] where f32[] is declared");
    proto = unpacked();
    xla__literal_proto__free_unpacked(entry_instr(proto, 1)->literal, NULL);
    entry_instr(proto, 1)->literal = NULL;
    assert_changed_refused(proto, "constant has no literal");
}

static void test_no_computations(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    Xla__HloComputationProto **all = proto->computations;
    size_t count = proto->n_computations;
    (void)state;
    for (size_t i = 0; i < count; i++)
        xla__hlo_computation_proto__free_unpacked(all[i], NULL);
    proto->n_computations = 0;
    assert_changed_refused(proto, "has 0 computations");
}

// A signature without layouts gets the row-major one, and is packed with it.
static void test_signature_completed(void **state)
{
    Xla__HloModuleProto *proto = unpacked();
    Xla__ShapeProto *shape = proto->host_program_shape->parameters[0];
    struct pod_hlo_module *module = NULL;
    struct pod_err err;
    (void)state;
    xla__layout_proto__free_unpacked(shape->layout, NULL);
    shape->layout = NULL;
    assert_int_equal(parse_changed(proto, &module, &err), POD_OK);
    assert_true(module->shape.parameters[0].has_layout);
    shape = module->proto->host_program_shape->parameters[0];
    assert_int_equal(shape->layout->n_minor_to_major, 2);
    assert_int_equal(shape->layout->minor_to_major[0], 1);
    assert_int_equal(shape->layout->format, 1);
    pod_hlo_module_free(module);
}

static void test_no_memory(void **state)
{
    struct bytes bytes = pack_text(sound, false);
    long live = pod_mem_live();
    (void)state;
    for (long n = 0;; n++) {
        struct pod_hlo_module *module = NULL;
        struct pod_err err = POD_ERR_NONE;
        enum pod_code code;
        pod_mem_fail_after(n, 1);
        code = pod_hlo_parse_proto(bytes.data, bytes.length, &module, &err);
        pod_mem_fail_after(-1, 0);
        pod_hlo_module_free(module);
        assert_int_equal(pod_mem_live(), live);
        if (code == POD_OK) {
            assert_true(n > 5);
            break;
        }
        assert_int_equal(err.reason, POD_REASON_OUT_OF_MEMORY);
    }
    pod_free(bytes.data);
}

static int nothing_left(void **state)
{
    (void)state;
    return pod_mem_live() == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_containers),
        cmocka_unit_test(test_wide_ids),
        cmocka_unit_test(test_unknown_fields_survive),
        cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_every_prefix),
        cmocka_unit_test(test_depth_limit),
        cmocka_unit_test(test_length_limit),
        cmocka_unit_test(test_amplification),
        cmocka_unit_test(test_no_signature),
        cmocka_unit_test(test_wrong_signature),
        cmocka_unit_test(test_entry_missing),
        cmocka_unit_test(test_root_missing),
        cmocka_unit_test(test_computation_order),
        cmocka_unit_test(test_recursion),
        cmocka_unit_test(test_operand_order),
        cmocka_unit_test(test_ids_twice),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_shape_faults),
        cmocka_unit_test(test_literal_faults),
        cmocka_unit_test(test_no_computations),
        cmocka_unit_test(test_signature_completed),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, nothing_left);
}
