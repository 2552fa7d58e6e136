// SPDX-License-Identifier: Apache-2.0
// Throw-away certificates for tests of TLS.
#ifndef POD_TESTS_LIB_CERTIFICATE_H
#define POD_TESTS_LIB_CERTIFICATE_H

struct certificate;

// A new authority, good for an hour. Aborts the program if it cannot.
struct certificate *certificate_authority(const char *name);
// A server's certificate for localhost and 127.0.0.1, signed by `authority`.
struct certificate *certificate_server(const char *name,
                                       const struct certificate *authority);
void certificate_free(struct certificate *certificate);

// Writes PEM files, replacing what is there: the certificate (mode 0644), its
// key (mode 0600).
void certificate_write(const struct certificate *certificate, const char *path);
void certificate_write_key(const struct certificate *certificate,
                           const char *path);

#endif
