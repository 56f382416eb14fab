/* Fuzzes a table file: bytes of the input overwrite a valid one. The table is refused, or opened,
 * used, saved, changed by overrides and resized. There is no crash, no endless loop, and no
 * decision out of bounds.
 *
 *   input  = patches, then operations: each a byte that selects it, then its arguments
 *   patch  = section · offset · length · bytes */
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/resource.h>

#include "base/hash.h"
#include "store/store.h"
#include "table/note.h"
#include "table/override.h"
#include "table/pause.h"

#define T0 1700000040000000000ull
#define PATCHES 24
#define LIMITS 11u

static char dir[] = "/dev/shm/weir-fuzz-XXXXXX";
static struct weir_limit limits[LIMITS];
static struct weir_decision taken; /* on the latest admitted request */
static uint8_t *image;             /* a valid table with some keys */
static size_t image_bytes;
static struct wr_header good;

static const char *path_of(const char *name)
{
	static char paths[2][100];
	static int next;
	char *path = paths[next ^= 1];

	snprintf(path, sizeof paths[0], "%s/%s", dir, name);
	return path;
}

/* Forks a process that removes the folder when the fuzzer ends in any way. */
static void fork_cleaner(void)
{
	int ends[2];
	char byte;

	require(pipe(ends) == 0);
	if (fork() == 0) {
		setsid();
		close(ends[1]);
		while (read(ends[0], &byte, 1) < 0)
			;
		unlink(path_of("t.v2"));
		unlink(path_of("saved"));
		rmdir(dir);
		_exit(0);
	}
	close(ends[0]);
}

static struct weir_opts options(uint32_t flags)
{
	struct weir_opts opts = {.size = sizeof opts,
				 .flags = flags,
				 .name = "t",
				 .dir = dir,
				 .memory_bytes = 256 << 10,
				 .log_bytes = 64 << 10,
				 .now_ns = T0};

	return opts;
}

static void choose_limits(void)
{
	for (uint32_t i = 0; i < LIMITS; i++) {
		limits[i] = (struct weir_limit){.size = sizeof limits[i],
						.algorithm = i < 9 ? i % 5 + 1 : WEIR_CONCURRENT,
						.limit = i < 10 ? 20 : 5,
						.period_ns = 60000000000};
		if (limits[i].algorithm == WEIR_LEAKY_BUCKET)
			limits[i].queue_size = 9;
		else if (i >= 5 && i < 9) {
			limits[i].soft_ceiling = 30;
			limits[i].soft_for_ns = 1000000000;
			limits[i].identity = 1;
		}
		if (limits[i].algorithm == WEIR_SLIDING_LOG)
			limits[i].flags = WEIR_COUNT_REJECTED;
		require(weir_limit_check(&limits[i], NULL) == 0);
	}
}

static void take_or_return(struct weir_table *table, unsigned limit, unsigned key, int64_t cost,
			   uint64_t now_ns)
{
	struct weir_decision d = {0};

	const struct weir_limit *l = &limits[limit % LIMITS];

	if (cost < -64)
		require(weir_settle(table, l, &key, sizeof key, &taken, cost + 128, 20, now_ns,
				    &d) == (l->algorithm == WEIR_LEAKY_BUCKET ? WEIR_ELIMIT : 0));
	else if (cost < 0)
		require(weir_return(table, l, &key, sizeof key, -cost,
				    cost & 1 ? taken.charged_ns : now_ns - now_ns % l->period_ns,
				    now_ns, &d) == 0);
	else
		require(weir_take(table, l, &key, sizeof key, cost, now_ns, &d) == 0);
	if (d.charged_ns)
		taken = d;
	require(d.remaining <= d.limit && d.charged_ns <= INT64_MAX);
}

/* Bans a key, grants more to it, or resets it. */
static void apply_override(struct weir_table *table, unsigned limit, unsigned key, unsigned what,
			   uint64_t now_ns)
{
	const struct weir_limit *of = &limits[limit % LIMITS];
	struct wr_key hashed = wr_hash_key(table->secret, &key, sizeof key, of->checked);
	uint32_t now_s = wr_seconds(now_ns), until_s = what & 4 ? now_s + what : 0;
	struct wr_override_change change = {
		.ban = what & 1, .grant = what & 2, .to = {until_s, until_s, what}};
	struct wr_table_text_note text;

	if ((what & 3) == 0) {
		wr_store_reset(table, of, hashed, now_ns);
		return;
	}
	if (wr_override_any(wr_override_change(table, hashed, of->algorithm, &change, now_s))) {
		wr_note_text(&text, &what, sizeof what, &key, sizeof key, now_s);
		wr_note_write(table, hashed, &text, now_s);
	} else {
		wr_note_forget(table, hashed);
	}
	wr_pause_add(table, what | 1);
	wr_pause_drop(table, key | 1);
}

static int list_one(void *context, struct wr_key key, struct wr_override override)
{
	struct wr_table_text_note text;

	require(wr_override_any(override));
	if (wr_note_read(context, key, &text))
		require(text.rule_len <= WR_NOTE_TEXT && text.key_len <= WR_NOTE_TEXT);
	return 0;
}

