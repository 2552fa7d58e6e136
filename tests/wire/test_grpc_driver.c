// SPDX-License-Identifier: Apache-2.0
// The gRPC driver against a worker on another gRPC implementation, good and
// bad.
#include "tests/unit/driver_calls.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/mem.h"
#include "proto/grpc_driver.h"
#include "tests/lib/certificate.h"
#include "tests/lib/fake_worker.h"

struct fixture {
    struct fake_worker worker;
    struct calls_watch watch;
    char why[POD_ERR_TEXT_BYTES]; // of the last loss
    const struct rpc_tls *tls;    // NULL: plain text
    struct pod_grpc_hub *hub;
    struct pod_driver *driver;
};

static void on_lost(void *arg, const struct pod_err *err)
{
    struct fixture *fixture = POD_CONTAINER(arg, struct fixture, watch);

    pod_mutex_lock(&fixture->watch.lock);
    snprintf(fixture->why, sizeof(fixture->why), "%s", err->text);
    pod_mutex_unlock(&fixture->watch.lock);
    calls_on_lost(arg, err);
}

// Short times, but so long that a busy machine does not matter.
static void open_at(struct fixture *fixture, const char *address)
{
    struct pod_grpc_options options = {
        .address = address,
        .connect_ns = 2 * POD_NS_PER_S,
        .heartbeat_ns = POD_NS_PER_S / 10,
        .silence_ns = POD_NS_PER_S,
        .backoff_min_ns = POD_NS_PER_S / 20,
        .backoff_max_ns = POD_NS_PER_S / 5,
    };
    struct pod_err err;

    calls_watch_init(&fixture->watch);
    struct pod_driver_observer observer = calls_observer(&fixture->watch);
    observer.lost = on_lost;
    assert_int_equal(pod_grpc_hub_new(1, fixture->tls, &fixture->hub, &err),
                     POD_OK);
    options.hub = fixture->hub;
    assert_int_equal(pod_grpc_driver_new(&options, &fixture->driver, &err),
                     POD_OK);
    fixture->driver->ops->open(fixture->driver, &observer);
}

static void start(struct fixture *fixture, const char *mode)
{
    memset(fixture, 0, sizeof(*fixture));
    assert_true(fake_worker_start(&fixture->worker, mode, 0));
    open_at(fixture, fixture->worker.address);
}

static void await_ready(struct fixture *fixture, int times)
{
    calls_await(&fixture->watch, &fixture->watch.ready, times);
}

static void await_lost(struct fixture *fixture, int times)
{
    calls_await(&fixture->watch, &fixture->watch.lost, times);
}

static void finish(struct fixture *fixture)
{
    fixture->driver->ops->close(fixture->driver);
    fixture->driver->ops->free(fixture->driver);
    pod_grpc_hub_free(fixture->hub);
    assert_int_equal(fixture->watch.inlined, 0);
    assert_int_equal(fixture->watch.late, 0);
    calls_watch_fini(&fixture->watch);
    fake_worker_signal(&fixture->worker, SIGKILL);
}

// An allocation of 8 bytes, not waited for.
static void begin(struct fixture *fixture, struct calls_record *record,
                  uint64_t op)
{
    struct pod_driver_call call = calls_make(&fixture->watch, record, op);

    fixture->driver->ops->allocate(fixture->driver, &call, 0, NULL, 8);
}

// ----------------------------------------------------------------------- good

static void test_tells_what_the_worker_is(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    assert_int_equal(fixture.watch.info.core_count, 2);
    assert_int_equal(fixture.watch.info.chip_count, 1);
    assert_int_equal(fixture.watch.info.accepts, 15);
    assert_int_equal(fixture.watch.info.features,
                     POD_DRIVER_WAITS | POD_DRIVER_CANCEL |
                         POD_DRIVER_FREE_PROGRAM | POD_DRIVER_PEER_COPY);
    finish(&fixture);
}

static void test_moves_bytes(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    calls_write_s32(&fixture.watch, fixture.driver, 2, 1, -77);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 3, 1), -77);
    finish(&fixture);
}

