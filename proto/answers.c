// SPDX-License-Identifier: Apache-2.0
#include "proto/answers.h"

#include "core/base/mem.h"

void answers_list_init(struct answers_list *list)
{
    pod_mutex_init(&list->lock, POD_RANK_DRIVER, "answer streams");
    pod_list_init(&list->streams);
}

void answers_list_fini(struct answers_list *list)
{
    pod_mutex_fini(&list->lock);
}

static void answers_free(struct answers *answers)
{
    rpc_stream_unref(answers->stream);
    pod_trace_unref(answers->trace);
    pod_mutex_fini(&answers->lock);
    pod_free(answers);
}

static void answers_unref(struct answers *answers)
{
    if (atomic_fetch_sub(&answers->refs, 1) == 1)
        answers_free(answers);
}

static struct answers *answers_of(struct worker_sink *sink)
{
    return POD_CONTAINER(sink, struct answers, sink);
}

static void answers_sink_ref(struct worker_sink *sink)
{
    atomic_fetch_add(&answers_of(sink)->refs, 1);
}

static void answers_sink_unref(struct worker_sink *sink)
{
    answers_unref(answers_of(sink));
}

static void answers_finish_if(struct answers *answers, bool answered)
{
    pod_mutex_lock(&answers->lock);
    if (answered)
        answers->open--;
    bool finish = answers->last && answers->open == 0 && !answers->finished;
    if (finish)
        answers->finished = true;
    pod_mutex_unlock(&answers->lock);
    if (finish)
        rpc_stream_finish(answers->stream, POD_OK, "");
}

// What has begun is often done a moment later: both go in one message.
static void answers_started(struct answers *answers,
                            const struct worker_answer *answer)
{
    struct worker_answer started = *answer;
    started.started = true;
    rpc_stream_send_soon(answers->stream,
                         answers->ways->pack(answers, &started));
}

static void answers_answer(struct worker_sink *sink,
                           const struct worker_answer *answer)
{
    struct answers *answers = answers_of(sink);
    struct worker_answer done = *answer;
    if (answer->started || (answer->begun && !atomic_load(&answers->joins))) {
        answers_started(answers, answer);
        done.begun = false;
    }
    if (answer->started)
        return;
    rpc_stream_send(answers->stream, answers->ways->pack(answers, &done));
    answers_finish_if(answers, true);
}

// One reference, for the stream's events. NULL: no memory.
static struct answers *answers_new(struct answers_list *list,
                                   const struct answers_ways *ways,
                                   void *service,
                                   struct rpc_stream *owned_stream)
{
    struct answers *answers = pod_calloc(1, sizeof(*answers));
    if (answers == NULL)
        return NULL;
    answers->sink = (struct worker_sink){.answer = answers_answer,
                                         .ref = answers_sink_ref,
                                         .unref = answers_sink_unref};
    pod_mutex_init(&answers->lock, POD_RANK_DEVICE, "answer stream");
    atomic_init(&answers->refs, 1);
    atomic_init(&answers->joins, false);
    answers->list = list;
    answers->stream = owned_stream;
    answers->ways = ways;
    answers->service = service;
    pod_mutex_lock(&list->lock);
    pod_list_push_back(&list->streams, &answers->link);
    pod_mutex_unlock(&list->lock);
    return answers;
}

static void answers_ignore_message(void *arg, const void *data, size_t size)
{
    (void)arg;
    (void)data;
    (void)size;
}

static void answers_ignore_end(void *arg, enum pod_code code, const char *text)
{
    (void)code;
    (void)text;
    rpc_stream_unref(arg);
}

void answers_refuse(struct rpc_stream *owned_stream,
                    struct rpc_stream_events *out_events, void **out_arg)
{
    *out_events = (struct rpc_stream_events){.message = answers_ignore_message,
                                             .ended = answers_ignore_end};
    *out_arg = owned_stream;
    rpc_stream_finish(owned_stream, POD_RESOURCE_EXHAUSTED, "no memory");
}

void answers_bind(struct answers *answers, struct worker_session *session)
{
    if (answers->session != NULL)
        return; // only the stream's own events write it
    worker_stream_begins(session);
    pod_mutex_lock(&answers->lock);
    answers->session = session;
    pod_mutex_unlock(&answers->lock);
}

void answers_expect(struct answers *answers)
{
    pod_mutex_lock(&answers->lock);
    answers->open++;
    pod_mutex_unlock(&answers->lock);
}

// The first stream of the session that does not know yet, with a reference.
static struct answers *answers_find(struct answers_list *list,
                                    const struct worker_session *session)
{
    struct answers *found = NULL;
    pod_mutex_lock(&list->lock);
    for (struct pod_list *item = list->streams.next;
         item != &list->streams && found == NULL; item = item->next) {
        struct answers *answers = POD_CONTAINER(item, struct answers, link);
        pod_mutex_lock(&answers->lock);
        if (answers->session == session && !answers->last) {
            answers->last = true;
            found = answers;
            atomic_fetch_add(&answers->refs, 1);
        }
        pod_mutex_unlock(&answers->lock);
    }
    pod_mutex_unlock(&list->lock);
    return found;
}

void answers_end_session(struct answers_list *list,
                         const struct worker_session *session)
{
    struct answers *answers;
    while ((answers = answers_find(list, session)) != NULL) {
        answers_finish_if(answers, false);
        answers_unref(answers);
    }
}

// --------------------------------------------------- the events of a stream

static void answers_message(void *arg, const void *data, size_t size)
{
    struct answers *answers = arg;
    struct pod_err err = POD_ERR_NONE;
    struct pod_wire_field field;
    enum pod_code code = POD_OK;
    size_t at = 0;
    while (code == POD_OK && pod_wire_next(data, size, &at, &field))
        code = answers->ways->field(answers, &field, &err);
    if (code == POD_OK && at != size)
        code = pod_err_set(&err, POD_REASON_BAD_VALUE,
                           "the message is malformed at byte %zu", at);
    if (code != POD_OK)
        rpc_stream_finish(answers->stream, err.code, err.text);
}

// Nothing more will come.
static void answers_half_closed(void *arg)
{
    struct answers *answers = arg;
    pod_mutex_lock(&answers->lock);
    answers->last = true;
    pod_mutex_unlock(&answers->lock);
    answers_finish_if(answers, false);
}

static void answers_ended(void *arg, enum pod_code code, const char *text)
{
    struct answers *answers = arg;
    (void)text;
    if (answers->ways->ended != NULL)
        answers->ways->ended(answers);
    pod_mutex_lock(&answers->list->lock);
    pod_list_remove(&answers->link);
    pod_mutex_unlock(&answers->list->lock);
    pod_mutex_lock(&answers->lock);
    bool gone = code != POD_OK && !answers->last;
    pod_mutex_unlock(&answers->lock);
    if (answers->session != NULL)
        worker_stream_ends(answers->session, gone);
    answers_unref(answers);
}

void answers_open(struct answers_list *list, const struct answers_ways *ways,
                  void *service, struct rpc_stream *owned_stream,
                  struct rpc_stream_events *out_events, void **out_arg)
{
    struct answers *answers = answers_new(list, ways, service, owned_stream);
    *out_events = (struct rpc_stream_events){.message = answers_message,
                                             .half_closed = answers_half_closed,
                                             .ended = answers_ended};
    *out_arg = answers;
    if (answers == NULL)
        answers_refuse(owned_stream, out_events, out_arg);
}
