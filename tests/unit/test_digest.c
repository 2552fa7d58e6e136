// SPDX-License-Identifier: Apache-2.0
// Expected digests are those of RFC 9530's examples, FIPS 180's and RFC 3720's.
#include "api/digest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/crc32c.h"

static const char hello[] = "{\"hello\": \"world\"}\n";
static const char hello_sha256[] =
    "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
static const char hello_sha512[] =
    "sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCsyRZOtw8M"
    "jkM7iw7yZ/WkppmM44T3qg==:";

// The bytes come in two pieces.
static enum pod_reason check(const char *header, const char *data)
{
    struct pod_err err = POD_ERR_NONE;
    struct api_digest digest;
    size_t half = strlen(data) / 2;
    if (api_digest_begin(&digest, header, &err) != POD_OK)
        return err.reason;
    api_digest_update(&digest, data, half);
    api_digest_update(&digest, data + half, strlen(data) - half);
    return api_digest_end(&digest, &err) == POD_OK ? POD_REASON_NONE
                                                   : err.reason;
}

static void crc32c_of_known_texts(void **state)
{
    (void)state;
    unsigned char bytes[32];
    assert_int_equal(api_crc32c(0, "", 0), 0);
    assert_int_equal(api_crc32c(0, "123456789", 9), 0xE3069283);
    memset(bytes, 0, sizeof(bytes));
    assert_int_equal(api_crc32c(0, bytes, 32), 0x8A9136AA);
    memset(bytes, 0xFF, sizeof(bytes));
    assert_int_equal(api_crc32c(0, bytes, 32), 0x62A8AB43);
    for (unsigned i = 0; i < 32; i++)
        bytes[i] = (unsigned char)i;
    assert_int_equal(api_crc32c(0, bytes, 32), 0x46DD794E);
    assert_int_equal(api_crc32c(api_crc32c(0, bytes, 13), bytes + 13, 19),
                     0x46DD794E);
}

static void names_programs(void **state)
{
    (void)state;
    char name[API_DIGEST_NAME_BYTES];
    api_digest_name("abc", 3, name);
    assert_string_equal(name, "sha256:ba7816bf8f01cfea414140de5dae2223"
                              "b00361a396177a9cb410ff61f20015ad");
}

static void accepts_what_matches(void **state)
{
    (void)state;
    char both[256];
    (void)snprintf(both, sizeof(both), "%s ,  %s", hello_sha256, hello_sha512);
    assert_int_equal(check(hello_sha256, hello), POD_REASON_NONE);
    assert_int_equal(check(hello_sha512, hello), POD_REASON_NONE);
    assert_int_equal(check(both, hello), POD_REASON_NONE);
    assert_int_equal(check("crc32c=:4waSgw==:", "123456789"), POD_REASON_NONE);
    assert_int_equal(check("md5=:AAAA:, crc32c=:4waSgw==:", "123456789"),
                     POD_REASON_NONE);
}

static void refuses_what_does_not(void **state)
{
    (void)state;
    assert_int_equal(check(hello_sha256, "{\"hello\": \"world\"}"),
                     POD_REASON_DIGEST_MISMATCH);
    assert_int_equal(check("crc32c=:4waSgw==:", "123456780"),
                     POD_REASON_DIGEST_MISMATCH);
    // One that matches does not make up for one that does not.
    assert_int_equal(
        check("crc32c=:4waSgw==:, "
              "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU"
              "=:",
              "123456789"),
        POD_REASON_DIGEST_MISMATCH);
}

static void refuses_what_is_malformed(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "sha-256",
        "sha-256=",
        "sha-256=:",
        "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=",
        "sha-256=:AAAA:",
        "crc32c=:4waSgw==:,",
        "crc32c=:4waSgw==: x",
        "crc32c=:4waS:",
        "crc32c=:!!!!!!==:",
        "md5=:AAAA:",
        "=:AAAA:",
        // More than there is room for.
        "crc32c=:4waSgw==:,crc32c=:4waSgw==:,crc32c=:4waSgw==:,"
        "crc32c=:4waSgw==:,crc32c=:4waSgw==:,crc32c=:4waSgw==:,"
        "crc32c=:4waSgw==:,crc32c=:4waSgw==:,crc32c=:4waSgw==:",
        "CRC32C=:4waSgw==:",
        "sha-512=:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA:",
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(check(cases[i], "123456789"), POD_REASON_BAD_VALUE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc32c_of_known_texts),
        cmocka_unit_test(names_programs),
        cmocka_unit_test(accepts_what_matches),
        cmocka_unit_test(refuses_what_does_not),
        cmocka_unit_test(refuses_what_is_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