static void read_image(void)
{
	FILE *file = fopen(path_of("t.v2"), "rb");

	require(file != NULL);
	fseek(file, 0, SEEK_END);
	image_bytes = (size_t)ftell(file);
	rewind(file);
	image = malloc(image_bytes);
	require(fread(image, 1, image_bytes, file) == image_bytes);
	fclose(file);
	memcpy(&good, image, sizeof good);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	struct weir_opts opts = options(0);
	struct weir_table *table;

	(void)argc;
	(void)argv;
	require(mkdtemp(dir) != NULL);
	fork_cleaner();
	choose_limits();
	require(weir_open(&opts, &table, NULL) == 0);
	for (unsigned i = 0; i < 900; i++)
		take_or_return(table, i, i / LIMITS % 20, 1, T0);
	for (unsigned i = 0; i < 90; i++)
		apply_override(table, i, i / LIMITS * 2, i % 8, T0);
	weir_close(table);
	read_image();
	return 0;
}

struct input {
	const uint8_t *at;
	size_t left;
};

static uint64_t next_number(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	bytes = bytes < in->left ? bytes : in->left;
	memcpy(&value, in->at, bytes);
	in->at += bytes;
	in->left -= bytes;
	return value;
}

/* Applies a patch to the header or to a section with state. */
static void apply_patch(struct input *in, uint8_t *file)
{
	static const int sections[] = {WR_SECTION_KEYS, WR_SECTION_KEYS, WR_SECTION_SPANS,
				       WR_SECTION_SLAB, WR_SECTION_SLAB, WR_SECTION_OVERRIDES};
	unsigned which = (unsigned)next_number(in, 1) % 8;
	uint64_t offset = next_number(in, 2), len = next_number(in, 1) % 40, start = 0,
		 room = sizeof good;

	if (which == 6) {
		start = WR_PAGE;
		room = sizeof(struct wr_tallies);
	} else if (which < 6) {
		start = good.sections[sections[which]].offset;
		room = good.sections[sections[which]].bytes;
	}
	offset %= room;
	for (uint64_t i = 0; i < len && offset + i < room && in->left; i++)
		file[start + offset + i] = (uint8_t)next_number(in, 1);
}

/* Writes the patched file, with a valid checksum of the header or without. */
static void write_file(struct input *in)
{
	int fd = open(path_of("t.v2"), O_RDWR | O_CREAT, 0600);
	unsigned patches = (unsigned)next_number(in, 1) % PATCHES;
	int forge = (int)next_number(in, 1) & 1;
	uint8_t *file;

	require(fd >= 0 && ftruncate(fd, (off_t)image_bytes) == 0);
	file = mmap(NULL, image_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	require(file != MAP_FAILED);
	memcpy(file, image, image_bytes);
	while (patches--)
		apply_patch(in, file);
	if (forge) {
		struct wr_header *header = (struct wr_header *)file;

		header->checksum = XXH3_64bits(header, offsetof(struct wr_header, checksum));
	}
	munmap(file, image_bytes);
	close(fd);
}

static void take_all(struct weir_table *table, struct input *in, uint64_t now_ns)
{
	struct weir_need needs[4];
	struct weir_decision d[4];
	unsigned keys[4];
	int admitted;

	for (int i = 0; i < 4; i++) {
		keys[i] = (unsigned)next_number(in, 1) % 40;
		needs[i] = (struct weir_need){&limits[next_number(in, 1) % LIMITS], &keys[i],
					      sizeof keys[i], (int64_t)(next_number(in, 1) % 8)};
	}
	require(weir_take_all(table, needs, 4, now_ns, d, &admitted) == 0);
}

static void run_operations(struct weir_table *table, struct input *in)
{
	uint64_t now_ns = T0;
	struct weir_info info = {.size = sizeof info};

	for (int i = 0; i < 200 && in->left; i++) {
		unsigned what = (unsigned)next_number(in, 1);

		now_ns = T0 + (next_number(in, 2) << (what >> 4) * 2);
		switch (what & 15) {
		case 0:
			take_all(table, in, now_ns);
			break;
		case 1:
			require(weir_info(table, now_ns, &info) == 0);
			wr_overrides_each(table, wr_seconds(now_ns), list_one, table);
			break;
		case 2:
		case 3:
			apply_override(table, (unsigned)next_number(in, 1),
				       (unsigned)next_number(in, 1) % 40,
				       (unsigned)next_number(in, 1), now_ns);
			break;
		default:
			take_or_return(table, what & 15, (unsigned)next_number(in, 1) % 40,
				       (int8_t)next_number(in, 1), now_ns);
		}
	}
}

/* Saves and resizes the table. Limits the size of files, because a forged header may request a
 * terabyte. */
static void save_and_resize(struct weir_table *table)
{
	struct rlimit files = {64 << 20, 64 << 20};
	struct weir_opts opts = options(0);

	signal(SIGXFSZ, SIG_IGN);
	require(setrlimit(RLIMIT_FSIZE, &files) == 0);
	opts.memory_bytes = 512 << 10;
	weir_checkpoint(table, path_of("saved"), T0, NULL);
	weir_resize(&opts, T0, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct weir_opts opts = options(WEIR_OPEN_EXISTING);
	struct input in = {data, size};
	struct weir_error error = {0};
	struct weir_table *table;
	int wants_carry = (int)next_number(&in, 1) % 8 == 0;

	write_file(&in);
	if (weir_open(&opts, &table, &error) < 0) {
		require(error.code < 0 && error.text[0] != 0);
		return 0;
	}
	run_operations(table, &in);
	if (wants_carry)
		save_and_resize(table);
	weir_close(table);
	return 0;
}