static void test_moves_pieces_beside_small_operations(void **state)
{
    enum { PIECE = 1 << 20 };
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 2 * PIECE);
    struct pod_blob *blob = pod_blob_new(PIECE + 1);
    assert_non_null(blob);
    for (int i = 0; i <= PIECE; i++)
        blob->data[i] = (unsigned char)(i * 7);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 2);
    fixture.driver->ops->write(fixture.driver, &call, 1, PIECE, blob, 1, PIECE);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&fixture.watch, &record, 3);
    fixture.driver->ops->read(fixture.driver, &call, 1, PIECE - 2, PIECE);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, PIECE);
    // Two zeros, then the blob from its second byte on.
    assert_int_equal(record.data[0], 0);
    assert_int_equal(record.data[1], 0);
    for (int i = 2; i < CALLS_DATA_BYTES; i++)
        assert_int_equal(record.data[i], (unsigned char)((i - 1) * 7));
    finish(&fixture);
}

static void test_runs_a_program(void **state)
{
    struct fixture fixture;
    struct calls_record record;
    struct pod_shape shape;
    struct pod_err err;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    assert_int_equal(pod_shape_parse("f32[2]", 6, &shape, &err), POD_OK);
    for (uint64_t op = 1; op <= 2; op++) {
        struct pod_driver_call call = calls_make(&fixture.watch, &record, op);
        fixture.driver->ops->allocate(fixture.driver, &call, 1, &shape, 0);
        assert_int_equal(calls_end(&record), POD_OK);
    }
    calls_write_s32(&fixture.watch, fixture.driver, 3, 1, 41);
    calls_program(&fixture.watch, fixture.driver, 4, 1, "any");
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 6);
    calls_execute(fixture.driver, &call, 5, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.started, 1);
    assert_int_equal(record.started_late, 0);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 7, 2), 41);
    finish(&fixture);
}

static void test_hands_waits_on(void **state)
{
    struct fixture fixture;
    struct calls_record failed;
    struct calls_record waits;
    uint64_t on[] = {5, 1};

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    // The worker knows no such handle, and nobody else does.
    struct pod_driver_call call = calls_make(&fixture.watch, &failed, 5);
    struct calls_record record;
    struct pod_driver_call made = calls_make(&fixture.watch, &record, 4);
    fixture.driver->ops->deallocate(fixture.driver, &made, 1);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 4);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(calls_end(&failed), POD_NOT_FOUND);
    // What waits for a failure fails too, even if it comes after it.
    call = calls_make(&fixture.watch, &waits, 6);
    call.waits = on;
    call.wait_count = 2;
    fixture.driver->ops->allocate(fixture.driver, &call, 0, NULL, 4);
    assert_int_equal(calls_end(&waits), POD_FAILED_PRECONDITION);
    finish(&fixture);
}

static void test_refuses_unknown_handles_itself(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 1);
    fixture.driver->ops->read(fixture.driver, &call, 99, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    assert_int_equal(record.err.reason, POD_REASON_UNKNOWN_HANDLE);
    assert_false(record.lost);
    finish(&fixture);
}

static void test_reset_drops_handles(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 2);
    fixture.driver->ops->reset(fixture.driver, &call);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&fixture.watch, &record, 3);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    finish(&fixture);
}

// ------------------------------------------------------------------ no worker

static void test_says_that_nothing_listens(void **state)
{
    struct fixture fixture = {.worker = {.pid = -1}};
    struct calls_record record;

    (void)state;
    open_at(&fixture, "127.0.0.1:1");
    await_lost(&fixture, 1);
    assert_non_null(strstr(fixture.why, "refused"));
    begin(&fixture, &record, 1);
    (void)calls_end(&record);
    assert_true(record.lost);
    finish(&fixture);
}

static void expect_refusal(const char *mode, const char *word)
{
    struct fixture fixture;

    start(&fixture, mode);
    await_lost(&fixture, 1);
    if (strstr(fixture.why, word) == NULL)
        fail_msg("mode %s: \"%s\"", mode, fixture.why);
    assert_int_equal(fixture.watch.ready, 0);
    finish(&fixture);
}

static void test_says_why_it_is_not_open(void **state)
{
    (void)state;
    expect_refusal("no-pod", "wrong service");
    expect_refusal("version", "wrong version");
    expect_refusal("not-ready", "not ready");
    expect_refusal("garbage-hello", "greeting");
    expect_refusal("empty-hello", "wrong version");
    expect_refusal("small-chunks", "1024 bytes");
}

// ----------------------------------------------------------------- bad workers

