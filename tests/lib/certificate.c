// SPDX-License-Identifier: Apache-2.0
#include "tests/lib/certificate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

enum { CERTIFICATE_SECONDS = 3600 };

struct certificate {
    gnutls_x509_crt_t crt;
    gnutls_x509_privkey_t key;
};

static void certificate_must(int status, const char *what)
{
    if (status >= 0)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, gnutls_strerror(status));
    abort();
}

static struct certificate *certificate_new(const char *name)
{
    struct certificate *made = calloc(1, sizeof(*made));
    unsigned char serial[8];
    time_t now = time(NULL);

    if (made == NULL || getrandom(serial, sizeof(serial), 0) < 0)
        abort();
    serial[0] = 1;
    certificate_must(gnutls_x509_privkey_init(&made->key), "key");
    certificate_must(gnutls_x509_privkey_generate(
                         made->key, GNUTLS_PK_ECDSA,
                         GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     "key");
    certificate_must(gnutls_x509_crt_init(&made->crt), "certificate");
    certificate_must(gnutls_x509_crt_set_version(made->crt, 3), "version");
    certificate_must(
        gnutls_x509_crt_set_serial(made->crt, serial, sizeof(serial)),
        "serial");
    certificate_must(gnutls_x509_crt_set_activation_time(made->crt, now - 60),
                     "time");
    certificate_must(gnutls_x509_crt_set_expiration_time(
                         made->crt, now + CERTIFICATE_SECONDS),
                     "time");
    certificate_must(
        gnutls_x509_crt_set_dn_by_oid(made->crt, GNUTLS_OID_X520_COMMON_NAME, 0,
                                      name, (unsigned)strlen(name)),
        "name");
    certificate_must(gnutls_x509_crt_set_key(made->crt, made->key), "key");
    return made;
}

static void certificate_sign(const struct certificate *made,
                             const struct certificate *by)
{
    certificate_must(gnutls_x509_crt_sign2(made->crt, by->crt, by->key,
                                           GNUTLS_DIG_SHA256, 0),
                     "sign");
}

struct certificate *certificate_authority(const char *name)
{
    struct certificate *made = certificate_new(name);

    certificate_must(gnutls_x509_crt_set_basic_constraints(made->crt, 1, -1),
                     "authority");
    certificate_must(
        gnutls_x509_crt_set_key_usage(made->crt, GNUTLS_KEY_KEY_CERT_SIGN),
        "usage");
    certificate_sign(made, made);
    return made;
}

struct certificate *certificate_server(const char *name,
                                       const struct certificate *authority)
{
    struct certificate *made = certificate_new(name);
    struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};

    certificate_must(
        gnutls_x509_crt_set_subject_alt_name(made->crt, GNUTLS_SAN_DNSNAME,
                                             "localhost", 9, GNUTLS_FSAN_SET),
        "name");
    certificate_must(gnutls_x509_crt_set_subject_alt_name(
                         made->crt, GNUTLS_SAN_IPADDRESS, &loopback,
                         sizeof(loopback), GNUTLS_FSAN_APPEND),
                     "name");
    certificate_must(
        gnutls_x509_crt_set_key_usage(made->crt, GNUTLS_KEY_DIGITAL_SIGNATURE),
        "usage");
    certificate_sign(made, authority);
    return made;
}

void certificate_free(struct certificate *certificate)
{
    if (certificate == NULL)
        return;
    gnutls_x509_crt_deinit(certificate->crt);
    gnutls_x509_privkey_deinit(certificate->key);
    free(certificate);
}

// Another file takes the name, as renewals do.
static void certificate_save(const char *path, mode_t mode,
                             const unsigned char *bytes, size_t size)
{
    char fresh[256];

    (void)snprintf(fresh, sizeof(fresh), "%s.new", path);
    int fd = open(fresh, O_WRONLY | O_CREAT | O_TRUNC, mode);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd) != 0 ||
        rename(fresh, path) != 0)
        abort();
}

void certificate_write(const struct certificate *certificate, const char *path)
{
    unsigned char pem[4096];
    size_t size = sizeof(pem);

    certificate_must(gnutls_x509_crt_export(certificate->crt,
                                            GNUTLS_X509_FMT_PEM, pem, &size),
                     "export");
    certificate_save(path, 0644, pem, size);
}

void certificate_write_key(const struct certificate *certificate,
                           const char *path)
{
    unsigned char pem[4096];
    size_t size = sizeof(pem);

    certificate_must(gnutls_x509_privkey_export(
                         certificate->key, GNUTLS_X509_FMT_PEM, pem, &size),
                     "export");
    certificate_save(path, 0600, pem, size);
}
