// SPDX-License-Identifier: Apache-2.0
// What the files of the text reader share.
//
// There is no token stream: at each place the grammar knows what may come, and
// asks for it. Functions of the scanner skip blanks and comments first. Those
// that return enum pod_code have set the error, with its place, when they fail.
#ifndef POD_HLO_TEXT_INTERNAL_H
#define POD_HLO_TEXT_INTERNAL_H

#include "core/hlo/arena.h"
#include "core/hlo/module.h"
#include "core/hlo/names.h"

// A piece of the text.
struct text_span {
    const char *text;
    size_t length;
};

// Numbers or pointers that are collected before their count is known, as a
// stack: whoever collects remembers the count at the start and takes the rest.
struct text_stack {
    void *items;
    size_t count;
    size_t capacity;
    size_t item; // bytes of one, for the stack whose items vary
};

// An instruction that has been read.
struct text_instr {
    Xla__HloInstructionProto *proto;
    const struct pod_shape *shape;
    size_t at; // where it stands in the text
    int line;
    int column;
};

struct text {
    const char *data;
    size_t length;
    size_t at;
    struct pod_err *err;
    struct pod_hlo_module *module;
    struct pod_hlo_arena *arena;
    Xla__HloModuleProto *proto;
    // Line of an offset, moving forward only.
    size_t mark_at;
    size_t mark_line_start;
    int mark_line;
    struct text_stack ints;     // int64_t
    struct text_stack pointers; // void *
    struct text_stack bytes;    // elements of a literal
    struct text_stack comps;    // struct pod_hlo_comp
    struct text_stack instrs;   // struct text_instr, of this computation
    struct pod_hlo_names comp_names;
    struct pod_hlo_names names; // of this computation
    int64_t next_id;
    int64_t entry_id; // 0: not seen yet
};

// ------------------------------------------------------------------- scanning

// INVALID_PROGRAM at an offset.
enum pod_code pod_text_fail_at(struct text *t, size_t at, const char *format,
                               ...) __attribute__((format(printf, 3, 4)));
// UNIMPLEMENTED at an offset.
enum pod_code pod_text_unsupported_at(struct text *t, size_t at,
                                      const char *what);
// "expected WHAT, found ..." at the next thing that counts.
enum pod_code pod_text_expected(struct text *t, const char *what);
enum pod_code pod_text_no_memory(struct text *t);

// The next character that counts, or 0 at the end.
char pod_text_peek(struct text *t);
// Takes the character if it is next.
bool pod_text_take(struct text *t, char c);
// Takes the character if it stands right here, with no blank before it: what
// joins the numbers of one token ("1_1x0_2"), where a name may follow a blank.
bool pod_text_take_joint(struct text *t, char c);
// Takes the string if it is next; it need not end a word.
bool pod_text_take_string(struct text *t, const char *string);
// Takes a word (letters, digits, "_.-") if it is exactly this one.
bool pod_text_take_word(struct text *t, const char *word);
// As pod_text_take, or "expected".
enum pod_code pod_text_need(struct text *t, char c);
// A word; empty if there is none.
struct text_span pod_text_word(struct text *t);
// "%name" or "name".
enum pod_code pod_text_name(struct text *t, const char *what,
                            struct text_span *out);
bool pod_text_span_is(struct text_span span, const char *string);
enum pod_code pod_text_integer(struct text *t, int64_t *out);
enum pod_code pod_text_bool(struct text *t, bool *out);
// A number with fraction and exponent, inf or nan. *out_payload: the mantissa
// that the text gives a NaN, or 0.
enum pod_code pod_text_double(struct text *t, double *out,
                              uint64_t *out_payload);
// A quoted string with C escapes, unquoted and copied to the arena.
enum pod_code pod_text_string(struct text *t, ProtobufCBinaryData *out);
// Reads over one value: a string, a word, or something in brackets.
enum pod_code pod_text_skip_value(struct text *t);
// A shape; arrays without a layout get the row-major one.
enum pod_code pod_text_shape(struct text *t, const struct pod_shape **out);
// Whether a shape is next, rather than a name or an opcode.
bool pod_text_shape_ahead(struct text *t);
// The line and column of an offset that is not before the last one asked for.
void pod_text_place(struct text *t, size_t at, int *line, int *column);

// ------------------------------------------------------------------ collecting

// Adds an item; false if there is no memory.
bool pod_text_push(struct text_stack *stack, const void *item, size_t size);
bool pod_text_push_int(struct text *t, int64_t value);
bool pod_text_push_pointer(struct text *t, void *pointer);
// Takes what was pushed since the count was `base` as an array in the arena.
enum pod_code pod_text_pop_ints(struct text *t, size_t base, size_t *out_count,
                                int64_t **out);
enum pod_code pod_text_pop_pointers(struct text *t, size_t base,
                                    size_t *out_count, void *out);

// Reads what is behind an opening brace or a comma into a message.
typedef enum pod_code pod_text_read_fn(struct text *t, void *message);
// "{entry,entry}": messages of that type, each read by `read`; none in "{}".
// *out is set to an array of pointers to them.
enum pod_code pod_text_messages(struct text *t,
                                const ProtobufCMessageDescriptor *type,
                                pod_text_read_fn *read, size_t *out_count,
                                void *out);

// "{1,2}" or "[1,2]": integers between an opening and a closing bracket.
enum pod_code pod_text_int_list(struct text *t, char open, char close,
                                size_t *out_count, int64_t **out);
// The same without the brackets, for lists that end by themselves.
enum pod_code pod_text_ints_joined(struct text *t, char by, size_t *out_count,
                                   int64_t **out);

// A zeroed message in the arena, initialised; NULL: no memory.
void *pod_text_message(struct text *t, const ProtobufCMessageDescriptor *type);

// ------------------------------------------------------------------- grammar

// An instruction between "=" and the end of its attributes.
enum pod_code pod_text_instruction(struct text *t);
// The attributes behind an instruction's operands.
enum pod_code pod_text_attributes(struct text *t, struct text_instr *instr,
                                  enum pod_opcode opcode);
// Looks up a computation.
enum pod_code pod_text_computation_id(struct text *t, int64_t *out);
enum pod_code pod_text_literal(struct text *t, const struct pod_shape *shape,
                               Xla__LiteralProto **out);
// "{key="value",...}".
enum pod_code pod_text_frontend_attributes(struct text *t,
                                           Xla__FrontendAttributes **out);
// "{ {0}: (1, {}, may-alias), ... }": of programs and of instructions.
enum pod_code pod_text_module_aliases(struct text *t,
                                      Xla__HloInputOutputAliasProto **out);
enum pod_code pod_text_operand_aliases(struct text *t,
                                       Xla__HloInstructionProto *instr);

// "T(1,0)" behind an iota; *out_count stays as it is if it is not there.
enum pod_code pod_text_permutation(struct text *t, size_t *out_count,
                                   int32_t **out);

// Values of single attributes with a syntax of their own.
enum pod_code pod_text_replica_groups(struct text *t,
                                      Xla__HloInstructionProto *instr);
enum pod_code pod_text_source_target_pairs(struct text *t,
                                           Xla__HloInstructionProto *instr);
enum pod_code pod_text_slice(struct text *t, Xla__HloInstructionProto *instr);
enum pod_code pod_text_padding(struct text *t, Xla__HloInstructionProto *instr);
enum pod_code pod_text_window(struct text *t, Xla__HloInstructionProto *instr);
enum pod_code pod_text_dim_labels(struct text *t,
                                  Xla__HloInstructionProto *instr);
enum pod_code pod_text_sharding(struct text *t, Xla__OpSharding **out);

#endif