// The host is lost for a reason, and what it had ends LOST.
static void expect_loss(const char *mode, const char *word)
{
    struct fixture fixture;
    struct calls_record records[3];

    start(&fixture, mode);
    await_ready(&fixture, 1);
    for (uint64_t i = 0; i < 3; i++)
        begin(&fixture, &records[i], i + 1);
    await_lost(&fixture, 1);
    if (strstr(fixture.why, word) == NULL)
        fail_msg("mode %s: \"%s\"", mode, fixture.why);
    for (int i = 0; i < 3; i++) {
        (void)calls_end(&records[i]);
        assert_true(records[i].lost);
    }
    finish(&fixture);
}

static void test_gives_up_workers_that_talk_nonsense(void **state)
{
    (void)state;
    expect_loss("garbage", "not a message");
    expect_loss("garbage-inside", "");
    expect_loss("huge", "");
    expect_loss("early-end", "ended the session");
}

static void test_gives_up_workers_that_are_silent(void **state)
{
    (void)state;
    expect_loss("frozen", "no answer");
}

static void test_sees_that_a_worker_was_started_anew(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "restarted");
    await_ready(&fixture, 1);
    await_lost(&fixture, 1);
    assert_non_null(strstr(fixture.why, "started anew"));
    finish(&fixture);
}

static void test_uses_an_answer_once(void **state)
{
    struct fixture fixture;
    struct calls_record records[8];

    (void)state;
    start(&fixture, "duplicates");
    await_ready(&fixture, 1);
    for (uint64_t i = 0; i < 8; i++)
        begin(&fixture, &records[i], i + 1);
    for (int i = 0; i < 8; i++)
        assert_int_equal(calls_end(&records[i]), POD_OK);
    finish(&fixture); // by now all that the worker sent has come or never will
    for (int i = 0; i < 8; i++) {
        assert_int_equal(records[i].done, 1);
        assert_int_equal(records[i].started, 1);
        assert_int_equal(records[i].started_late, 0);
    }
}

static void test_ignores_unknown_numbers(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "unknown-ids");
    await_ready(&fixture, 1);
    for (uint64_t op = 1; op < 20; op++)
        calls_allocate(&fixture.watch, fixture.driver, op, 0, 4);
    assert_int_equal(fixture.watch.lost, 0);
    finish(&fixture);
}

static void test_counts_the_bytes_it_gets(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "wrong-length");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 16);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 2);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 16);
    assert_int_equal(calls_end(&record), POD_UNKNOWN);
    assert_int_equal(record.err.reason, POD_REASON_WORKER_ERROR);
    assert_non_null(strstr(record.err.text, "15 bytes"));
    finish(&fixture);
}

static void test_cleans_the_words_of_a_worker(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "bad-text");
    await_ready(&fixture, 1);
    begin(&fixture, &record, 1);
    assert_int_equal(calls_end(&record), POD_INVALID_ARGUMENT);
    assert_int_equal(record.err.reason, POD_REASON_WORKER_ERROR);
    assert_null(strchr(record.err.text, '\a'));
    assert_non_null(strstr(record.err.text, "bell"));
    finish(&fixture);
}

// A worker that answers nothing but its signs of life is not lost, and what is
// open ends when the driver is closed.
static void test_close_ends_what_is_open(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "silence");
    await_ready(&fixture, 1);
    begin(&fixture, &record, 1);
    calls_await(&fixture.watch, &fixture.watch.beats, 3);
    assert_int_equal(record.done, 0);
    finish(&fixture);
    assert_int_equal(record.done, 1);
    assert_int_equal(record.err.code, POD_CANCELLED);
    assert_false(record.lost);
}

// ------------------------------------------------------------ death and return

static void test_a_killed_worker_comes_back_as_a_new_one(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    int port = fixture.worker.port;
    fake_worker_signal(&fixture.worker, SIGKILL);
    await_lost(&fixture, 1);
    assert_true(fake_worker_start(&fixture.worker, "good", port));
    await_ready(&fixture, 2);
    // Its first handle would have the number that ours had there.
    calls_allocate(&fixture.watch, fixture.driver, 2, 0, 4);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 3);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    finish(&fixture);
}

static void test_a_frozen_worker_is_given_up(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    fake_worker_signal(&fixture.worker, SIGSTOP);
    begin(&fixture, &record, 1);
    await_lost(&fixture, 1);
    (void)calls_end(&record);
    assert_true(record.lost);
    fake_worker_signal(&fixture.worker, SIGCONT);
    await_ready(&fixture, 2);
    calls_allocate(&fixture.watch, fixture.driver, 2, 0, 4);
    finish(&fixture);
}

