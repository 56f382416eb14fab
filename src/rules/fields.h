/* Reading a map of a rule file: every key is checked against keys.h, then fetched by its number.
 *
 * Getters return whether there is a usable value; what is wrong has been said by then. A key
 * without a value, as in `unit:`, is as good as absent. */
#ifndef WR_RULES_FIELDS_H
#define WR_RULES_FIELDS_H

#include "rules/load.h"

struct wr_fields {
	const struct wr_yaml *at; /* the map */
	bool misread;             /* some key is not known: one may be missing because of that */
	const struct wr_yaml *key[WR_KEY_COUNT];
	const struct wr_yaml *value[WR_KEY_COUNT]; /* NULL: absent */
};

/* A word and its number; a list ends with an empty one. */
struct wr_word {
	struct weir_str text;
	int number;
};

extern const struct wr_word wr_algorithm_words[], wr_unit_words[], wr_calendar_words[],
	wr_mode_words[], wr_on_limit_words[], wr_consistency_words[], wr_store_failure_words[],
	wr_on_full_words[], wr_missing_words[], wr_ambiguity_words[];

/* `called` names the map where it is no map at all: "rate_limit takes a map, not text". */
bool wr_fields_read(struct wr_load *load, const struct wr_yaml *map, enum wr_place place,
		    struct weir_str called, struct wr_fields *fields);

/* Copied into the rules' arena. */
bool wr_get_text(struct wr_load *load, const struct wr_fields *fields, enum wr_key_id key,
		 struct weir_str *text);
bool wr_get_flag(struct wr_load *load, const struct wr_fields *fields, enum wr_key_id key);
bool wr_get_number(struct wr_load *load, const struct wr_fields *fields, enum wr_key_id key,
		   uint32_t min, uint32_t max, uint32_t *number);
bool wr_get_duration(struct wr_load *load, const struct wr_fields *fields, enum wr_key_id key,
		     uint64_t *ns);
/* In parts of a million. */
bool wr_get_share(struct wr_load *load, const struct wr_fields *fields, enum wr_key_id key,
		  uint32_t max_ppm, uint32_t *ppm);
bool wr_get_word(struct wr_load *load, const struct wr_fields *fields, enum wr_key_id key,
		 const struct wr_word *words, int *number);

/* A list of maps, or of texts; one text is a list of one. Entries of the wrong type are said and
 * left out. */
struct wr_list {
	const struct wr_yaml *single;
	const struct wr_yaml_item *items;
	enum wr_yaml_kind kind;
	uint32_t count;
};
bool wr_get_list(struct wr_load *load, const struct wr_fields *fields, enum wr_key_id key,
		 bool of_maps, uint32_t max, struct wr_list *list);
const struct wr_yaml *wr_list_next(struct wr_list *list);

/* guess.c: the candidate a misspelled word is near enough to, or an empty string. */
struct wr_guess {
	struct weir_str word;
	struct weir_str best;
	size_t distance;
};
void wr_guess_try(struct wr_guess *guess, struct weir_str candidate);

#endif
