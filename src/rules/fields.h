/* Reads a map of a rule file: checks every key against keys.h, then returns the values of single
 * keys.
 *
 * The functions wr_get_… return whether the map has a usable value for the key. They report errors
 * themselves. A key without a value, as in `unit:`, counts as absent. */
#ifndef WR_RULES_FIELDS_H
#define WR_RULES_FIELDS_H

#include "rules/load.h"

struct wr_fields {
	const struct wr_yaml *at; /* the map that was read */
	/* True if the map has an unknown key. It may be a misspelled required key, so no error is
	 * then reported for a required key that is missing. */
	bool misread;
	const struct wr_yaml *key[WR_KEY_COUNT];
	const struct wr_yaml *value[WR_KEY_COUNT]; /* value of each key; NULL: the key is absent */
};

/* A word of rule files, and the number of the enum constant that it stands for. A list of words
 * ends with an empty word. */
struct wr_rules_word {
	struct weir_str text;
	int number;
};

extern const struct wr_rules_word wr_algorithm_words[], wr_unit_words[], wr_calendar_words[],
	wr_mode_words[], wr_on_limit_words[], wr_consistency_words[],
	wr_rules_store_failure_words[], wr_on_full_words[], wr_missing_words[],
	wr_on_expiry_words[], wr_ambiguity_words[];

/* Reads and checks the keys of a map. `called` is the name of the map in the error for a value that
 * is not a map, as in "`rate_limit` must be a map, not '5'". Returns false after an error. */
bool wr_fields_read(struct wr_load *load, const struct wr_yaml *map, enum wr_rules_map kind,
		    struct weir_str called, struct wr_fields *fields);

/* Reports the value at `at` of the key `key`, which has the wrong type. If `key` is "rate_limit"
 * and `wanted` is "a map", the message is "`rate_limit` must be a map, not '5'". */
void wr_rules_report_type(struct wr_load *load, const struct wr_yaml *at, struct weir_str key,
			  const char *wanted);

/* Gets a text, which is copied into the arena of the rules. */
bool wr_get_text(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		 struct weir_str *text);
bool wr_get_flag(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key);
bool wr_get_number(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		   uint32_t min, uint32_t max, uint32_t *number);
/* Returns whether a value is a whole number up to UINT32_MAX, as YAML writes it, and sets
 * *number. Reports nothing. */
bool wr_rules_number_parse(const struct wr_yaml *value, uint64_t *number);
bool wr_get_duration(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		     uint64_t *ns);
/* Gets a percentage, in parts of a million: "12.5%" becomes 125000. */
bool wr_get_share(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		  uint32_t max_ppm, uint32_t *ppm);
bool wr_get_word(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		 const struct wr_rules_word *words, int *number);

/* A list of maps, or a list of texts, in a rule file. A single text counts as a list with one item.
 * Items of a wrong type are reported and left out. */
struct wr_rules_list {
	const struct wr_yaml *single;
	const struct wr_yaml_item *items;
	enum wr_yaml_kind kind;
	uint32_t count;
};
bool wr_get_list(struct wr_load *load, const struct wr_fields *fields, enum wr_rules_key_id key,
		 bool of_maps, uint32_t max, struct wr_rules_list *list);
const struct wr_yaml *wr_rules_list_next(struct wr_rules_list *list);

/* guess.c: finds the known word that a misspelled word is most similar to. `best` is empty if no
 * known word is similar. */
struct wr_guess {
	struct weir_str word;
	struct weir_str best;
	size_t distance;
};
void wr_guess_try(struct wr_guess *guess, struct weir_str candidate);

#endif
