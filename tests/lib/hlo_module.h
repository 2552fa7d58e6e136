// SPDX-License-Identifier: Apache-2.0
// Modules in text, for tests of what is read and what is refused.
#ifndef TESTS_LIB_HLO_MODULE_H
#define TESTS_LIB_HLO_MODULE_H

#include "core/base/err.h"
#include "core/hlo/module.h"

// The module of a text that must be sound. Freed with pod_hlo_module_free.
struct pod_hlo_module *parse_module(const char *text);
// The same of one computation, whose instructions start in line 3.
struct pod_hlo_module *parse_body(const char *body);
const struct pod_hlo_instr *module_root(const struct pod_hlo_module *module);

// The text is refused at that place, with `part` in what is said.
void assert_refused_code(const char *text, enum pod_code code, int line,
                         int column, const char *part);
void assert_refused(const char *text, int line, int column, const char *part);
// Lines are those of the body here.
void assert_body_refused(const char *body, int line, int column,
                         const char *part);
void assert_body_unsupported(const char *body, const char *part);

#endif
