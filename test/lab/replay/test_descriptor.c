/* --descriptor: descriptors from the fields of a log. */
#include "lab/replay/replay_test.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "lab/replay/descriptor.h"

/* Makes a descriptor as "key=value|key=value", or "" if it is not made. */
static const char *make(const char *form, const struct wr_lab_record *record)
{
	static char text[256];
	struct weir_entry entries[WR_LAB_ENTRIES_MAX];
	struct wr_lab_descriptor descriptor;
	struct weir_error error = {0};
	char status[16];
	size_t count, len = 0;

	if (wr_lab_descriptor_read(form, &descriptor, &error) != 0)
		fail_msg("%s", error.text);
	count = wr_lab_descriptor_make(&descriptor, record, entries, status);
	text[0] = 0;
	for (size_t i = 0; i < count; i++)
		len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s=%.*s", i ? "|" : "",
					(int)entries[i].key.len, entries[i].key.ptr,
					(int)entries[i].value.len, entries[i].value.ptr);
	return text;
}

static void each_field_has_its_value(void **state)
{
	static const struct weir_header headers[] = {{WR_STR("user-agent"), WR_STR("curl/8")}};
	struct wr_lab_record record = replay_record("192.0.2.7", 0);

	(void)state;
	record.method = WR_STR("POST");
	record.target = WR_STR("/v1/posts?page=2");
	record.host = WR_STR("example.org");
	record.user = WR_STR("alice");
	record.status = 404;
	record.headers = headers;
	record.header_count = 1;
	assert_string_equal(make("remote_address=client", &record), "remote_address=192.0.2.7");
	assert_string_equal(make("a=method, b=path ,c=target", &record),
			    "a=POST|b=/v1/posts|c=/v1/posts?page=2");
	assert_string_equal(make("h=host,u=user,s=status,g=header.User-Agent", &record),
			    "h=example.org|u=alice|s=404|g=curl/8");
	assert_string_equal(make("generic_key=\"a, b\",ip=client", &record),
			    "generic_key=a, b|ip=192.0.2.7");
}

static void a_missing_value_skips_the_descriptor(void **state)
{
	struct wr_lab_record record = replay_record("192.0.2.7", 0);

	(void)state;
	assert_string_equal(make("ip=client,user=user", &record), "");
	assert_string_equal(make("x=header.x-user", &record), "");
	record.status = 0;
	assert_string_equal(make("s=status", &record), "");
}

static void wrong_forms_are_refused(void **state)
{
	static const char *const wrong[] = {"",         "ip",         "=client",
					    "ip=",      "ip=address", "a=\"x",
					    "a=\"x\"y", "ip=header.", "ip=client,,"};
	struct wr_lab_descriptor descriptor;
	struct weir_error error;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		error = (struct weir_error){0};
		if (wr_lab_descriptor_read(wrong[i], &descriptor, &error) != WEIR_EINVAL)
			fail_msg("'%s' is accepted", wrong[i]);
		assert_non_null(strstr(error.text, "--descriptor"));
		assert_non_null(strstr(error.text, "client method path target host user status"));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_has_its_value),
		cmocka_unit_test(a_missing_value_skips_the_descriptor),
		cmocka_unit_test(wrong_forms_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
