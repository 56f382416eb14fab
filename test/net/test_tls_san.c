/* Alternative names of client certificates: DNS names, URIs, addresses, e-mail addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <openssl/x509v3.h>

#include "net/tls.h"

/* Returns a certificate with these alternative names ("DNS:a,URI:b"). It is not signed, because these
 * tests do not verify it. */
static X509 *certificate(const char *names, const char *common_name)
{
	X509 *cert = X509_new();
	X509_EXTENSION *extension;

	assert_non_null(cert);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(cert), "CN", MBSTRING_UTF8,
				   (const unsigned char *)common_name, -1, -1, 0);
	if (!names)
		return cert;
	extension = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, names);
	assert_non_null(extension);
	X509_add_ext(cert, extension, -1);
	X509_EXTENSION_free(extension);
	return cert;
}

static bool allowed(const char *names, const char *wanted)
{
	struct wr_text_list list = {.count = 2, .items = {"nobody.elsewhere.net", wanted}};
	X509 *cert = certificate(names, "cn.example.org");
	bool yes = wr_tls_san_allowed(cert, &list);

	X509_free(cert);
	return yes;
}

static void test_dns(void **state)
{
	(void)state;
	assert_true(allowed("DNS:envoy.example.org", "envoy.example.org"));
	assert_true(allowed("DNS:Envoy.Example.ORG", "envoy.example.org"));
	assert_true(allowed("DNS:a,DNS:envoy.example.org", "envoy.example.org"));
	assert_true(allowed("DNS:*.example.org", "envoy.example.org"));
	assert_false(allowed("DNS:*.example.org", "a.b.example.org"));
	assert_false(allowed("DNS:*.example.org", "example.org"));
	assert_false(allowed("DNS:envoy.example.org", "voy.example.org"));
	assert_false(allowed("DNS:envoy.example.org.evil.example", "envoy.example.org"));
}

static void test_uri_email_address(void **state)
{
	(void)state;
	assert_true(allowed("URI:spiffe://example.org/ns/a", "spiffe://example.org/ns/a"));
	assert_false(allowed("URI:spiffe://example.org/ns/ab", "spiffe://example.org/ns/a"));
	assert_false(allowed("URI:spiffe://example.org/NS/a", "spiffe://example.org/ns/a"));
	assert_true(allowed("email:a@example.org", "a@example.org"));
	assert_true(allowed("IP:10.0.0.7", "10.0.0.7"));
	assert_false(allowed("IP:10.0.0.7", "10.0.0.8"));
	assert_true(allowed("IP:fd00:0:0::1", "fd00::1"));
	assert_false(allowed("DNS:10.0.0.7", "10.0.0.8"));
}

/* An allowed name of one kind does not match an alternative name of another kind. */
static void test_kinds_are_not_mixed(void **state)
{
	(void)state;
	assert_false(allowed("URI:envoy.example.org", "voy.example.org"));
	assert_false(allowed("DNS:x", "spiffe://x"));
	assert_false(allowed("IP:10.0.0.7", "envoy.example.org"));
}

static void test_common_name_does_not_count(void **state)
{
	(void)state;
	assert_false(allowed(NULL, "cn.example.org"));
	assert_false(allowed("DNS:other.example.org", "cn.example.org"));
	assert_false(allowed("URI:spiffe://x", "cn.example.org"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dns),
		cmocka_unit_test(test_uri_email_address),
		cmocka_unit_test(test_kinds_are_not_mixed),
		cmocka_unit_test(test_common_name_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
