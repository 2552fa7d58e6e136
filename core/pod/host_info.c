// SPDX-License-Identifier: Apache-2.0
#include "core/pod/host_info.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/mem.h"
#include "core/base/str.h"

// ----------------------------------------------------------------- checking

static enum pod_code info_check_counts(const struct pod_driver_info *info,
                                       struct pod_err *err)
{
    if (info->core_count > POD_HOST_MAX_CORES)
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "host has %zu cores, at most %d are possible",
                           info->core_count, POD_HOST_MAX_CORES);
    if (info->chip_count > POD_HOST_MAX_CHIPS)
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "host lists %zu chips, at most %d are possible",
                           info->chip_count, POD_HOST_MAX_CHIPS);
    if (info->host_count > 1 &&
        (info->host_id < 0 || info->host_id >= info->host_count))
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "host says it is number %d of a slice of %d hosts",
                           info->host_id, info->host_count);
    return POD_OK;
}

static bool info_owns_chip(const struct pod_driver_info *info, size_t chip)
{
    return info->host_count <= 1 || info->chips[chip].host_id == info->host_id;
}

static enum pod_code info_check_cores(const struct pod_driver_info *info,
                                      struct pod_err *err)
{
    for (size_t i = 0; i < info->core_count; i++) {
        const struct pod_driver_core *core = &info->cores[i];
        if (i > 0 && core->worker_core <= core[-1].worker_core)
            return pod_err_set(err, POD_REASON_WORKER_ERROR,
                               "host lists core %u after core %u",
                               core->worker_core, core[-1].worker_core);
        if (core->chip >= info->chip_count)
            return pod_err_set(err, POD_REASON_WORKER_ERROR,
                               "core %u is on chip %u, host lists %zu chips",
                               core->worker_core, core->chip, info->chip_count);
        if (!info_owns_chip(info, core->chip))
            return pod_err_set(
                err, POD_REASON_WORKER_ERROR,
                "core %u of host %d is on a chip of host %d of the slice",
                core->worker_core, info->host_id,
                info->chips[core->chip].host_id);
    }
    return POD_OK;
}

// ------------------------------------------------------------------ copying

static size_t info_count_own_chips(const struct pod_driver_info *from)
{
    size_t count = 0;

    for (size_t i = 0; i < from->chip_count; i++)
        count += info_owns_chip(from, i);
    return count;
}

static size_t info_text_length(const char *text)
{
    if (text == NULL)
        return 0;
    size_t length = strnlen(text, POD_HOST_TEXT_BYTES + 1);
    return pod_utf8_clip(text, length, POD_HOST_TEXT_BYTES);
}

// Copies text that may be no text. Returns the place behind it.
static char *info_copy_text(char *to, const char *from, size_t length)
{
    if (length > 0)
        memcpy(to, from, length);
    to[length] = '\0';
    if (!pod_utf8_valid(to, length) || pod_text_has_control(to, length)) {
        for (size_t i = 0; i < length; i++)
            if (to[i] < ' ' || to[i] > '~')
                to[i] = '?';
    }
    return to + length + 1;
}

static int info_compare_cores(const void *left, const void *right)
{
    const struct pod_driver_core *a = left;
    const struct pod_driver_core *b = right;

    if (a->chip != b->chip)
        return a->chip < b->chip ? -1 : 1;
    return a->worker_core < b->worker_core ? -1 : 1;
}

// Copies the host's own chips, and its cores with the chips' new indices.
// `own` is room for the new index of each chip.
static void info_copy_places(struct pod_driver_chip *chips,
                             struct pod_driver_core *cores,
                             const struct pod_driver_info *from, uint32_t *own)
{
    uint32_t count = 0;

    for (size_t i = 0; i < from->chip_count; i++) {
        if (!info_owns_chip(from, i))
            continue;
        own[i] = count;
        chips[count++] = from->chips[i];
    }
    for (size_t i = 0; i < from->core_count; i++) {
        cores[i] = from->cores[i];
        cores[i].chip = own[from->cores[i].chip];
    }
    if (from->core_count > 0)
        qsort(cores, from->core_count, sizeof(*cores), info_compare_cores);
}

// Lays the block out. The counts are bounded: no sum here overflows.
static struct pod_host_info *info_copy(const struct pod_driver_info *from,
                                       uint32_t *own)
{
    size_t chip_count = info_count_own_chips(from);
    size_t platform = info_text_length(from->platform);
    size_t version = info_text_length(from->version);
    size_t cores_at = sizeof(struct pod_host_info);
    size_t chips_at =
        cores_at + from->core_count * sizeof(struct pod_driver_core);
    size_t text_at = chips_at + chip_count * sizeof(struct pod_driver_chip);
    char *block = pod_malloc(text_at + platform + version + 2);
    if (block == NULL)
        return NULL;

    struct pod_host_info *info = (void *)block;
    struct pod_driver_core *cores = (void *)(block + cores_at);
    struct pod_driver_chip *chips = (void *)(block + chips_at);
    char *text = block + text_at;
    bool alone = from->host_count <= 1;
    *info = (struct pod_host_info){
        .platform = text,
        .accepts = from->accepts,
        .features = from->features,
        .slice_host = alone ? 0 : from->host_id,
        .slice_hosts = alone ? 1 : from->host_count,
        .worker = from->worker,
        .cores = cores,
        .core_count = from->core_count,
        .chips = chips,
        .chip_count = chip_count,
    };
    text = info_copy_text(text, from->platform, platform);
    info->version = text;
    (void)info_copy_text(text, from->version, version);
    info_copy_places(chips, cores, from, own);
    return info;
}

