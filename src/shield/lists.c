/* Reads lists of protected addresses; see lists.h. */
#include "shield/lists.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/str.h"
#include "rules/requests.h"

#define FILE_MAX ((size_t)16 << 20) /* maximum size of a file of --never */
#define RULES_ERROR_TEXT 512

static bool is_file(const char *value)
{
	return value[0] == '/' || value[0] == '.';
}

/* ---- options and files ---- */

static int no_memory(struct weir_error *error)
{
	return wr_error(error, WEIR_EMEMORY, "out of memory");
}

int wr_protect_read_text(struct weir_str text, const char *path, struct wr_protect_list *list,
			 struct weir_error *error)
{
	for (unsigned line = 1; text.len; line++) {
		size_t end = wr_str_find(text, '\n');
		struct weir_str word = wr_str_first(text, end);
		struct wr_address_range range;
		unsigned bits;

		text = wr_str_from(text, end < text.len ? end + 1 : end);
		if (word.len && word.ptr[word.len - 1] == '\r')
			word.len--;
		word = wr_str_trim(wr_str_first(word, wr_str_find(word, '#')));
		if (word.len == 0)
			continue;
		if (wr_address_prefix_parse(word, &range, &bits) != WR_ADDRESS_PREFIX_OK)
			return wr_error(error, WEIR_EINVAL,
					"%s:%u: '%.*s' is not a network such as 192.0.2.0/24", path,
					line, (int)(word.len < 64 ? word.len : 64), word.ptr);
		if (!wr_protect_list_add(list, &range))
			return no_memory(error);
	}
	return 0;
}

/* Opens a regular file. A pipe is refused, because it can be read only once. Without O_NONBLOCK,
 * open() would wait for the writer of a pipe, and the shield would stop. Returns the file descriptor
 * or an error. */
static int open_file(const char *path, struct weir_error *error)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;

	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS, "--never: cannot read %s", path);
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return wr_error(error, WEIR_EINVAL,
			"--never: %s is not a regular file; write the networks to a file, which "
			"the shield reads again when it changes",
			path);
}

/* Appends the contents of a file to the buffer. Returns 0 or an error. */
static int read_bytes(const char *path, struct wr_buf *buf, struct weir_error *error)
{
	int fd = open_file(path, error);
	ssize_t got = -1;

	if (fd < 0)
		return fd;
	for (;;) {
		char *room = wr_buf_reserve(buf, 65536);

		if (!room)
			break;
		got = read(fd, room, 65536);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		wr_buf_commit(buf, (size_t)got);
	}
	if (wr_buf_failed(buf))
		got = wr_error(error, WEIR_EINVAL, "--never: %s has more than %zu MiB", path,
			       FILE_MAX >> 20);
	else if (got < 0)
		wr_error_errno(error, WEIR_ESYS, "--never: cannot read %s", path);
	close(fd);
	return got < 0 ? WEIR_ESYS : 0;
}

static int read_file(const char *path, struct wr_protect_list *list, struct weir_error *error)
{
	struct wr_buf buf;
	int rc;

	wr_buf_init(&buf, FILE_MAX);
	rc = read_bytes(path, &buf, error);
	if (rc == 0)
		rc = wr_protect_read_text(wr_buf_str(&buf), path, list, error);
	wr_buf_free(&buf);
	return rc;
}

/* Reads a value that is not the path of a file. Returns 0 or an error. */
static int read_network(const char *value, const char *flag, bool files,
			struct wr_address_range *range, struct weir_error *error)
{
	unsigned bits;

	if (wr_address_prefix_parse(wr_str(value), range, &bits) == WR_ADDRESS_PREFIX_OK)
		return 0;
	return wr_error(error, WEIR_EINVAL, "%s '%s' is not a network such as 192.0.2.0/24%s", flag,
			value, files ? ", nor the path of a file that begins with / or ." : "");
}

int wr_protect_check_option(const struct wr_text_list *values, const char *flag, bool files,
			    struct weir_error *error)
{
	struct wr_address_range range;
	int rc = 0;

	for (size_t i = 0; i < values->count && rc == 0; i++)
		if (!files || !is_file(values->items[i]))
			rc = read_network(values->items[i], flag, files, &range, error);
	return rc;
}

int wr_protect_read_option(const struct wr_text_list *values, const char *flag, bool files,
			   struct wr_protect_list *list, struct weir_error *error)
{
	for (size_t i = 0; i < values->count; i++) {
		const char *value = values->items[i];
		struct wr_address_range range;
		int rc;

		if (files && is_file(value))
			rc = read_file(value, list, error);
		else
			rc = read_network(value, flag, files, &range, error);
		if (rc == 0 && !(files && is_file(value)) && !wr_protect_list_add(list, &range))
			rc = no_memory(error);
		if (rc < 0)
			return rc;
	}
	return 0;
}

uint64_t wr_protect_stamp(const struct wr_text_list *values)
{
	uint64_t stamp = 0;

	for (size_t i = 0; i < values->count; i++) {
		struct stat st = {0};

		if (!is_file(values->items[i]) || stat(values->items[i], &st) < 0)
			continue;
		stamp = stamp * 31 + (uint64_t)st.st_ino;
		stamp = stamp * 31 + (uint64_t)st.st_size;
		stamp = stamp * 31 + (uint64_t)st.st_mtim.tv_sec;
		stamp = stamp * 31 + (uint64_t)st.st_mtim.tv_nsec;
	}
	return stamp;
}

/* ---- rules ---- */

int wr_nft_load_rules(const char *path, struct weir_rules **rules, struct weir_error *error)
{
	struct weir_errors errors = {.size = sizeof errors};
	char text[RULES_ERROR_TEXT] = "";
	int rc = weir_rules_load(path, rules, &errors);

	if (rc < 0 && errors.count)
		weir_diagnostic_text(&errors.items[0], text, sizeof text);
	weir_errors_free(&errors);
	return rc == 0 ? 0
		       : wr_error(error, rc, "--rules %s: %.*s; weir check shows all errors", path,
				  (int)strcspn(text, "\n"), text[0] ? text : weir_strerror(rc));
}

static bool read_domain(const struct wr_rules_requests *requests, struct wr_protect_list *list)
{
	for (const struct wr_rules_request *each = requests->first; each; each = each->next) {
		const struct wr_address_ranges *ranges = each->allow ? each->addresses : NULL;

		for (uint32_t i = 0; ranges && i < ranges->count; i++)
			if (!wr_protect_list_add(list, &ranges->items[i]))
				return false;
	}
	return true;
}

bool wr_protect_read_rules(const struct weir_rules *rules, struct wr_protect_list *list)
{
	for (const struct wr_node *domain = rules->first_domain; domain;
	     domain = domain->more->next)
		if (domain->more->requests && !read_domain(domain->more->requests, list))
			return false;
	return true;
}
