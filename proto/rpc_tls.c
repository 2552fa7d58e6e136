// SPDX-License-Identifier: Apache-2.0
// Credentials of both sides.
#include <string.h>

#include "proto/rpc_tls.h"

// gRPC takes any text here and fails later without saying which was wrong.
static enum pod_code tls_check_pem(const char *pem, const char *what,
                                   struct pod_err *err)
{
    if (pem == NULL || strstr(pem, "-----BEGIN ") != NULL)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_VALUE, "the %s is not a PEM text",
                       what);
}

static enum pod_code tls_check(const struct rpc_tls *tls, struct pod_err *err)
{
    enum pod_code code = tls_check_pem(tls->ca, "CA certificate", err);
    if (code == POD_OK)
        code = tls_check_pem(tls->cert, "certificate", err);
    if (code == POD_OK)
        code = tls_check_pem(tls->key, "key", err);
    if (code == POD_OK && (tls->cert == NULL) != (tls->key == NULL))
        code = pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a certificate and its key go together");
    return code;
}

enum pod_code rpc_tls_client(const struct rpc_tls *tls,
                             grpc_channel_credentials **out_credentials,
                             struct pod_err *err)
{
    if (tls == NULL) {
        *out_credentials = grpc_insecure_credentials_create();
        return POD_OK;
    }
    enum pod_code code = tls_check(tls, err);
    if (code != POD_OK)
        return code;
    grpc_ssl_pem_key_cert_pair pair = {.private_key = tls->key,
                                       .cert_chain = tls->cert};
    *out_credentials = grpc_ssl_credentials_create_ex(
        tls->ca, tls->cert != NULL ? &pair : NULL, NULL, NULL);
    return POD_OK;
}

enum pod_code rpc_tls_server(const struct rpc_tls *tls,
                             grpc_server_credentials **out_credentials,
                             struct pod_err *err)
{
    if (tls == NULL) {
        *out_credentials = grpc_insecure_server_credentials_create();
        return POD_OK;
    }
    enum pod_code code = tls_check(tls, err);
    if (code != POD_OK)
        return code;
    if (tls->cert == NULL)
        return pod_err_set(err, POD_REASON_BAD_VALUE,
                           "a server needs a certificate");
    grpc_ssl_pem_key_cert_pair pair = {.private_key = tls->key,
                                       .cert_chain = tls->cert};
    *out_credentials = grpc_ssl_server_credentials_create_ex(
        tls->ca, &pair, 1,
        tls->ca != NULL
            ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
            : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
        NULL);
    return POD_OK;
}
