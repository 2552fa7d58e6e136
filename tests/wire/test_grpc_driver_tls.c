// SPDX-License-Identifier: Apache-2.0
// Who the gRPC driver trusts, and who trusts it.
#include "tests/wire/driver_fixture.h"

#include <unistd.h>

#include "tests/lib/certificate.h"

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
    char folder[] = "/tmp/podd-pki-XXXXXX";

    assert_non_null(mkdtemp(folder));
    snprintf(pki->folder, sizeof(pki->folder), "%s", folder);
    for (int i = 0; i < 6; i++)
        snprintf(pki->paths[i], sizeof(pki->paths[i]), "%s/%d.pem", folder, i);
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
    expect_tls(&worker, &stray, "not signed by that of --worker-tls-ca");
    expect_tls(&worker, &other_host, "is for other names");
    expect_tls(&plain, &good, "the worker has no --tls-cert");
    expect_tls(&worker, NULL, "needs --worker-tls-ca");
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
    expect_tls(&worker, &none, "needs --worker-tls-cert");
    expect_tls(&worker, &stray, "not accept the certificate");
    pki_remove(&pki);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trusts_who_it_is_told_to),
        cmocka_unit_test(test_shows_who_it_is),
    };

    return run_driver_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
