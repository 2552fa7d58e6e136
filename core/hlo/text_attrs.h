// SPDX-License-Identifier: Apache-2.0
// The table of attributes, between what reads them and what it reads.
#ifndef POD_HLO_TEXT_ATTRS_H
#define POD_HLO_TEXT_ATTRS_H

#include "core/hlo/text_internal.h"

enum attrs_kind {
    ATTRS_INT,         // int64_t at offset
    ATTRS_INT32,       // int32_t
    ATTRS_BOOL,        // protobuf_c_boolean
    ATTRS_INTS,        // size_t at count, int64_t * at offset
    ATTRS_ONE_INT,     // the same, from one number
    ATTRS_WORD,        // char *, from a word
    ATTRS_STRING,      // char *, from a string
    ATTRS_BYTES,       // ProtobufCBinaryData
    ATTRS_COMPUTATION, // a called computation; offset is its position
    ATTRS_SKIP,        // read over
    ATTRS_OWN,         // a function
};

struct attrs_value {
    struct text *t;
    struct text_instr *instr;
    enum pod_opcode opcode;
    // Called computations by position; 0: not given. More than two only from
    // lists.
    int64_t called[2];
    size_t n_called;
    int64_t *called_list;
};

struct attrs_rule {
    const char *name;
    enum attrs_kind kind;
    size_t offset; // in the instruction or in the message below it
    size_t count;
    size_t message; // offset of the pointer to that message; 0: none
    const ProtobufCMessageDescriptor *type;
    enum pod_code (*own)(struct attrs_value *v);
};

enum { TEXT_ATTR_COUNT = 89 };

extern const struct attrs_rule pod_text_attr_rules[TEXT_ATTR_COUNT];

// Attribute names by opcode, with blanks between them; "!" marks those that
// must be there. NULL: none.
extern const char *const pod_text_attr_taken[POD_OP_COUNT];
// Those that any instruction takes.
extern const char pod_text_attr_everywhere[];

#endif
