/* Matches the alternative names of a client certificate against --tls-client-san. */
#include "net/tls.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <string.h>

static bool same_text(const ASN1_STRING *name, const char *wanted)
{
	size_t len = strlen(wanted);

	return (size_t)ASN1_STRING_length(name) == len &&
	       memcmp(ASN1_STRING_get0_data(name), wanted, len) == 0;
}

static bool same_address(const ASN1_STRING *name, const char *wanted)
{
	unsigned char bytes[16];
	int len = inet_pton(AF_INET, wanted, bytes) == 1    ? 4
		  : inet_pton(AF_INET6, wanted, bytes) == 1 ? 16
							    : 0;

	return len && ASN1_STRING_length(name) == len &&
	       memcmp(ASN1_STRING_get0_data(name), bytes, (size_t)len) == 0;
}

static bool same_name(const GENERAL_NAME *name, const char *wanted)
{
	switch (name->type) {
	case GEN_URI:
		return same_text(name->d.uniformResourceIdentifier, wanted);
	case GEN_EMAIL:
		return same_text(name->d.rfc822Name, wanted);
	case GEN_IPADD:
		return same_address(name->d.iPAddress, wanted);
	default:
		return false; /* DNS names are compared by one_allowed */
	}
}

static bool one_allowed(X509 *certificate, const GENERAL_NAMES *names, const char *wanted)
{
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++)
		if (same_name(sk_GENERAL_NAME_value(names, i), wanted))
			return true;
	return X509_check_host(certificate, wanted, 0,
			       X509_CHECK_FLAG_NEVER_CHECK_SUBJECT |
				       X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS,
			       NULL) == 1;
}

bool wr_tls_san_allowed(X509 *certificate, const struct wr_text_list *allowed)
{
	GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool found = false;

	for (size_t i = 0; names && !found && i < allowed->count; i++)
		found = one_allowed(certificate, names, allowed->items[i]);
	GENERAL_NAMES_free(names);
	return found;
}
