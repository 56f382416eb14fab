/* Compares names of members and indexes of elements with the steps of JSON pointers (RFC 6901). */
#include "limiter/reader.h"

#include "base/str.h"
#include "limiter/reader_scan.h"

#define NO_INDEX UINT64_MAX

/* Returns whether only the name of a member can match the step, and every name that matches is
 * written like the step or with \uXXXX. */
static bool is_plain_name(struct weir_str step)
{
	bool digits = true;

	for (size_t i = 0; i < step.len; i++) {
		char c = step.ptr[i];

		if (c == '~' || c == '"' || c == '\\' || (unsigned char)c < ' ')
			return false;
		digits &= c >= '0' && c <= '9';
	}
	return !digits;
}

static struct weir_str nth_step(const struct wr_reader_pointer *pointer, size_t i)
{
	const uint16_t *at = &pointer->step_at[i];

	return (struct weir_str){pointer->text.ptr + at[0], (size_t)(at[1] - 1 - at[0])};
}

/* Chooses the last step that can be searched for. Names of later steps occur in fewer texts. */
static void find_name_step(struct wr_reader_pointer *pointer)
{
	uint8_t step = pointer->steps;

	while (step > 0 && !is_plain_name(nth_step(pointer, step - 1u)))
		step--;
	pointer->name_step = step;
}

int wr_reader_pointer_read(struct wr_reader_pointer *pointer, struct weir_str text, bool *escaped)
{
	*pointer = (struct wr_reader_pointer){.text = text};
	*escaped = false;
	if ((!text.ptr && text.len) || text.len > WEIR_READER_POINTER_MAX ||
	    (text.len && text.ptr[0] != '/'))
		return WEIR_EINVAL;
	for (size_t i = 0; i < text.len; i++) {
		char c = text.ptr[i];

		if (c == '/' && pointer->steps == WEIR_READER_DEPTH_MAX)
			return WEIR_EINVAL;
		if (c == '/')
			pointer->step_at[pointer->steps++] = (uint16_t)(i + 1);
		if (c != '~')
			continue;
		if (i + 1 == text.len || (text.ptr[i + 1] != '0' && text.ptr[i + 1] != '1'))
			return WEIR_EINVAL;
		*escaped = true;
	}
	pointer->step_at[pointer->steps] = (uint16_t)(text.len + 1);
	find_name_step(pointer);
	return 0;
}

/* Returns the step that a member or element of the current container is compared with. The pointer
 * must lead into the container. */
static struct weir_str step_of(const struct wr_reader_json *json,
			       const struct wr_reader_pointer *pointer)
{
	return nth_step(pointer, json->depth - 1u);
}

/* ---- names ---- */

uint8_t wr_reader_name_find(struct wr_reader_json *json, struct weir_str name)
{
	uint8_t found = 0;

	if (json->levels[json->depth].live & json->escaped) {
		wr_reader_name_begin(json);
		for (size_t i = 0; i < name.len && json->names; i++)
			wr_reader_name_byte(json, name.ptr[i]);
		return wr_reader_name_end(json);
	}
	for (unsigned left = json->levels[json->depth].live; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);

		if (wr_str_equal(step_of(json, &json->pointers[i]), name))
			found |= (uint8_t)(1u << i);
	}
	return found;
}

void wr_reader_name_begin(struct wr_reader_json *json)
{
	json->names = json->levels[json->depth].live;
	json->high = 0;
	for (unsigned left = json->names; left; left &= left - 1) {
		struct wr_reader_pointer *pointer = &json->pointers[__builtin_ctz(left)];

		pointer->at = pointer->step_at[json->depth - 1];
	}
}

/* Returns the next character of the step, or -1 at its end. */
static int next_of_step(struct wr_reader_pointer *pointer, uint16_t end)
{
	const char *text = pointer->text.ptr;

	if (pointer->at == end)
		return -1;
	if (text[pointer->at] != '~')
		return (unsigned char)text[pointer->at++];
	pointer->at += 2;
	return text[pointer->at - 1] == '0' ? '~' : '/';
}

void wr_reader_name_byte(struct wr_reader_json *json, char c)
{
	for (unsigned left = json->names; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		struct wr_reader_pointer *pointer = &json->pointers[i];
		uint16_t end = (uint16_t)(pointer->step_at[json->depth] - 1);

		if (next_of_step(pointer, end) != (unsigned char)c)
			json->names &= (uint8_t) ~(1u << i);
	}
}

void wr_reader_name_code_point(struct wr_reader_json *json, uint32_t point)
{
	if (point < 0x80) {
		wr_reader_name_byte(json, (char)point);
		return;
	}
	if (point < 0x800) {
		wr_reader_name_byte(json, (char)(0xc0 | point >> 6));
	} else {
		if (point < 0x10000) {
			wr_reader_name_byte(json, (char)(0xe0 | point >> 12));
		} else {
			wr_reader_name_byte(json, (char)(0xf0 | point >> 18));
			wr_reader_name_byte(json, (char)(0x80 | (point >> 12 & 0x3f)));
		}
		wr_reader_name_byte(json, (char)(0x80 | (point >> 6 & 0x3f)));
	}
	wr_reader_name_byte(json, (char)(0x80 | (point & 0x3f)));
}

uint8_t wr_reader_name_end(struct wr_reader_json *json)
{
	for (unsigned left = json->names; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		const struct wr_reader_pointer *pointer = &json->pointers[i];

		if (json->high || pointer->at != pointer->step_at[json->depth] - 1)
			json->names &= (uint8_t) ~(1u << i);
	}
	return json->names;
}

const char *wr_reader_name_search(const struct wr_reader_json *json, size_t i, const char *at,
				  const char *end)
{
	const struct wr_reader_pointer *pointer = &json->pointers[i];

	if (!pointer->name_step)
		return at;
	return wr_reader_find_text(at, end, nth_step(pointer, pointer->name_step - 1u));
}

/* ---- indexes ---- */

/* Returns the index that a step names, or NO_INDEX. An index has no leading zeros. */
static uint64_t index_of(struct weir_str step)
{
	uint64_t index = 0;

	if (step.len == 0 || step.len > 19 || (step.len > 1 && step.ptr[0] == '0'))
		return NO_INDEX;
	for (size_t i = 0; i < step.len; i++) {
		if (step.ptr[i] < '0' || step.ptr[i] > '9')
			return NO_INDEX;
		index = index * 10 + (uint64_t)(step.ptr[i] - '0');
	}
	return index;
}

/* Sets level->wanted, and removes the pointers from level->live that name no later element. */
static void find_wanted(const struct wr_reader_json *json, struct wr_reader_level *level)
{
	level->wanted = NO_INDEX;
	for (unsigned left = level->live; left; left &= left - 1) {
		unsigned i = (unsigned)__builtin_ctz(left);
		uint64_t index = index_of(step_of(json, &json->pointers[i]));

		if (index == NO_INDEX || index < level->index)
			level->live &= (uint8_t) ~(1u << i);
		else if (index < level->wanted)
			level->wanted = index;
	}
}

void wr_reader_index_begin(struct wr_reader_json *json, struct wr_reader_level *level)
{
	level->index = 0;
	find_wanted(json, level);
}

uint8_t wr_reader_index_next(struct wr_reader_json *json, struct wr_reader_level *level)
{
	uint8_t before = level->live;

	if (level->index++ < level->wanted)
		return 0;
	find_wanted(json, level);
	return (uint8_t)(before & ~level->live);
}
