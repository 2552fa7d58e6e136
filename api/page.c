// SPDX-License-Identifier: Apache-2.0
#include "api/page.h"

#include <string.h>

#include "api/common.h"
#include "api/page_token.h"
#include "api/query.h"
#include "core/base/mem.h"
#include "core/base/str.h"

void api_page_begin(struct api_request *req, const char *collection,
                    const char *const *fields, struct api_page *out)
{
    uint64_t scope = api_page_scope(0, pod_instance(api_pod(req)));
    *out = (struct api_page){
        .size = API_PAGE_DEFAULT,
        .scope = api_page_scope(scope, collection),
        .fields = fields,
    };
}

void api_page_filter(struct api_page *page, const char *name, const char *value)
{
    if (value == NULL)
        return;
    page->scope = api_page_scope(page->scope, name);
    page->scope = api_page_scope(page->scope, value);
}

static enum pod_code page_read_field(struct api_page *page, const char *name,
                                     size_t length, struct pod_err *err)
{
    for (size_t i = 0; page->fields[i] != NULL; i++) {
        if (strlen(page->fields[i]) == length &&
            memcmp(page->fields[i], name, length) == 0) {
            page->mask |= UINT64_C(1) << i;
            return POD_OK;
        }
    }
    return pod_err_set(err, POD_REASON_BAD_PARAMETER,
                       "fields: there is no member '%.*s'",
                       (int)pod_utf8_clip(name, length, 64), name);
}

static enum pod_code page_read_fields(struct api_request *req,
                                      struct api_page *page,
                                      struct pod_err *err)
{
    const char *list = NULL;
    const char *piece = NULL;
    size_t length = 0;
    enum pod_code code = api_query_text(req, "fields", &list, err);
    if (list == NULL)
        return code;
    while (code == POD_OK && api_list_next(&list, &piece, &length))
        code = page_read_field(page, piece, length, err);
    return code;
}

enum pod_code api_page_read(struct api_request *req, struct api_page *page,
                            struct pod_err *err)
{
    uint64_t size = page->size;
    const char *token = NULL;
    enum pod_code code =
        api_query_at_most(req, "page_size", API_PAGE_MAX, &size, err);
    page->size = (size_t)size;
    if (code == POD_OK)
        code = page_read_fields(req, page, err);
    if (code == POD_OK)
        code = api_query_text(req, "page_token", &token, err);
    if (code == POD_OK && token != NULL)
        code = api_page_token_parse(token, page->scope, &page->place, err);
    if (code == POD_OK)
        code = api_query_end(req, err);
    return code;
}

void api_page_add(const struct api_page *page, struct api_build *items,
                  json_t *owned_item)
{
    for (size_t i = 0; page->mask != 0 && page->fields[i] != NULL; i++) {
        // Members that this item does not have are not missed.
        if (!(page->mask & (UINT64_C(1) << i)))
            (void)json_object_del(owned_item, page->fields[i]);
    }
    api_append(items, owned_item);
}

json_t *api_page_json(const struct api_page *page, const char *collection,
                      struct api_build *items, uint64_t next)
{
    struct api_build answer = api_build_object();
    api_set(&answer, collection, api_build_take(items));
    if (next != 0) {
        char token[API_PAGE_TOKEN_BYTES];
        api_page_token_print(page->scope, next, token);
        api_set_word(&answer, "next_page_token", token);
    }
    return api_build_take(&answer);
}

void api_page_reply(struct api_request *req, const struct api_page *page,
                    const char *collection, struct api_build *items,
                    uint64_t next)
{
    api_reply_json(req, 200, api_page_json(page, collection, items, next));
}

// -------------------------------------------------------------------- lists

void api_list_begin(struct api_request *req, const char *collection,
                    const char *const *fields, struct api_list *out)
{
    *out = (struct api_list){
        .collection = collection,
        .items = api_build_array(),
        .err = POD_ERR_NONE,
    };
    api_page_begin(req, collection, fields, &out->page);
    out->code = api_page_read(req, &out->page, &out->err);
}

void *api_list_room(struct api_list *list, size_t bytes)
{
    if (list->code != POD_OK)
        return NULL;
    void *views = pod_calloc(list->page.size, bytes);
    if (views == NULL)
        list->code = api_err_memory(&list->err);
    return views;
}

uint64_t api_list_below(const struct api_list *list)
{
    return list->page.place != 0 ? list->page.place : UINT64_MAX;
}

bool api_list_takes(struct api_list *list, uint64_t id)
{
    if (id < list->page.place || list->next != 0)
        return false;
    if (list->shown == list->page.size)
        list->next = id;
    return list->next == 0;
}

void api_list_add(struct api_list *list, json_t *owned_item)
{
    list->shown++;
    api_page_add(&list->page, &list->items, owned_item);
}

void api_list_reply(struct api_request *req, struct api_list *list)
{
    if (list->code == POD_OK) {
        api_page_reply(req, &list->page, list->collection, &list->items,
                       list->next);
        return;
    }
    list->items.failed = true;
    (void)api_build_take(&list->items);
    api_problem(req, &list->err);
}
