// SPDX-License-Identifier: Apache-2.0
// What the hosts made of a program's content: one record for all programs that
// are equal, and in it one for each host that has to do with it.
//
// A host's record has an address that stays, because its call is in lists. The
// first compile is begun under the lock; so the records of as many hosts as
// there are were made before, and wait behind those that are in use.
#include "core/pod/compile.h"

#include <string.h>

#include "core/base/mem.h"

// ----------------------------------------------------------------- its hosts

// Where the record of a host is, or where it would have to be.
static size_t compiled_place(const struct pod_compiled *compiled, uint32_t host)
{
    size_t low = 0;
    size_t high = compiled->host_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compiled->hosts[middle]->host < host)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool compiled_has(const struct pod_compiled *compiled, size_t place,
                         uint32_t host)
{
    return place < compiled->host_count && compiled->hosts[place]->host == host;
}

struct pod_compiled_host *
pod_compiled_find_host(const struct pod_compiled *compiled, uint32_t host)
{
    size_t place = compiled_place(compiled, host);

    return compiled_has(compiled, place, host) ? compiled->hosts[place] : NULL;
}

// Makes records for as many hosts. False: no memory.
static bool compiled_reserve(struct pod_compiled *compiled, size_t room)
{
    struct pod_compiled_host **hosts;

    if (room <= compiled->host_room)
        return true;
    hosts = pod_realloc(compiled->hosts, room, sizeof(*hosts));
    if (hosts == NULL)
        return false;
    compiled->hosts = hosts;
    while (compiled->host_room < room) {
        struct pod_compiled_host *on = pod_calloc(1, sizeof(*on));
        if (on == NULL)
            return false;
        hosts[compiled->host_room++] = on;
    }
    return true;
}

struct pod_compiled_host *pod_compiled_on(struct pod_compiled *compiled,
                                          uint32_t host)
{
    size_t place = compiled_place(compiled, host);

    if (compiled_has(compiled, place, host))
        return compiled->hosts[place];
    if (!compiled_reserve(compiled, compiled->host_count + 1))
        return NULL;
    struct pod_compiled_host **at = &compiled->hosts[place];
    struct pod_compiled_host *on = compiled->hosts[compiled->host_count];
    memmove(at + 1, at, (compiled->host_count++ - place) * sizeof(*at));
    *at = on;
    *on = (struct pod_compiled_host){.host = host};
    pod_list_init(&on->joined);
    pod_list_init(&on->call.link);
    pod_list_init(&on->call.cancel_link);
    return on;
}

const struct pod_call *pod_compiled_call(const struct pod_compiled *compiled,
                                         size_t index)
{
    return index < compiled->host_count ? &compiled->hosts[index]->call : NULL;
}

const struct pod_call *
pod_compiled_host_call(const struct pod_compiled *compiled, uint32_t host)
{
    const struct pod_compiled_host *on = pod_compiled_find_host(compiled, host);

    return on == NULL ? NULL : &on->call;
}

const struct pod_list *pod_compiled_joined(const struct pod_call *call)
{
    const char *on = (const char *)call;

    on -= offsetof(struct pod_compiled_host, call);
    return &((const struct pod_compiled_host *)(const void *)on)->joined;
}

static void compiled_host_fini(struct pod_compiled_host *on)
{
    pod_failure_unref(on->failure);
    pod_trace_unref(on->trace);
}

static void compiled_forget_host(struct pod_compiled *compiled, uint32_t host)
{
    size_t place = compiled_place(compiled, host);

    if (!compiled_has(compiled, place, host))
        return;
    struct pod_compiled_host **at = &compiled->hosts[place];
    struct pod_compiled_host *on = *at;
    compiled_host_fini(on);
    memmove(at, at + 1, (--compiled->host_count - place) * sizeof(*at));
    compiled->hosts[compiled->host_count] = on;
}

void pod_compiled_forget_host_locked(struct pod *pod, uint32_t host)
{
    struct pod_list *const lists[] = {&pod->compiled, &pod->compiled_old};

    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (struct pod_list *at = lists[i]->next; at != lists[i];
             at = at->next)
            compiled_forget_host(POD_CONTAINER(at, struct pod_compiled, link),
                                 host);
    }
}

