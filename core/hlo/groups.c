// SPDX-License-Identifier: Apache-2.0
#include "core/hlo/groups.h"

#include "core/base/mem.h"

#include <string.h>

// ------------------------------------------------------- the forms of groups

// The listed groups, whichever field they are in; *count is 0 if there is none.
static Xla__ReplicaGroup *const *
groups_listed(const Xla__HloInstructionProto *proto, size_t *count)
{
    if (proto->replica_group_list_case ==
        XLA__HLO_INSTRUCTION_PROTO__REPLICA_GROUP_LIST_COLLECTIVE_DEVICE_LIST) {
        *count = proto->collective_device_list->n_replica_groups;
        return proto->collective_device_list->replica_groups;
    }
    *count = proto->n_replica_groups;
    return proto->replica_groups;
}

static const Xla__IotaReplicaGroupListProto *
groups_iota(const Xla__HloInstructionProto *proto)
{
    if (proto->replica_group_list_case !=
        XLA__HLO_INSTRUCTION_PROTO__REPLICA_GROUP_LIST_IOTA_COLLECTIVE_DEVICE_LIST)
        return NULL;
    return proto->iota_collective_device_list;
}

bool pod_hlo_groups_sizes(const Xla__HloInstructionProto *proto,
                          int64_t *out_least, int64_t *out_most)
{
    const Xla__IotaReplicaGroupListProto *iota = groups_iota(proto);
    size_t count;
    Xla__ReplicaGroup *const *listed = groups_listed(proto, &count);
    if (iota != NULL) {
        *out_least = *out_most = iota->num_devices_per_group;
        return true;
    }
    if (count == 0)
        return false;
    *out_least = *out_most = (int64_t)listed[0]->n_replica_ids;
    for (size_t i = 1; i < count; i++) {
        int64_t size = (int64_t)listed[i]->n_replica_ids;
        if (size < *out_least)
            *out_least = size;
        if (size > *out_most)
            *out_most = size;
    }
    return true;
}

// ------------------------------------------------------------- spelling out

static enum pod_code groups_alloc(struct pod_hlo_groups *groups, size_t count,
                                  size_t ids, struct pod_err *err)
{
    groups->count = count;
    groups->starts = pod_calloc(count + 1, sizeof(groups->starts[0]));
    groups->ids = pod_calloc(ids, sizeof(groups->ids[0]));
    if (groups->starts != NULL && groups->ids != NULL)
        return POD_OK;
    return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                       "no memory for replica groups");
}

static enum pod_code groups_from_list(Xla__ReplicaGroup *const *listed,
                                      size_t count, int64_t participants,
                                      struct pod_hlo_groups *out,
                                      struct pod_err *err)
{
    size_t total = 0;
    enum pod_code code;
    for (size_t i = 0; i < count; i++)
        total += listed[i]->n_replica_ids;
    if (total != (uint64_t)participants)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                           "replica groups name %zu replicas, there are %lld",
                           total, (long long)participants);
    code = groups_alloc(out, count, total, err);
    if (code != POD_OK)
        return code;
    for (size_t i = 0; i < count; i++) {
        size_t size = listed[i]->n_replica_ids;
        if (size > 0)
            memcpy(out->ids + out->starts[i], listed[i]->replica_ids,
                   size * sizeof(out->ids[0]));
        out->starts[i + 1] = out->starts[i] + size;
    }
    return POD_OK;
}

// Element `at` (row-major) of the transposed iota. The verifier has checked
// that perm is a permutation and the sizes multiply to what there is.
static int64_t groups_iota_at(const Xla__IotaReplicaGroupListProto *iota,
                              int64_t at)
{
    int64_t value = 0;
    for (size_t p = iota->n_iota_reshape_dims; p-- > 0;) {
        size_t dim = iota->n_iota_transpose_perm == 0
                         ? p
                         : (size_t)iota->iota_transpose_perm[p];
        int64_t index = at % iota->iota_reshape_dims[dim];
        at /= iota->iota_reshape_dims[dim];
        for (size_t d = dim + 1; d < iota->n_iota_reshape_dims; d++)
            index *= iota->iota_reshape_dims[d];
        value += index;
    }
    return value;
}

