// SPDX-License-Identifier: Apache-2.0
#include "core/pod/conditions.h"

static const char *const condition_reason_names[] = {
#define X(name, text) #name,
    POD_CONDITION_REASONS(X)
#undef X
};

static const char *const condition_reason_texts[] = {
#define X(name, text) text,
    POD_CONDITION_REASONS(X)
#undef X
};

const char *pod_condition_type_name(enum pod_condition_type type)
{
    static const char *const names[] = {"READY", "SCHEDULABLE", "DRAINED",
                                        "STALLED"};

    return type < POD_CONDITION_COUNT ? names[type] : "UNKNOWN";
}

const char *pod_condition_status_name(enum pod_condition_status status)
{
    static const char *const names[] = {"FALSE", "TRUE", "UNKNOWN"};

    return status <= POD_CONDITION_UNKNOWN ? names[status] : "UNKNOWN";
}

const char *pod_condition_reason_name(enum pod_condition_reason reason)
{
    return reason < POD_CONDITION_REASON_COUNT ? condition_reason_names[reason]
                                               : "UNKNOWN";
}

const char *pod_condition_reason_text(enum pod_condition_reason reason)
{
    return reason < POD_CONDITION_REASON_COUNT ? condition_reason_texts[reason]
                                               : "";
}

static struct pod_condition condition_of(enum pod_condition_status status,
                                         enum pod_condition_reason reason)
{
    return (struct pod_condition){.status = status, .reason = reason};
}

static struct pod_condition condition_ready(const struct pod_host_facts *facts)
{
    switch (facts->state) {
    case POD_HOST_READY:
    case POD_HOST_CORDONED:
        return condition_of(POD_CONDITION_TRUE,
                            POD_CONDITION_REASON_HEARTBEATS);
    case POD_HOST_CONNECTING:
        return condition_of(POD_CONDITION_UNKNOWN,
                            POD_CONDITION_REASON_CONNECTING);
    case POD_HOST_LOST:
        break;
    }
    if (facts->refused)
        return condition_of(POD_CONDITION_FALSE,
                            POD_CONDITION_REASON_CONTRADICTORY);
    return condition_of(POD_CONDITION_FALSE,
                        facts->known ? POD_CONDITION_REASON_HOST_LOST
                                     : POD_CONDITION_REASON_UNREACHABLE);
}

static struct pod_condition
condition_schedulable(const struct pod_host_facts *facts, bool ready)
{
    if (facts->cordoned)
        return condition_of(POD_CONDITION_FALSE, POD_CONDITION_REASON_CORDONED);
    if (!ready)
        return condition_of(POD_CONDITION_FALSE,
                            POD_CONDITION_REASON_NOT_READY);
    return condition_of(POD_CONDITION_TRUE, POD_CONDITION_REASON_ACCEPTS_WORK);
}

static struct pod_condition
condition_drained(const struct pod_host_facts *facts)
{
    if (!facts->cordoned)
        return condition_of(POD_CONDITION_FALSE,
                            POD_CONDITION_REASON_NOT_CORDONED);
    if (facts->to_do > 0)
        return condition_of(POD_CONDITION_FALSE,
                            POD_CONDITION_REASON_OPERATIONS_OPEN);
    return condition_of(POD_CONDITION_TRUE, POD_CONDITION_REASON_IDLE);
}

void pod_host_judge(const struct pod_host_facts *facts,
                    struct pod_condition out[POD_CONDITION_COUNT])
{
    struct pod_condition ready = condition_ready(facts);

    out[POD_CONDITION_READY] = ready;
    out[POD_CONDITION_SCHEDULABLE] =
        condition_schedulable(facts, ready.status == POD_CONDITION_TRUE);
    out[POD_CONDITION_DRAINED] = condition_drained(facts);
    pod_judge_stalled(facts->stalled, &out[POD_CONDITION_STALLED]);
}

void pod_judge_stalled(bool stalled, struct pod_condition *out)
{
    *out = stalled ? condition_of(POD_CONDITION_TRUE,
                                  POD_CONDITION_REASON_OPERATION_STALLED)
                   : condition_of(POD_CONDITION_FALSE,
                                  POD_CONDITION_REASON_NOTHING_STALLED);
}

void pod_judge(const struct pod_facts *facts, struct pod_condition *out)
{
    if (facts->draining)
        *out = condition_of(POD_CONDITION_FALSE, POD_CONDITION_REASON_DRAINING);
    else if (facts->hosts == 0)
        *out = condition_of(POD_CONDITION_FALSE, POD_CONDITION_REASON_NO_HOSTS);
    else if (facts->up < facts->hosts)
        *out = condition_of(POD_CONDITION_FALSE,
                            POD_CONDITION_REASON_HOSTS_MISSING);
    else
        *out = condition_of(POD_CONDITION_TRUE,
                            POD_CONDITION_REASON_ALL_HOSTS_READY);
}

bool pod_condition_take(struct pod_condition *condition,
                        const struct pod_condition *judged, int64_t wall_ns)
{
    bool fresh = condition->since_wall_ns == 0;
    bool moved = fresh || condition->status != judged->status;
    bool changed = moved || condition->reason != judged->reason;

    condition->status = judged->status;
    condition->reason = judged->reason;
    if (moved)
        condition->since_wall_ns = wall_ns;
    return changed;
}
