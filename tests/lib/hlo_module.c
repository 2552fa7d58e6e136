// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/hlo_module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/hlo/text.h"

struct pod_hlo_module *parse_module(const char *text)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    if (pod_hlo_parse_text(text, strlen(text), &module, &err) != POD_OK)
        fail_msg("%d:%d: %s", err.line, err.column, err.text);
    return module;
}

struct pod_hlo_module *parse_body(const char *body)
{
    char text[4096];
    (void)snprintf(text, sizeof(text), "HloModule m\nENTRY e {\n%s\n}\n", body);
    return parse_module(text);
}

void assert_refused_code(const char *text, enum pod_code code, int line,
                         int column, const char *part)
{
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    assert_int_equal(pod_hlo_parse_text(text, strlen(text), &module, &err),
                     code);
    assert_null(module);
    if (err.line != line || err.column != column ||
        strstr(err.text, part) == NULL)
        fail_msg("\"%s\": %d:%d: %s", text, err.line, err.column, err.text);
}

void assert_refused(const char *text, int line, int column, const char *part)
{
    assert_refused_code(text, POD_INVALID_ARGUMENT, line, column, part);
}

void assert_body_refused(const char *body, int line, int column,
                         const char *part)
{
    char text[4096];
    (void)snprintf(text, sizeof(text), "HloModule m\nENTRY e {\n%s\n}\n", body);
    assert_refused(text, line + 2, column, part);
}

void assert_body_unsupported(const char *body, const char *part)
{
    char text[4096];
    struct pod_hlo_module *module = NULL;
    struct pod_err err = POD_ERR_NONE;
    (void)snprintf(text, sizeof(text), "HloModule m\nENTRY e {\n%s\n}\n", body);
    assert_int_equal(pod_hlo_parse_text(text, strlen(text), &module, &err),
                     POD_UNIMPLEMENTED);
    assert_int_equal(err.reason, POD_REASON_UNIMPLEMENTED);
    assert_true(err.line > 0);
    if (strstr(err.text, part) == NULL)
        fail_msg("%s", err.text);
}

const struct pod_hlo_instr *module_root(const struct pod_hlo_module *module)
{
    const struct pod_hlo_comp *entry = &module->comps[module->entry];
    return &entry->instrs[entry->root];
}
