// SPDX-License-Identifier: Apache-2.0
#include "api/tls.h"

#include <string.h>

#include "api/file.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/base/mem.h"

enum { TLS_CHAIN_MAX = 16, TLS_FILE_BYTES = 1 << 20 };

// A certificate with its key. Those that were replaced are kept: a handshake
// may be using one, and renewals are months apart.
struct tls_pair {
    struct tls_pair *older;
    gnutls_pcert_st chain[TLS_CHAIN_MAX];
    unsigned length;
    gnutls_privkey_t key;
    struct api_file_stamp cert_stamp;
    struct api_file_stamp key_stamp;
};

struct api_tls {
    char *cert_path;
    char *key_path;
    struct tls_pair *pair; // the newest
    int64_t look_ns;
    bool broken; // the files are unfit, and that was logged
};

static void tls_pair_free(struct tls_pair *pair)
{
    for (unsigned i = 0; i < pair->length; i++)
        gnutls_pcert_deinit(&pair->chain[i]);
    if (pair->key != NULL)
        gnutls_privkey_deinit(pair->key);
    pod_free(pair);
}

static enum pod_code tls_bad(const char *path, int status, struct pod_err *err)
{
    return pod_err_set(err, POD_REASON_BAD_VALUE, "%s: %s", path,
                       gnutls_strerror(status));
}

static enum pod_code tls_load_chain(const char *path, struct tls_pair *pair,
                                    struct pod_err *err)
{
    char *text = NULL;
    size_t length = 0;
    unsigned count = TLS_CHAIN_MAX;

    enum pod_code code = api_file_read(path, TLS_FILE_BYTES, false, &text,
                                       &length, &pair->cert_stamp, err);
    if (code != POD_OK)
        return code;
    const gnutls_datum_t data = {.data = (unsigned char *)text,
                                 .size = (unsigned)length};
    int status = gnutls_pcert_list_import_x509_raw(
        pair->chain, &count, &data, GNUTLS_X509_FMT_PEM,
        GNUTLS_X509_CRT_LIST_FAIL_IF_UNSORTED);
    pod_free(text);
    if (status != GNUTLS_E_SUCCESS)
        return tls_bad(path, status, err);
    pair->length = count;
    return POD_OK;
}

static enum pod_code tls_load_key(const char *path, struct tls_pair *pair,
                                  struct pod_err *err)
{
    char *text = NULL;
    size_t length = 0;

    enum pod_code code = api_file_read(path, TLS_FILE_BYTES, true, &text,
                                       &length, &pair->key_stamp, err);
    if (code != POD_OK)
        return code;
    const gnutls_datum_t data = {.data = (unsigned char *)text,
                                 .size = (unsigned)length};
    int status = gnutls_privkey_init(&pair->key);
    if (status == GNUTLS_E_SUCCESS)
        status = gnutls_privkey_import_x509_raw(pair->key, &data,
                                                GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(text, 0, length);
    pod_free(text);
    return status == GNUTLS_E_SUCCESS ? POD_OK : tls_bad(path, status, err);
}

// Whether the key is the certificate's: their key ids are the same.
static enum pod_code tls_check_pair(const struct api_tls *tls,
                                    const struct tls_pair *pair,
                                    struct pod_err *err)
{
    unsigned char ids[2][64];
    size_t sizes[2] = {sizeof(ids[0]), sizeof(ids[1])};
    gnutls_pubkey_t key = NULL;

    int status = gnutls_pubkey_init(&key);
    if (status == GNUTLS_E_SUCCESS)
        status = gnutls_pubkey_import_privkey(key, pair->key, 0, 0);
    if (status == GNUTLS_E_SUCCESS)
        status = gnutls_pubkey_get_key_id(key, 0, ids[0], &sizes[0]);
    if (status == GNUTLS_E_SUCCESS)
        status = gnutls_pubkey_get_key_id(pair->chain[0].pubkey, 0, ids[1],
                                          &sizes[1]);
    gnutls_pubkey_deinit(key);
    if (status != GNUTLS_E_SUCCESS)
        return tls_bad(tls->key_path, status, err);
    if (sizes[0] == sizes[1] && memcmp(ids[0], ids[1], sizes[0]) == 0)
        return POD_OK;
    return pod_err_set(err, POD_REASON_BAD_VALUE, "%s: not the key of %s",
                       tls->key_path, tls->cert_path);
}

static enum pod_code tls_load(struct api_tls *tls, struct pod_err *err)
{
    struct tls_pair *pair = pod_calloc(1, sizeof(*pair));

    if (pair == NULL)
        return pod_err_set(err, POD_REASON_OUT_OF_MEMORY,
                           "no memory for the certificate");
    enum pod_code code = tls_load_chain(tls->cert_path, pair, err);
    if (code == POD_OK)
        code = tls_load_key(tls->key_path, pair, err);
    if (code == POD_OK)
        code = tls_check_pair(tls, pair, err);
    if (code != POD_OK) {
        tls_pair_free(pair);
        return code;
    }
    pair->older = tls->pair;
    tls->pair = pair;
    return POD_OK;
}

enum pod_code api_tls_new(const char *cert_path, const char *key_path,
                          struct api_tls **out_tls, struct pod_err *err)
{
    struct api_tls *tls = pod_calloc(1, sizeof(*tls));
    enum pod_code code;

    if (tls != NULL) {
        tls->cert_path = pod_strdup(cert_path);
        tls->key_path = pod_strdup(key_path);
    }
    if (tls == NULL || tls->cert_path == NULL || tls->key_path == NULL)
        code = pod_err_set(err, POD_REASON_OUT_OF_MEMORY, "no memory");
    else
        code = tls_load(tls, err);
    if (code != POD_OK) {
        api_tls_free(tls);
        return code;
    }
    *out_tls = tls;
    return POD_OK;
}

void api_tls_free(struct api_tls *tls)
{
    struct tls_pair *pair;

    if (tls == NULL)
        return;
    while ((pair = tls->pair) != NULL) {
        tls->pair = pair->older;
        tls_pair_free(pair);
    }
    pod_free(tls->cert_path);
    pod_free(tls->key_path);
    pod_free(tls);
}

void api_tls_look(struct api_tls *tls)
{
    tls->look_ns = 0;
}

// Both files are replaced one after the other, so for a moment they may not
// fit: then the old pair serves on, and the next look tries again.
static void tls_look(struct api_tls *tls)
{
    struct pod_err err;

    if (api_file_is(tls->cert_path, &tls->pair->cert_stamp) &&
        api_file_is(tls->key_path, &tls->pair->key_stamp))
        return;
    if (tls_load(tls, &err) == POD_OK) {
        tls->broken = false;
        pod_log(POD_LOG_INFO, "tls", "the certificate was read again");
        return;
    }
    if (!tls->broken)
        pod_log(POD_LOG_ERROR, "tls", "the certificate is kept as it was: %s",
                err.text);
    tls->broken = true;
}

void api_tls_pair(struct api_tls *tls, int64_t now_ns,
                  gnutls_pcert_st **out_chain, unsigned *out_length,
                  gnutls_privkey_t *out_key)
{
    if (now_ns >= tls->look_ns) {
        tls->look_ns = pod_time_add(now_ns, POD_NS_PER_S);
        tls_look(tls);
    }
    *out_chain = tls->pair->chain;
    *out_length = tls->pair->length;
    *out_key = tls->pair->key;
}
