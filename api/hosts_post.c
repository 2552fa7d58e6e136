// SPDX-License-Identifier: Apache-2.0
// POST /v1/hosts: one more host.
//
// Making it may take its time (threads are started): the worker's thread does
// that while the request is parked. A client that hangs up stops nothing: the
// key of its request learns what came of it.
#include <stdio.h>
#include <string.h>

#include "api/common.h"
#include "api/handlers.h"
#include "api/http_internal.h"
#include "api/keyed.h"
#include "api/query.h"
#include "api/routes.h"
#include "api/view_json.h"
#include "core/base/mem.h"

enum { HOSTS_ADDRESS_BYTES = 320 }; // more is no address of a worker

struct hosts_job {
    struct api_work work;
    const struct api_app *app;
    struct api_server *server;
    bool has_address;
    char address[HOSTS_ADDRESS_BYTES];
    struct api_request *req;   // NULL: it has ended
    struct api_answer *answer; // of its key, when nobody waits for it any more
    bool working;              // the worker has it, and what follows
    bool finished;             // what follows is set
    enum pod_code code;
    struct pod_err err;
    uint32_t host;
};

// In the worker's thread.
static void hosts_work(struct api_work *work)
{
    struct hosts_job *job = POD_CONTAINER(work, struct hosts_job, work);

    job->code = job->app->join(job->app->join_arg,
                               job->has_address ? job->address : NULL,
                               &job->host, &job->err);
}

// NULL: no memory, or it was removed again already.
static json_t *hosts_made_json(const struct hosts_job *job)
{
    struct pod_topology_view view = {0};
    json_t *json = NULL;

    if (pod_get_topology(job->app->pod, &view, NULL) != POD_OK)
        return NULL;
    const struct pod_host_view *host = pod_topology_host(&view, job->host);
    if (host != NULL)
        json = api_host_json(host);
    pod_topology_view_fini(&view);
    return json;
}

// Tells the key what came of it.
static void hosts_answer_late(struct hosts_job *job)
{
    bool made = job->finished && job->code == POD_OK;
    char location[32];

    (void)snprintf(location, sizeof(location), "/v1/hosts/%u", job->host);
    api_keyed_late(job->server, job->answer, made ? 201 : 0, location,
                   made ? hosts_made_json(job) : NULL);
    job->answer = NULL;
}

// The request or the work has ended.
static void hosts_settle(struct hosts_job *job)
{
    if (job->working)
        return;
    if (job->answer != NULL)
        hosts_answer_late(job);
    if (job->req == NULL)
        pod_free(job);
}

// The worker is done with it.
static void hosts_finish(struct api_work *work)
{
    struct hosts_job *job = POD_CONTAINER(work, struct hosts_job, work);

    job->working = false;
    job->finished = true;
    if (job->req != NULL)
        api_wake(job->req);
    hosts_settle(job);
}

// Nobody waits for the host any more, but it may be made.
static void hosts_give_up(struct hosts_job *job)
{
    if (job->answer == NULL)
        job->answer = api_keyed_leave(job->req);
}

// The request ends.
static void hosts_leave(void *arg)
{
    struct hosts_job *job = arg;

    hosts_give_up(job);
    job->req = NULL;
    hosts_settle(job);
}

static void hosts_made(struct api_request *req, const struct hosts_job *job)
{
    json_t *json = job->code == POD_OK ? hosts_made_json(job) : NULL;
    struct pod_err err = job->err;

    if (job->code == POD_OK && json == NULL)
        (void)pod_err_set(&err, POD_REASON_EXPIRED, "host %u was removed",
                          job->host);
    if (json == NULL) {
        api_problem(req, &err);
        return;
    }
    api_header(req, "Location", "/v1/hosts/%u", job->host);
    api_reply_json(req, 201, json);
}

static void hosts_resume(struct api_request *req, enum api_wake why)
{
    struct hosts_job *job = api_state(req);
    struct pod_err err = POD_ERR_NONE;

    if (job->finished) {
        hosts_made(req, job);
        return;
    }
    if (why == API_WAKE_TIMEOUT)
        (void)pod_err_set(&err, POD_REASON_WAIT_EXPIRED,
                          "the host could not be added in time");
    else if (api_park(req, POD_NEVER, hosts_resume, &err) == POD_OK)
        return;
    hosts_give_up(job);
    api_problem(req, &err);
}

// The body may be left out where hosts have no address.
static enum pod_code hosts_read(struct api_request *req, struct hosts_job *job,
                                struct pod_err *err)
{
    struct api_reader reader;
    const json_t *body = api_body_json(req);
    const char *address = NULL;
    enum pod_code code = api_query_end(req, err);

    if (code != POD_OK || body == NULL)
        return code;
    code = api_read_begin(&reader, body, "", err);
    if (code == POD_OK)
        code = api_read_text(&reader, "address", 1, HOSTS_ADDRESS_BYTES - 1,
                             &address, err);
    if (code == POD_OK)
        code = api_read_end(&reader, err);
    if (code != POD_OK || address == NULL)
        return code;
    job->has_address = true;
    memcpy(job->address, address, strlen(address) + 1);
    return POD_OK;
}

static struct hosts_job *hosts_job_new(struct api_request *req)
{
    struct hosts_job *job = pod_calloc(1, sizeof(*job));

    if (job == NULL)
        return NULL;
    job->req = req;
    job->app = api_app(req);
    job->server = req->server;
    job->work.run = hosts_work;
    job->work.finish = hosts_finish;
    pod_list_init(&job->work.link);
    if (!api_defer(req, hosts_leave, job))
        return NULL;
    api_set_state(req, job);
    return job;
}

void api_hosts_post(struct api_request *req)
{
    struct pod_err err = POD_ERR_NONE;
    struct hosts_job *job = hosts_job_new(req);
    enum pod_code code = job == NULL ? api_err_memory(&err) : POD_OK;

    if (code == POD_OK)
        code = hosts_read(req, job, &err);
    if (code == POD_OK)
        code = api_park(req, POD_NEVER, hosts_resume, &err);
    if (code != POD_OK) {
        api_problem(req, &err);
        return;
    }
    job->working = true;
    code = api_worker_post(&req->server->worker, &job->work, &job->err);
    if (code == POD_OK)
        return; // and the job is the worker's
    job->working = false;
    job->finished = true;
    job->code = code;
    api_wake(req);
}
