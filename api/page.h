// SPDX-License-Identifier: Apache-2.0
// Pages of collections: page_size, page_token, fields, and the answer.
#ifndef POD_API_PAGE_H
#define POD_API_PAGE_H

#include "api/build.h"
#include "api/http.h"

enum { API_PAGE_DEFAULT = 100, API_PAGE_MAX = 1000 };

struct api_page {
    size_t size;
    uint64_t place; // where to go on; 0: at the beginning
    uint64_t scope;
    const char *const *fields; // known names, ended by NULL
    uint64_t mask;             // bit i: fields[i] was asked for; 0: all
};

// Starts the page of a collection. Add each filter with api_page_filter, then
// read the parameters with api_page_read.
void api_page_begin(struct api_request *req, const char *collection,
                    const char *const *fields, struct api_page *out);
// A filter's value as it was given; NULL: it was not.
void api_page_filter(struct api_page *page, const char *name,
                     const char *value);
// Reads page_size, page_token and fields, and refuses unknown parameters.
enum pod_code api_page_read(struct api_request *req, struct api_page *page,
                            struct pod_err *err)
    __attribute__((warn_unused_result));

// Adds an item with the fields that were asked for. Takes it over; NULL fails.
void api_page_add(const struct api_page *page, struct api_build *items,
                  json_t *owned_item);
// {"<collection>": items, "next_page_token": ...}; next 0: the end. NULL: no
// memory.
json_t *api_page_json(const struct api_page *page, const char *collection,
                      struct api_build *items, uint64_t next);
// Replies with it.
void api_page_reply(struct api_request *req, const struct api_page *page,
                    const char *collection, struct api_build *items,
                    uint64_t next);

// A list without filters, from its parameters to its answer. An error on the
// way is reported at the end: whoever fills the list goes on only while `code`
// is OK.
struct api_list {
    const char *collection;
    struct api_page page;
    struct api_build items;
    size_t shown;
    uint64_t next; // place of the next page; 0: there is none
    enum pod_code code;
    struct pod_err err;
};

void api_list_begin(struct api_request *req, const char *collection,
                    const char *const *fields, struct api_list *out);
// Room for the page's views of `bytes` each, owned by the caller (pod_free);
// NULL: the list has failed.
void *api_list_room(struct api_list *list, size_t bytes);
// For pod_list_*: below which number the page begins.
uint64_t api_list_below(const struct api_list *list);
// For things that are visited by rising id: whether this one is on the page.
bool api_list_takes(struct api_list *list, uint64_t id);
// Adds an item to the page. Takes it over; NULL fails.
void api_list_add(struct api_list *list, json_t *owned_item);
// Replies with the page, or with what went wrong.
void api_list_reply(struct api_request *req, struct api_list *list);

#endif