static void test_reconnect_makes_a_new_incarnation(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "good");
    await_ready(&fixture, 1);
    fixture.driver->ops->reconnect(fixture.driver);
    await_lost(&fixture, 1);
    await_ready(&fixture, 2);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    finish(&fixture);
}

// ------------------------------------------------------------------------- TLS

// An authority, a worker's certificate and a client's, in a folder, and an
// authority that nobody trusts.
struct pki {
    char folder[32];
    char paths[6][64];
    char *texts[6];
};
enum { CA, CERT, KEY, STRAY_CA, STRAY_CERT, STRAY_KEY };

static char *read_text(const char *path)
{
    static const size_t most = 1 << 16;
    char *text = calloc(1, most);
    FILE *file = fopen(path, "r");

    assert_non_null(text);
    assert_non_null(file);
    assert_in_range(fread(text, 1, most - 1, file), 1, most - 1);
    (void)fclose(file);
    return text;
}

static void pki_pair(struct pki *pki, int first, const char *name)
{
    struct certificate *ca = certificate_authority(name);
    struct certificate *server = certificate_server("localhost", ca);

    certificate_write(ca, pki->paths[first]);
    certificate_write(server, pki->paths[first + 1]);
    certificate_write_key(server, pki->paths[first + 2]);
    certificate_free(server);
    certificate_free(ca);
}

static void pki_make(struct pki *pki)
{
    snprintf(pki->folder, sizeof(pki->folder), "/tmp/podd-pki-XXXXXX");
    assert_non_null(mkdtemp(pki->folder));
    for (int i = 0; i < 6; i++)
        snprintf(pki->paths[i], sizeof(pki->paths[i]), "%s/%d.pem", pki->folder,
                 i);
    pki_pair(pki, CA, "good authority");
    pki_pair(pki, STRAY_CA, "stray authority");
    for (int i = 0; i < 6; i++)
        pki->texts[i] = read_text(pki->paths[i]);
}

static void pki_remove(struct pki *pki)
{
    for (int i = 0; i < 6; i++) {
        free(pki->texts[i]);
        (void)unlink(pki->paths[i]);
    }
    (void)rmdir(pki->folder);
}

// Connects with certificates of its own to a worker that has TLS, or not.
static void expect_tls(const struct fake_worker_tls *worker,
                       const struct rpc_tls *client, const char *refusal)
{
    struct fixture fixture = {.tls = client};

    assert_true(fake_worker_start_tls(&fixture.worker, "good", 0, worker));
    open_at(&fixture, fixture.worker.address);
    if (refusal == NULL) {
        await_ready(&fixture, 1);
        calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    } else {
        await_lost(&fixture, 1);
        if (strstr(fixture.why, refusal) == NULL)
            fail_msg("\"%s\" where \"%s\" was expected", fixture.why, refusal);
    }
    finish(&fixture);
}

static void test_trusts_who_it_is_told_to(void **state)
{
    struct pki pki;

    (void)state;
    pki_make(&pki);
    const struct fake_worker_tls plain = {.cert = NULL};
    const struct fake_worker_tls worker = {.cert = pki.paths[CERT],
                                           .key = pki.paths[KEY]};
    const struct rpc_tls good = {.ca = pki.texts[CA]};
    const struct rpc_tls stray = {.ca = pki.texts[STRAY_CA]};
    const struct rpc_tls other_host = {.ca = pki.texts[CA],
                                       .peer_name = "other.example"};
    expect_tls(&worker, &good, NULL);
    expect_tls(&worker, &stray, "bad certificate");
    expect_tls(&worker, &other_host, "bad certificate");
    expect_tls(&plain, &good, "only one side uses TLS");
    expect_tls(&worker, NULL, "");
    pki_remove(&pki);
}

static void test_shows_who_it_is(void **state)
{
    struct pki pki;

    (void)state;
    pki_make(&pki);
    const struct fake_worker_tls worker = {.cert = pki.paths[CERT],
                                           .key = pki.paths[KEY],
                                           .client_ca = pki.paths[CA]};
    const struct rpc_tls good = {
        .ca = pki.texts[CA], .cert = pki.texts[CERT], .key = pki.texts[KEY]};
    const struct rpc_tls none = {.ca = pki.texts[CA]};
    const struct rpc_tls stray = {.ca = pki.texts[CA],
                                  .cert = pki.texts[STRAY_CERT],
                                  .key = pki.texts[STRAY_KEY]};
    expect_tls(&worker, &good, NULL);
    expect_tls(&worker, &none, "");
    expect_tls(&worker, &stray, "");
    pki_remove(&pki);
}