// -------------------------------------------------------------- the records

struct pod_compiled *pod_compiled_new(struct pod *pod, struct pod_blob *blob,
                                      const struct pod_program *program)
{
    struct pod_compiled *compiled = pod_calloc(1, sizeof(*compiled));

    if (compiled == NULL)
        return NULL;
    pod_list_init(&compiled->link);
    pod_list_init(&compiled->joined);
    if (!compiled_reserve(compiled, atomic_load(&pod->live_hosts))) {
        pod_compiled_free(compiled);
        return NULL;
    }
    memcpy(compiled->digest, program->digest, sizeof(compiled->digest));
    compiled->format = program->format;
    compiled->replicas = program->replicas;
    compiled->blob = pod_blob_ref(blob);
    return compiled;
}

void pod_compiled_free(struct pod_compiled *compiled)
{
    if (compiled == NULL)
        return;
    pod_list_remove(&compiled->link);
    for (size_t i = 0; i < compiled->host_count; i++)
        compiled_host_fini(compiled->hosts[i]);
    for (size_t i = 0; i < compiled->host_room; i++)
        pod_free(compiled->hosts[i]);
    pod_free(compiled->hosts);
    pod_failure_unref(compiled->failure);
    pod_blob_unref(compiled->blob);
    if (compiled->has_shape)
        pod_program_shape_fini(&compiled->shape);
    pod_free(compiled);
}

void pod_compiled_hide_locked(struct pod *pod, struct pod_compiled *compiled)
{
    pod_list_remove(&compiled->link);
    pod_list_push_back(&pod->compiled_old, &compiled->link);
}

void pod_compiled_forget_all_locked(struct pod *pod)
{
    for (struct pod_list *at = pod->compiled.next; at != &pod->compiled;
         at = at->next) {
        struct pod_compiled *compiled =
            POD_CONTAINER(at, struct pod_compiled, link);
        for (size_t i = 0; i < compiled->host_count; i++)
            compiled->hosts[i]->state = POD_COMPILED_NONE;
    }
    pod_list_splice(&pod->compiled_old, &pod->compiled);
}

// Whether a call works for it, or a host has it that should not.
static bool compiled_lingers(const struct pod_compiled *compiled)
{
    bool lingers = false;

    for (size_t i = 0; i < compiled->host_count; i++)
        lingers = lingers || compiled->hosts[i]->call.open ||
                  compiled->hosts[i]->owed;
    return lingers;
}

void pod_compiled_release_locked(struct pod_compiled *compiled)
{
    if (compiled->refs == 0 && !compiled_lingers(compiled))
        pod_compiled_free(compiled);
}

void pod_compiled_let_host_go_locked(struct pod *pod, uint32_t host)
{
    struct pod_list *at = pod->compiled_old.next;

    while (at != &pod->compiled_old) {
        struct pod_compiled *compiled =
            POD_CONTAINER(at, struct pod_compiled, link);
        struct pod_compiled_host *on = pod_compiled_find_host(compiled, host);
        at = at->next;
        if (on == NULL || !on->owed)
            continue;
        on->owed = false;
        pod_compiled_release_locked(compiled);
    }
}

void pod_compiled_unref_locked(struct pod *pod, struct pod_compiled *compiled)
{
    (void)pod;
    compiled->refs--;
    pod_compiled_release_locked(compiled);
}

struct pod_compiled *pod_compiled_find_locked(struct pod *pod,
                                              const struct pod_compiled *like)
{
    for (struct pod_list *at = pod->compiled.next; at != &pod->compiled;
         at = at->next) {
        struct pod_compiled *compiled =
            POD_CONTAINER(at, struct pod_compiled, link);
        if (compiled->format == like->format &&
            compiled->replicas == like->replicas &&
            strcmp(compiled->digest, like->digest) == 0)
            return compiled;
    }
    return NULL;
}
