// SPDX-License-Identifier: Apache-2.0
// The server's certificate.
//
// libmicrohttpd speaks TLS (GnuTLS, 1.2 and 1.3); it asks here for certificate
// and key at each handshake, so that a renewed certificate is used without a
// restart: the files are looked at once a second while clients connect, and a
// pair that cannot be used leaves the old one in place and is logged.
#ifndef POD_API_TLS_H
#define POD_API_TLS_H

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <stdint.h>

#include "core/base/err.h"

struct api_tls;

// PEM files: the chain from the server's certificate up, and its key. Errors:
// BAD_VALUE with the path and the cause; a key that others may read is one.
enum pod_code api_tls_new(const char *cert_path, const char *key_path,
                          struct api_tls **out_tls, struct pod_err *err)
    __attribute__((warn_unused_result));
// NULL is allowed.
void api_tls_free(struct api_tls *tls);

// The pair for a handshake at this time. The pointers live as long as `tls`.
void api_tls_pair(struct api_tls *tls, int64_t now_ns,
                  gnutls_pcert_st **out_chain, unsigned *out_length,
                  gnutls_privkey_t *out_key);
// The files are looked at again by the next handshake.
void api_tls_look(struct api_tls *tls);

#endif
