/* Protected addresses that the operator lists: in --trust, in --never and its files, and in the
 * rules. */
#ifndef WR_SHIELD_LISTS_H
#define WR_SHIELD_LISTS_H

#include <weir/error.h>

#include "base/text_list.h"
#include "shield/protect.h"

struct weir_rules;

/* Appends the addresses and prefixes of an option. If `files` is true, an item that contains a
 * slash and is not a prefix, or begins with a dot, is the path of a file. Returns 0, or an error
 * that names the option, or the file and the line. */
int wr_protect_read_option(const struct wr_text_list *values, const char *flag, bool files,
			   struct wr_protect_list *list, struct weir_error *error);

/* Checks the values of an option that are not paths of files. Returns 0, or an error that names the
 * option. */
int wr_protect_check_option(const struct wr_text_list *values, const char *flag, bool files,
			    struct weir_error *error);

/* Appends the addresses in the text of a file: one address or prefix per line; # begins a comment.
 * Returns 0, or an error with `path` and the line. */
int wr_protect_read_text(struct weir_str text, const char *path, struct wr_protect_list *list,
			 struct weir_error *error);

/* Returns a number that changes when one of the files of the option changes. */
uint64_t wr_protect_stamp(const struct wr_text_list *values);

/* Loads the rules of --rules. Returns 0, or the first error. The caller frees the rules. */
int wr_nft_load_rules(const char *path, struct weir_rules **rules, struct weir_error *error);

/* Appends the addresses of all entries with `allow: true`. Returns false if there is no memory. */
bool wr_protect_read_rules(const struct weir_rules *rules, struct wr_protect_list *list);

#endif