// ----------------------------------------------- the plain TPU driver protocol

static void test_opens_plain_workers(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "plain");
    await_ready(&fixture, 1);
    const struct pod_driver_info *info = &fixture.watch.info;
    assert_int_equal(info->core_count, 2);
    assert_int_equal(info->chip_count, 1);
    assert_int_equal(info->host_count, 1);
    assert_int_equal(info->features, POD_DRIVER_WHOLE);
    assert_int_equal(info->accepts,
                     1 << POD_FORMAT_HLO_TEXT | 1 << POD_FORMAT_HLO_PROTO);
    finish(&fixture);
    expect_refusal("plain-big-client", "1048576");
}

// The cores of its own chip, by the numbers they have in the slice. What `info`
// points at is read while the driver is open.
static void test_finds_its_share_of_a_slice(void **state)
{
    struct fixture fixture;

    (void)state;
    start(&fixture, "plain-slice");
    await_ready(&fixture, 1);
    const struct pod_driver_info *info = &fixture.watch.info;
    assert_int_equal(info->host_id, 1);
    assert_int_equal(info->host_count, 2);
    assert_int_equal(info->chip_count, 2);
    assert_int_equal(info->core_count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(info->cores[i].worker_core, 2 + i);
        assert_int_equal(info->cores[i].chip, 1);
        assert_int_equal(info->cores[i].memory_bytes, 1 << 20);
    }
    assert_int_equal(info->chips[1].x, 1);
    assert_int_equal(info->chips[1].host_id, 1);
    finish(&fixture);
}

static void test_moves_whole_buffers_of_plain_workers(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "plain");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    calls_write_s32(&fixture.watch, fixture.driver, 2, 1, 0x04030201);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 3, 1),
                     0x04030201);
    // A part that is read is cut from the whole.
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 4);
    fixture.driver->ops->read(fixture.driver, &call, 1, 1, 2);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.data_size, 2);
    assert_memory_equal(record.data, "\x02\x03", 2);
    // A part cannot be written.
    struct pod_blob *blob = calls_blob("xy", 2);
    call = calls_make(&fixture.watch, &record, 5);
    fixture.driver->ops->write(fixture.driver, &call, 1, 1, blob, 0, 2);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_UNIMPLEMENTED);
    finish(&fixture);
}

static const char add_text[] =
    "HloModule m\nENTRY e {\n  p = f32[2] parameter(0)\n"
    "  ROOT r = f32[2] add(p, p)\n}\n";

static void test_packs_programs_for_plain_workers(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "plain");
    await_ready(&fixture, 1);
    calls_program(&fixture.watch, fixture.driver, 1, 0, add_text);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 3);
    struct pod_blob *blob = calls_blob("HloModule m\nnonsense", 20);
    fixture.driver->ops->compile(fixture.driver, &call, POD_FORMAT_HLO_TEXT,
                                 blob, 1);
    pod_blob_unref(blob);
    assert_int_equal(calls_end(&record), POD_INVALID_ARGUMENT);
    assert_int_equal(record.err.line, 2);
    call = calls_make(&fixture.watch, &record, 4);
    fixture.driver->ops->free_program(fixture.driver, &call, 1);
    assert_int_equal(calls_end(&record), POD_UNIMPLEMENTED);
    finish(&fixture);
}

static void load_on(struct fixture *fixture, uint64_t op, uint32_t core)
{
    struct calls_record record;
    struct pod_driver_call call = calls_make(&fixture->watch, &record, op);

    fixture->driver->ops->load(fixture->driver, &call, core, 1);
    assert_int_equal(calls_end(&record), POD_OK);
}

