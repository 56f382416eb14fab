/* Reads users and checks passwords of the RESP listener. Called by serve/resp/resp.c and by AUTH
 * and HELLO. */
#include "wire/resp/users.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"
#include "base/address.h"

#define MINUTE_NS 60000000000ull
/* IPv6 addresses of the same /64 count as one client, because a client can use all of them */
#define V6_PREFIX_BITS 64u
#define LOGIN_IDENTITY 0x726573702d6c6f67u /* separates failed logins from all other counters */

static int read_user(struct wr_resp_users *users, struct weir_str line, unsigned number,
		     struct weir_error *error)
{
	size_t colon = wr_str_find(line, ':');
	struct weir_str name = colon < line.len ? wr_str_first(line, colon) : WR_STR("default");
	struct weir_str password = colon < line.len ? wr_str_from(line, colon + 1) : line;
	struct wr_resp_user *user = &users->user[users->count];

	if (users->count == WR_USERS_MAX)
		return wr_error(error, WEIR_EINVAL, "line %u: more than %u users", number,
				WR_USERS_MAX);
	if (name.len == 0 || name.len > WR_USER_NAME_MAX)
		return wr_error(error, WEIR_EINVAL,
				"line %u: the user name must have 1 to %u bytes", number,
				WR_USER_NAME_MAX);
	if (password.len == 0 || password.len > WR_PASSWORD_MAX)
		return wr_error(error, WEIR_EINVAL, "line %u: the password must have 1 to %u bytes",
				number, WR_PASSWORD_MAX);
	*user = (struct wr_resp_user){(uint32_t)name.len, (uint32_t)password.len, {0}, {0}};
	memcpy(user->name, name.ptr, name.len);
	memcpy(user->password, password.ptr, password.len);
	users->count++;
	return 0;
}

int wr_resp_users_read(struct wr_resp_users *users, const char *text, size_t len,
		       struct weir_error *error)
{
	struct weir_str rest = {text, len};

	wr_assert(users && text);
	users->count = 0;
	for (unsigned number = 1; rest.len; number++) {
		struct weir_str line = wr_str_first(rest, wr_str_find(rest, '\n'));
		int rc = 0;

		rest = wr_str_from(rest, line.len < rest.len ? line.len + 1 : line.len);
		if (line.len && line.ptr[line.len - 1] == '\r')
			line.len--;
		if (line.len)
			rc = read_user(users, line, number, error);
		if (rc)
			return rc;
	}
	if (users->count == 0)
		return wr_error(error, WEIR_EINVAL, "the file contains no password");
	return 0;
}

/* Returns 1 if the texts are equal, otherwise 0. Always compares all `size` bytes, so that the time
 * does not depend on the texts. */
static unsigned equal_bytes(const char *stored, size_t stored_len, struct weir_str given,
			    size_t size)
{
	size_t differ = stored_len ^ given.len;

	for (size_t i = 0; i < size; i++)
		differ |= (size_t)((unsigned char)stored[i] ^
				   (i < given.len ? (unsigned char)given.ptr[i] : 0u));
	return differ == 0;
}

bool wr_resp_users_know(const struct wr_resp_users *users, struct weir_str name,
			struct weir_str password)
{
	unsigned known = 0;

	wr_assert(users->count <= WR_USERS_MAX);
	for (size_t i = 0; i < users->count; i++) {
		const struct wr_resp_user *user = &users->user[i];

		known |= equal_bytes(user->name, user->name_len, name, WR_USER_NAME_MAX) &
			 equal_bytes(user->password, user->password_len, password, WR_PASSWORD_MAX);
	}
	return known != 0;
}

/* Returns the key of the counter of failed logins: an IPv4 address, the /64 of an IPv6 address, or
 * the text itself if it is not an address. */
static struct weir_str client_of(struct weir_str text, char memory[WR_ADDRESS_TEXT])
{
	struct wr_address address;
	unsigned bits;

	if (wr_address_parse(text, &address) != 0)
		return text;
	bits = wr_address_is_v4(&address) ? WR_ADDRESS_WHOLE : V6_PREFIX_BITS;
	return (struct weir_str){memory, wr_address_text(&address, bits, memory)};
}

/* Counts every login as failed before the password is compared, and takes the count back if the
 * password is right. If only wrong passwords were counted after the comparison, many connections at
 * once could exceed the limit. */
enum wr_resp_login wr_resp_login(const struct wr_resp_users *users, struct weir_table *table,
				 struct weir_str address, struct weir_str name,
				 struct weir_str password, uint64_t now_ns, uint64_t *wait_ns)
{
	struct weir_limit limit = {.size = sizeof limit,
				   .algorithm = WEIR_TOKEN_BUCKET,
				   .limit = WR_USER_FAILURES_PER_MINUTE,
				   .period_ns = MINUTE_NS,
				   .identity = LOGIN_IDENTITY};
	char memory[WR_ADDRESS_TEXT];
	struct weir_str client = client_of(address, memory);
	struct weir_decision decision;

	if (weir_limit_check(&limit, NULL) != 0 ||
	    weir_take(table, &limit, client.ptr, client.len, 1, now_ns, &decision) != 0)
		return WR_LOGIN_WRONG;
	*wait_ns = decision.retry_after_ns;
	if (!decision.admitted)
		return WR_LOGIN_TOO_OFTEN;
	if (!wr_resp_users_know(users, name, password))
		return WR_LOGIN_WRONG;
	weir_return(table, &limit, client.ptr, client.len, 1, decision.charged_ns, now_ns,
		    &decision);
	return WR_LOGIN_RIGHT;
}