static enum pod_code
groups_from_iota(const Xla__IotaReplicaGroupListProto *iota,
                 int64_t participants, struct pod_hlo_groups *out,
                 struct pod_err *err)
{
    size_t size = (size_t)iota->num_devices_per_group;
    size_t count = (size_t)iota->num_replica_groups;
    enum pod_code code;
    if (count * size != (uint64_t)participants)
        return pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                           "replica groups name %zu replicas, there are %lld",
                           count * size, (long long)participants);
    code = groups_alloc(out, count, count * size, err);
    if (code != POD_OK)
        return code;
    for (size_t i = 0; i < count * size; i++)
        out->ids[i] = groups_iota_at(iota, (int64_t)i);
    for (size_t i = 0; i <= count; i++)
        out->starts[i] = i * size;
    return POD_OK;
}

static enum pod_code groups_all(int64_t participants,
                                struct pod_hlo_groups *out, struct pod_err *err)
{
    enum pod_code code = groups_alloc(out, 1, (size_t)participants, err);
    if (code != POD_OK)
        return code;
    for (int64_t i = 0; i < participants; i++)
        out->ids[i] = i;
    out->starts[1] = (size_t)participants;
    return POD_OK;
}

// There are as many ids as participants, so if none is out of range or named
// twice, none is missing.
static enum pod_code groups_check(const struct pod_hlo_groups *groups,
                                  int64_t participants, struct pod_err *err)
{
    enum pod_code code = POD_OK;
    bool *seen = pod_calloc((size_t)participants, sizeof(*seen));
    if (seen == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for replica groups");
    for (int64_t i = 0; i < participants && code == POD_OK; i++) {
        int64_t id = groups->ids[i];
        if (id < 0 || id >= participants)
            code = pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                               "replica groups name replica %lld of %lld",
                               (long long)id, (long long)participants);
        else if (seen[id])
            code = pod_err_set(err, POD_REASON_INVALID_PROGRAM,
                               "replica groups name replica %lld twice",
                               (long long)id);
        else
            seen[id] = true;
    }
    pod_free(seen);
    return code;
}

enum pod_code pod_hlo_groups_make(const struct pod_hlo_instr *instr,
                                  int64_t participants,
                                  struct pod_hlo_groups *out,
                                  struct pod_err *err)
{
    const Xla__HloInstructionProto *proto = instr->proto;
    struct pod_hlo_groups groups = {.count = 0};
    const Xla__IotaReplicaGroupListProto *iota = groups_iota(proto);
    size_t count;
    Xla__ReplicaGroup *const *listed = groups_listed(proto, &count);
    enum pod_code code;
    if (proto->replica_group_list_case ==
        XLA__HLO_INSTRUCTION_PROTO__REPLICA_GROUP_LIST_MESH_AXES_REPLICA_GROUP_LIST)
        return pod_err_set(err, POD_REASON_UNIMPLEMENTED,
                           "replica groups by mesh axes are not supported");
    if (iota != NULL)
        code = groups_from_iota(iota, participants, &groups, err);
    else if (count > 0)
        code = groups_from_list(listed, count, participants, &groups, err);
    else
        code = groups_all(participants, &groups, err);
    if (code == POD_OK)
        code = groups_check(&groups, participants, err);
    if (code != POD_OK) {
        pod_hlo_groups_fini(&groups);
        return code;
    }
    *out = groups;
    return POD_OK;
}

void pod_hlo_groups_fini(struct pod_hlo_groups *groups)
{
    if (groups == NULL)
        return;
    pod_free(groups->starts);
    pod_free(groups->ids);
    *groups = (struct pod_hlo_groups){.count = 0};
}
