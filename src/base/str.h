/* Functions on struct weir_str. In every locale, only ASCII letters have an upper and a lower
 * case. */
#ifndef WR_BASE_STR_H
#define WR_BASE_STR_H

#include <stdbool.h>
#include <string.h>

#include <weir/rules.h>

#define WR_STR(literal) ((struct weir_str){"" literal, sizeof(literal) - 1})

static inline struct weir_str wr_str(const char *text)
{
	return (struct weir_str){text, strlen(text)};
}

static inline bool wr_str_equal(struct weir_str a, struct weir_str b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline char wr_lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static inline bool wr_str_equal_nocase(struct weir_str a, struct weir_str b)
{
	if (a.len != b.len)
		return false;
	for (size_t i = 0; i < a.len; i++)
		if (wr_lower(a.ptr[i]) != wr_lower(b.ptr[i]))
			return false;
	return true;
}

static inline bool wr_str_begins(struct weir_str s, struct weir_str prefix)
{
	return s.len >= prefix.len &&
	       (prefix.len == 0 || memcmp(s.ptr, prefix.ptr, prefix.len) == 0);
}

static inline bool wr_str_ends(struct weir_str s, struct weir_str suffix)
{
	return s.len >= suffix.len &&
	       (suffix.len == 0 || memcmp(s.ptr + s.len - suffix.len, suffix.ptr, suffix.len) == 0);
}

static inline struct weir_str wr_str_from(struct weir_str s, size_t start)
{
	return (struct weir_str){s.ptr + start, s.len - start};
}

static inline struct weir_str wr_str_first(struct weir_str s, size_t len)
{
	return (struct weir_str){s.ptr, len < s.len ? len : s.len};
}

/* Returns the index of the first `c` in `s`, or s.len if `s` does not contain `c`. */
static inline size_t wr_str_find(struct weir_str s, char c)
{
	const char *at = s.len ? memchr(s.ptr, c, s.len) : NULL;

	return at ? (size_t)(at - s.ptr) : s.len;
}

static inline bool wr_str_has(struct weir_str s, char c)
{
	return wr_str_find(s, c) < s.len;
}

/* Returns the text without blanks and tabs at its beginning and end. */
static inline struct weir_str wr_str_trim(struct weir_str s)
{
	while (s.len && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
		s.ptr++;
		s.len--;
	}
	while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
		s.len--;
	return s;
}

/* Returns the value of a hexadecimal digit, or -1 for any other character. */
static inline int wr_hex(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = wr_lower(c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

#endif
