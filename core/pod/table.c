// SPDX-License-Identifier: Apache-2.0
#include "core/pod/op.h"

#include <assert.h>
#include <string.h>

#include "core/base/mem.h"

void pod_table_fini(struct pod_table *table)
{
    for (size_t i = 0; i < table->page_count; i++)
        pod_free(table->pages[i]);
    pod_free(table->pages);
    *table = (struct pod_table){0};
}

static uint64_t table_page_of(uint64_t number)
{
    return number / POD_TABLE_PAGE;
}

// Forgets empty pages at the front, so that the directory is as long as the
// span of the numbers that are kept.
static void table_trim(struct pod_table *table)
{
    size_t empty = 0;

    while (empty < table->page_count && table->pages[empty] == NULL)
        empty++;
    if (empty == 0 || (empty < 64 && empty < table->page_count))
        return;
    table->page_count -= empty;
    table->first_page += empty;
    memmove(table->pages, table->pages + empty,
            table->page_count * sizeof(struct pod_table_page *));
}

static bool table_grow(struct pod_table *table, size_t pages)
{
    size_t capacity = table->page_capacity * 2;
    struct pod_table_page **grown;

    if (pages <= table->page_capacity)
        return true;
    if (capacity < pages)
        capacity = pages;
    grown =
        pod_realloc(table->pages, capacity, sizeof(struct pod_table_page *));
    if (grown == NULL)
        return false;
    table->pages = grown;
    table->page_capacity = capacity;
    return true;
}

bool pod_table_reserve(struct pod_table *table, uint64_t first, size_t count)
{
    if (count == 0)
        return true;
    uint64_t last_page = table_page_of(first + count - 1);
    if (table->page_count == 0)
        table->first_page = table_page_of(first);
    assert(table_page_of(first) >= table->first_page);
    if (!table_grow(table, (size_t)(last_page - table->first_page) + 1))
        return false;
    while (table->first_page + table->page_count <= last_page)
        table->pages[table->page_count++] = NULL;
    for (uint64_t page = table_page_of(first); page <= last_page; page++) {
        struct pod_table_page **slot = &table->pages[page - table->first_page];
        if (*slot == NULL)
            *slot = pod_calloc(1, sizeof(**slot));
        if (*slot == NULL)
            return false;
    }
    return true;
}

static struct pod_table_page *table_page(const struct pod_table *table,
                                         uint64_t number)
{
    uint64_t page = table_page_of(number);

    if (page < table->first_page ||
        page - table->first_page >= table->page_count)
        return NULL;
    return table->pages[page - table->first_page];
}

void pod_table_put(struct pod_table *table, struct pod_op *op)
{
    struct pod_table_page *page = table_page(table, op->number);

    assert(page != NULL && page->ops[op->number % POD_TABLE_PAGE] == NULL);
    page->ops[op->number % POD_TABLE_PAGE] = op;
    page->count++;
}

struct pod_op *pod_table_get(const struct pod_table *table, uint64_t number)
{
    const struct pod_table_page *page = table_page(table, number);

    return page == NULL ? NULL : page->ops[number % POD_TABLE_PAGE];
}

void pod_table_remove(struct pod_table *table, uint64_t number)
{
    struct pod_table_page *page = table_page(table, number);
    size_t index = (size_t)(table_page_of(number) - table->first_page);

    assert(page != NULL && page->ops[number % POD_TABLE_PAGE] != NULL);
    page->ops[number % POD_TABLE_PAGE] = NULL;
    page->count--;
    // The newest page stays: the next number probably goes there.
    if (page->count > 0 || index + 1 == table->page_count)
        return;
    pod_free(page);
    table->pages[index] = NULL;
    table_trim(table);
}

struct pod_op *pod_table_before(const struct pod_table *table, uint64_t below)
{
    uint64_t end = (table->first_page + table->page_count) * POD_TABLE_PAGE;
    uint64_t number = below < end ? below : end;

    while (number > table->first_page * POD_TABLE_PAGE) {
        const struct pod_table_page *page = table_page(table, number - 1);
        if (page == NULL || page->count == 0) {
            number = table_page_of(number - 1) * POD_TABLE_PAGE;
            continue;
        }
        number--;
        if (page->ops[number % POD_TABLE_PAGE] != NULL)
            return page->ops[number % POD_TABLE_PAGE];
    }
    return NULL;
}