// Two replicas are two operations there, and one here. Cores are named by
// their numbers in the slice: the worker checks the assignment.
static void test_runs_gangs_on_plain_workers(void **state)
{
    static const uint64_t in[] = {10, 12};
    static const uint64_t out[] = {11, 13};
    static const uint32_t hosts[] = {0, 0};
    static const uint32_t cores[] = {0, 1};
    static const uint32_t worker_cores[] = {2, 3};
    struct fixture fixture;
    struct calls_record record;
    struct pod_driver_launch launches[2];

    (void)state;
    start(&fixture, "plain-slice");
    await_ready(&fixture, 1);
    calls_program(&fixture.watch, fixture.driver, 1, 2, add_text);
    load_on(&fixture, 3, 3);
    for (uint64_t op = 10; op <= 13; op++)
        calls_allocate(&fixture.watch, fixture.driver, op, op < 12 ? 2 : 3, 4);
    calls_write_s32(&fixture.watch, fixture.driver, 20, 10, 100);
    calls_write_s32(&fixture.watch, fixture.driver, 21, 12, 120);
    for (uint32_t i = 0; i < 2; i++)
        launches[i] = (struct pod_driver_launch){
            .load = 2 + i,
            .inputs = &in[i],
            .input_count = 1,
            .outputs = &out[i],
            .output_count = 1,
            .replica = i,
        };
    struct pod_driver_execute execute = {
        .launches = launches,
        .launch_count = 2,
        .replica_count = 2,
        .replica_hosts = hosts,
        .replica_cores = cores,
        .replica_worker_cores = worker_cores,
    };
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 30);
    fixture.driver->ops->execute(fixture.driver, &call, &execute);
    assert_int_equal(calls_end(&record), POD_OK);
    assert_int_equal(record.done, 1);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 31, 11),
                     100);
    assert_int_equal(calls_read_s32(&fixture.watch, fixture.driver, 32, 13),
                     120);
    finish(&fixture);
}

static void test_resets_plain_workers_by_a_new_client(void **state)
{
    struct fixture fixture;
    struct calls_record record;

    (void)state;
    start(&fixture, "plain");
    await_ready(&fixture, 1);
    calls_allocate(&fixture.watch, fixture.driver, 1, 0, 4);
    struct pod_driver_call call = calls_make(&fixture.watch, &record, 2);
    fixture.driver->ops->reset(fixture.driver, &call);
    assert_int_equal(calls_end(&record), POD_OK);
    call = calls_make(&fixture.watch, &record, 3);
    fixture.driver->ops->read(fixture.driver, &call, 1, 0, 4);
    assert_int_equal(calls_end(&record), POD_NOT_FOUND);
    calls_allocate(&fixture.watch, fixture.driver, 4, 0, 4);
    assert_int_equal(fixture.watch.ready, 1);
    assert_int_equal(fixture.watch.lost, 0);
    finish(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tells_what_the_worker_is),
        cmocka_unit_test(test_moves_bytes),
        cmocka_unit_test(test_moves_pieces_beside_small_operations),
        cmocka_unit_test(test_runs_a_program),
        cmocka_unit_test(test_hands_waits_on),
        cmocka_unit_test(test_refuses_unknown_handles_itself),
        cmocka_unit_test(test_reset_drops_handles),
        cmocka_unit_test(test_says_that_nothing_listens),
        cmocka_unit_test(test_says_why_it_is_not_open),
        cmocka_unit_test(test_gives_up_workers_that_talk_nonsense),
        cmocka_unit_test(test_gives_up_workers_that_are_silent),
        cmocka_unit_test(test_sees_that_a_worker_was_started_anew),
        cmocka_unit_test(test_uses_an_answer_once),
        cmocka_unit_test(test_ignores_unknown_numbers),
        cmocka_unit_test(test_counts_the_bytes_it_gets),
        cmocka_unit_test(test_cleans_the_words_of_a_worker),
        cmocka_unit_test(test_close_ends_what_is_open),
        cmocka_unit_test(test_a_killed_worker_comes_back_as_a_new_one),
        cmocka_unit_test(test_a_frozen_worker_is_given_up),
        cmocka_unit_test(test_reconnect_makes_a_new_incarnation),
        cmocka_unit_test(test_trusts_who_it_is_told_to),
        cmocka_unit_test(test_shows_who_it_is),
        cmocka_unit_test(test_opens_plain_workers),
        cmocka_unit_test(test_finds_its_share_of_a_slice),
        cmocka_unit_test(test_moves_whole_buffers_of_plain_workers),
        cmocka_unit_test(test_packs_programs_for_plain_workers),
        cmocka_unit_test(test_runs_gangs_on_plain_workers),
        cmocka_unit_test(test_resets_plain_workers_by_a_new_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
