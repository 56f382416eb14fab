/* Tests sealed header fields. They are encrypted in the file and decrypted for delivery, and cannot
 * be used in another request. */
#include "queue/queue_test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "queue/seal.h"

static struct rig rig;
static char key_path[96];

static void write_file(const char *path, const void *bytes, size_t len, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, len), len);
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void write_keys(const char *text)
{
	write_file(key_path, text, strlen(text), 0600);
}

#define KEY_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define KEY_B "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff00"

static int setup(void **state)
{
	(void)state;
	rig_init(&rig);
	snprintf(key_path, sizeof key_path, "%s/key", rig.dir);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_free(&rig);
	return 0;
}

static void test_key_files(void **state)
{
	struct wr_seals seals;
	struct weir_error error;
	uint8_t raw[32] = {7};

	(void)state;
	write_keys("# new\n" KEY_A "\n\n  " KEY_B "\r\n");
	assert_int_equal(wr_seals_read(key_path, &seals, &error), 0);
	assert_int_equal(seals.count, 2);
	assert_int_equal(seals.keys[0].bytes[31], 0x1f);
	assert_int_equal(seals.keys[1].bytes[0], 0xff);
	write_file(key_path, raw, sizeof raw, 0600);
	assert_int_equal(wr_seals_read(key_path, &seals, &error), 0);
	assert_int_equal(seals.count, 1);
	assert_memory_equal(seals.keys[0].bytes, raw, sizeof raw);
	write_keys("too short\n");
	assert_int_equal(wr_seals_read(key_path, &seals, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "openssl rand -hex 32"));
	write_keys("");
	assert_int_equal(wr_seals_read(key_path, &seals, &error), WEIR_EINVAL);
	write_file(key_path, KEY_A "\n", 65, 0640);
	assert_int_equal(wr_seals_read(key_path, &seals, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "chmod 600"));
	unlink(key_path);
	assert_int_equal(wr_seals_read(key_path, &seals, &error), WEIR_EINVAL);
	assert_non_null(strstr(error.text, "No such file"));
}

static void test_seal(void **state)
{
	static const struct weir_str value = WR_STR("Bearer secret");
	struct wr_seals seals;
	uint8_t hash[32] = {1}, sealed[64], copy[64];
	const size_t len = value.len + WR_SEAL_EXTRA;
	struct weir_str opened;

	(void)state;
	write_keys(KEY_A);
	assert_int_equal(wr_seals_read(key_path, &seals, NULL), 0);
	assert_true(wr_seal(&seals, hash, WR_STR("Authorization"), value, sealed));
	assert_null(memmem(sealed, len, "secret", 6));
	memcpy(copy, sealed, len);
	assert_true(wr_unseal(&seals, hash, WR_STR("authorization"), copy, len, &opened));
	assert_text(opened, "Bearer secret");

	/* Unsealing fails if any bit was changed, or with another field name or ticket. */
	for (size_t bit = 0; bit < 8 * len; bit++) {
		memcpy(copy, sealed, len);
		copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(wr_unseal(&seals, hash, WR_STR("authorization"), copy, len, &opened));
	}
	memcpy(copy, sealed, len);
	assert_false(wr_unseal(&seals, hash, WR_STR("cookie"), copy, len, &opened));
	hash[5] = 1;
	memcpy(copy, sealed, len);
	assert_false(wr_unseal(&seals, hash, WR_STR("authorization"), copy, len, &opened));
	assert_false(wr_unseal(&seals, hash, WR_STR("authorization"), copy, 10, &opened));
	wr_seals_wipe(&seals);
}

static const struct wr_queue_request_field fields[] = {
	{.name = WR_STR("authorization"), .value = WR_STR("Bearer secret-7f3a"), .secret = true},
	{.name = WR_STR("accept"), .value = WR_STR("*/*")},
	{.name = WR_STR("cookie"), .value = WR_STR(""), .secret = true},
};

static struct wr_queue_job put_secret(void)
{
	struct wr_queue_request request = request_of(1, "body");

	request.fields = fields;
	request.field_count = 3;
	return rig_put_as(&rig, &request, 10, 3600 * S_US, 0);
}

static void test_without_a_key(void **state)
{
	(void)state;
	rig_open(&rig);
	assert_reason(put_secret().reason, WR_QUEUE_NO_KEY);
	assert_int_equal(rig_stats(&rig).waiting, 0);
}

/* Returns whether the file of this name in the queue's folder contains these bytes. */
static bool is_in(const char *name, const char *bytes)
{
	char path[128], *all = malloc(1 << 20);
	ssize_t len;
	bool found;
	int fd;

	snprintf(path, sizeof path, "%s/q/%s", rig.dir, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_non_null(all);
	len = read(fd, all, 1 << 20);
	assert_true(len > 0);
	found = memmem(all, (size_t)len, bytes, strlen(bytes)) != NULL;
	close(fd);
	free(all);
	return found;
}

static void test_through_the_queue(void **state)
{
	struct wr_queue_job job;
	struct wr_queue_request *taken;

	(void)state;
	write_keys(KEY_A);
	rig.opts.key_file = key_path;
	rig_open(&rig);
	assert_reason(put_secret().reason, WR_QUEUE_OK);
	assert_true(is_in("queue.db-wal", "*/*"));
	assert_false(is_in("queue.db-wal", "secret-7f3a"));

	/* Operators see the field, but not its value. */
	job = rig_page(&rig, WR_QUEUE_SHOW, (struct wr_queue_filter){.id = 1}, 0, 1);
	assert_int_equal(job.page.first->field_count, 3);
	assert_true(job.page.first->fields[0].secret && job.page.first->fields[0].locked);
	assert_int_equal(job.page.first->fields[0].value.len, 0);
	assert_text(job.page.first->fields[1].value, "*/*");
	wr_queue_request_free(job.page.first);

	taken = rig_take_one(&rig, "body");
	assert_true(taken->fields[0].secret && !taken->fields[0].locked);
	assert_text(taken->fields[0].value, "Bearer secret-7f3a");
	assert_text(taken->fields[2].value, "");
	assert_false(taken->fields[2].locked);
	wr_queue_request_free(taken);
	rig_close(&rig);

	/* The field can be read with a new key before the old key. It cannot be read without the
	 * old key. */
	write_keys(KEY_B "\n" KEY_A);
	rig_open(&rig);
	taken = rig_take_one(&rig, "body");
	assert_text(taken->fields[0].value, "Bearer secret-7f3a");
	wr_queue_request_free(taken);
	rig_close(&rig);
	write_keys(KEY_B);
	rig_open(&rig);
	taken = rig_take_one(&rig, "body");
	assert_true(taken->fields[0].locked);
	assert_int_equal(taken->fields[0].value.len, 0);
	assert_text(taken->fields[1].value, "*/*");
	wr_queue_request_free(taken);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_key_files),
		TEST(test_seal),
		TEST(test_without_a_key),
		TEST(test_through_the_queue),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
