/* Lists of protected networks in options, files and rules. */
#include "shield_test.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shield/lists.h"

static int read_text(const char *text, struct wr_protect_list *list, struct weir_error *error)
{
	return wr_protect_read_text(wr_str(text), "cdn.txt", list, error);
}

static void test_file(void **state)
{
	struct wr_protect_list list = {0};
	struct weir_error error;

	(void)state;
	assert_int_equal(read_text("# networks of the CDN\n\n"
				   "  192.0.2.0/24  # Paris\r\n"
				   "2001:db8::/32\n"
				   "198.51.100.7",
				   &list, &error),
			 0);
	assert_int_equal(list.count, 3);
	wr_protect_list_free(&list);
}

static void test_error_names_file_and_line(void **state)
{
	struct wr_protect_list list = {0};
	struct weir_error error;

	(void)state;
	assert_int_equal(read_text("192.0.2.0/24\n\nexample.org\n", &list, &error), WEIR_EINVAL);
	assert_string_equal(error.text,
			    "cdn.txt:3: 'example.org' is not a network such as 192.0.2.0/24");
	wr_protect_list_free(&list);
}

static void test_option_has_networks_and_files(void **state)
{
	char path[] = "/tmp/weir-lists-XXXXXX";
	struct wr_text_list values = {.count = 2, .items = {"192.0.2.0/24", path}};
	struct wr_protect_list list = {0};
	struct weir_error error;
	int fd = mkstemp(path);
	uint64_t stamp;

	(void)state;
	assert_int_equal(write(fd, "198.51.100.7\n", 13), 13);
	assert_int_equal(wr_protect_read_option(&values, "--never", true, &list, &error), 0);
	assert_int_equal(list.count, 2);
	stamp = wr_protect_stamp(&values);
	assert_int_equal(wr_protect_stamp(&values), stamp);
	assert_int_equal(write(fd, "198.51.100.8\n", 13), 13);
	assert_int_not_equal(wr_protect_stamp(&values), stamp);
	close(fd);
	unlink(path);
	assert_int_equal(wr_protect_read_option(&values, "--never", true, &list, &error),
			 WEIR_ESYS);
	assert_non_null(strstr(error.text, "--never: cannot read /tmp/weir-lists-"));
	wr_protect_list_free(&list);
}

/* A pipe without a writer does not stop the shield. */
static void test_pipe_is_refused(void **state)
{
	char path[] = "/tmp/weir-lists-XXXXXX";
	struct wr_text_list values = {.count = 1, .items = {path}};
	struct wr_protect_list list = {0};
	struct weir_error error;

	(void)state;
	assert_non_null(mkdtemp(path));
	assert_int_equal(wr_protect_read_option(&values, "--never", true, &list, &error),
			 WEIR_EINVAL);
	rmdir(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_int_equal(wr_protect_read_option(&values, "--never", true, &list, &error),
			 WEIR_EINVAL);
	unlink(path);
	assert_non_null(strstr(error.text, " is not a regular file; "));
	assert_int_equal(list.count, 0);
}

static void test_word_that_is_no_network(void **state)
{
	struct wr_text_list values = {.count = 1, .items = {"cdn.txt"}};
	struct wr_protect_list list = {0};
	struct weir_error error;

	(void)state;
	assert_int_equal(wr_protect_read_option(&values, "--never", true, &list, &error),
			 WEIR_EINVAL);
	assert_string_equal(error.text, "--never 'cdn.txt' is not a network such as 192.0.2.0/24, "
					"nor the path of a file that begins with / or .");
	assert_int_equal(wr_protect_read_option(&values, "--trust", false, &list, &error),
			 WEIR_EINVAL);
	wr_protect_list_free(&list);
}

static void test_allowed_addresses_of_rules(void **state)
{
	static const char text[] = "domain: api\n"
				   "requests:\n"
				   "  - when: {remote_address: [192.0.2.0/24, 2001:db8::/32]}\n"
				   "    allow: true\n"
				   "  - when: {path: /health}\n"
				   "    allow: true\n"
				   "  - when: {remote_address: 198.51.100.0/24}\n"
				   "    descriptor: [{key: ip, from: remote_address}]\n"
				   "descriptors:\n"
				   "  - key: ip\n"
				   "    rate_limit: {unit: second, requests_per_unit: 2}\n";
	char path[] = "/tmp/weir-rules-XXXXXX.yaml";
	struct wr_protect_list list = {0};
	struct weir_rules *rules;
	int fd = mkstemps(path, 5);

	(void)state;
	assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
	close(fd);
	assert_int_equal(weir_rules_load(path, &rules, NULL), 0);
	unlink(path);
	assert_true(wr_protect_read_rules(rules, &list));
	assert_int_equal(list.count, 2);
	wr_protect_list_free(&list);
	weir_rules_free(rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_error_names_file_and_line),
		cmocka_unit_test(test_option_has_networks_and_files),
		cmocka_unit_test(test_pipe_is_refused),
		cmocka_unit_test(test_word_that_is_no_network),
		cmocka_unit_test(test_allowed_addresses_of_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