struct pod_host_info *pod_host_info_new(const struct pod_driver_info *from,
                                        struct pod_err *err)
{
    if (info_check_counts(from, err) != POD_OK ||
        info_check_cores(from, err) != POD_OK)
        return NULL;

    uint32_t *own = pod_calloc(from->chip_count, sizeof(*own));
    struct pod_host_info *info = own == NULL ? NULL : info_copy(from, own);
    pod_free(own);
    if (info == NULL)
        (void)pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                          "no memory for the description of a host");
    return info;
}

void pod_host_info_free(struct pod_host_info *info)
{
    pod_free(info);
}

enum pod_code pod_host_info_same(const struct pod_host_info *before,
                                 const struct pod_host_info *now,
                                 struct pod_err *err)
{
    if (now->core_count != before->core_count)
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "host came back with %zu cores, it had %zu",
                           now->core_count, before->core_count);
    if (now->chip_count != before->chip_count)
        return pod_err_set(err, POD_REASON_WORKER_ERROR,
                           "host came back with %zu chips, it had %zu",
                           now->chip_count, before->chip_count);
    for (size_t i = 0; i < now->core_count; i++) {
        if (now->cores[i].worker_core != before->cores[i].worker_core ||
            now->cores[i].chip != before->cores[i].chip)
            return pod_err_set(
                err, POD_REASON_WORKER_ERROR,
                "host came back with core %u on its chip %u where core %u was "
                "on its chip %u",
                now->cores[i].worker_core, now->cores[i].chip,
                before->cores[i].worker_core, before->cores[i].chip);
    }
    return POD_OK;
}

// -------------------------------------------------------------------- links

struct pod_slice_key pod_slice_key(const struct pod_host_info *info,
                                   uint32_t index, size_t pod_hosts)
{
    struct pod_slice_key key = {.hosts = info->slice_hosts, .base = 0};

    if (info->slice_hosts == 1)
        key.base = index;
    else if ((size_t)info->slice_hosts != pod_hosts)
        key.base = (int64_t)index - info->slice_host;
    return key;
}

static int site_order(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int site_compare_place(const struct pod_site *a,
                              const struct pod_site *b)
{
    int order = site_order(a->slice.hosts, b->slice.hosts);

    if (order == 0)
        order = site_order(a->slice.base, b->slice.base);
    if (order == 0)
        order = site_order(a->z, b->z);
    if (order == 0)
        order = site_order(a->y, b->y);
    if (order == 0)
        order = site_order(a->x, b->x);
    return order;
}

static int site_compare(const void *left, const void *right)
{
    const struct pod_site *a = left;
    const struct pod_site *b = right;
    int order = site_compare_place(a, b);

    return order != 0 ? order : site_order(a->id, b->id);
}

static int site_compare_link(const void *left, const void *right)
{
    const struct pod_link_view *a = left;
    const struct pod_link_view *b = right;
    int order = site_order(a->from, b->from);

    return order != 0 ? order : site_order(a->to, b->to);
}

// The first site at a place, or NULL.
static const struct pod_site *site_find(const struct pod_site *sites,
                                        size_t count,
                                        const struct pod_site *place)
{
    size_t low = 0;
    size_t high = count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (site_compare_place(&sites[middle], place) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < count && site_compare_place(&sites[low], place) == 0)
        return &sites[low];
    return NULL;
}

size_t pod_sites_link(struct pod_site *sites, size_t count,
                      struct pod_link_view *out_links)
{
    size_t links = 0;

    if (count == 0)
        return 0;
    qsort(sites, count, sizeof(*sites), site_compare);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && site_compare_place(&sites[i - 1], &sites[i]) == 0)
            continue;
        for (int axis = 0; axis < 3; axis++) {
            struct pod_site next = sites[i];
            int32_t *value = axis == 0   ? &next.x
                             : axis == 1 ? &next.y
                                         : &next.z;
            if (__builtin_add_overflow(*value, 1, value))
                continue;
            const struct pod_site *other = site_find(sites, count, &next);
            if (other == NULL)
                continue;
            bool rising = sites[i].id < other->id;
            out_links[links++] = (struct pod_link_view){
                .from = rising ? sites[i].id : other->id,
                .to = rising ? other->id : sites[i].id,
            };
        }
    }
    qsort(out_links, links, sizeof(*out_links), site_compare_link);
    return links;
}
