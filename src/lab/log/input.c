/* Reads files and standard input. The bytes of plain files go to the caller's memory directly. */
#include "lab/log/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "lab/log/example.h"
#include "lab/log/unpack.h"

/* The byte order mark that some programs write at the start of a text. */
#define BOM "\xef\xbb\xbf"
#define BOM_BYTES (sizeof BOM - 1)
#define IN_BYTES ((size_t)128 << 10)

struct wr_lab_input {
	int fd;
	bool ended;   /* read() has returned 0 or an error */
	bool returns; /* the lines end with carriage returns */
	const char *damage;
	uint64_t bytes;                   /* bytes that read() has returned */
	struct wr_lab_unpacker *unpacker; /* NULL: a plain file */
	char *peeked;                     /* the first bytes, until they are read again; or NULL */
	size_t peeked_at, peeked_end;
	size_t in_at, in_end; /* the unread bytes of `in` */
	uint8_t in[IN_BYTES];
};

/* Reads once. After an error or the end of the file it returns 0. */
static size_t read_some(struct wr_lab_input *input, void *to, size_t room)
{
	ssize_t got;

	if (input->ended)
		return 0;
	do
		got = read(input->fd, to, room);
	while (got < 0 && errno == EINTR);
	if (got <= 0)
		input->ended = true;
	if (got < 0) {
		input->damage = errno == EISDIR ? "it is a directory" : "the disk reports an error";
		return 0;
	}
	input->bytes += (uint64_t)got;
	return (size_t)got;
}

/* Fills `in` when all of its bytes are used. */
static void fill_in(struct wr_lab_input *input)
{
	if (input->in_at < input->in_end)
		return;
	input->in_at = 0;
	input->in_end = read_some(input, input->in, IN_BYTES);
}

/* Reads the first bytes and recognises the packing. */
static bool start(struct wr_lab_input *input)
{
	enum wr_lab_packing packing;
	size_t got;

	do {
		got = read_some(input, input->in + input->in_end, IN_BYTES - input->in_end);
		input->in_end += got;
	} while (got && input->in_end < WR_LAB_MAGIC_BYTES);
	packing = wr_lab_packing_of(input->in, input->in_end);
	if (packing == WR_LAB_PLAIN)
		return true;
	input->unpacker = wr_lab_unpacker_new(packing);
	return input->unpacker != NULL;
}

int wr_lab_input_open(const char *path, struct wr_lab_input **input, struct weir_error *error)
{
	bool standard = strcmp(path, "-") == 0;
	int fd = standard ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return wr_error_errno(error, WEIR_ESYS, "cannot read %s",
				      wr_lab_show_path(path).text);
	*input = malloc(sizeof **input);
	if (!*input) {
		close(fd);
		return wr_error(error, WEIR_EMEMORY, "no memory to read %s",
				wr_lab_show_path(path).text);
	}
	memset(*input, 0, offsetof(struct wr_lab_input, in));
	(*input)->fd = fd;
	if (!start(*input)) {
		wr_lab_input_close(*input);
		return wr_error(error, WEIR_EMEMORY, "no memory to decompress %s",
				wr_lab_show_path(path).text);
	}
	return 0;
}

static size_t read_plain(struct wr_lab_input *input, char *to, size_t room)
{
	size_t ready = input->in_end - input->in_at;

	if (ready == 0)
		return read_some(input, to, room);
	ready = ready < room ? ready : room;
	memcpy(to, input->in + input->in_at, ready);
	input->in_at += ready;
	return ready;
}

static size_t read_packed(struct wr_lab_input *input, char *to, size_t room)
{
	struct wr_lab_unpack_step step = {.out = to, .out_len = room};

	while (step.out == to && !input->damage) {
		size_t before;

		fill_in(input);
		before = input->in_end - input->in_at;
		step.in = input->in + input->in_at;
		step.in_len = before;
		step.in_ends = input->ended;
		input->damage = wr_lab_unpack(input->unpacker, &step);
		input->in_at = input->in_end - step.in_len;
		if (step.in_len == before && step.out == to && input->ended)
			break;
	}
	return (size_t)(step.out - to);
}

static void end_lines(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\r')
			text[i] = '\n';
}

static size_t read_on(struct wr_lab_input *input, char *to, size_t room)
{
	size_t got = input->unpacker ? read_packed(input, to, room) : read_plain(input, to, room);

	if (input->returns)
		end_lines(to, got);
	return got;
}

const char *wr_lab_input_peek(struct wr_lab_input *input, size_t *len)
{
	size_t got;

	if (!input->peeked) {
		input->peeked = malloc(WR_LAB_PEEK_BYTES);
		if (!input->peeked)
			return NULL;
		do {
			got = read_on(input, input->peeked + input->peeked_end,
				      WR_LAB_PEEK_BYTES - input->peeked_end);
			input->peeked_end += got;
		} while (got && input->peeked_end < WR_LAB_PEEK_BYTES);
		if (input->peeked_end >= BOM_BYTES && memcmp(input->peeked, BOM, BOM_BYTES) == 0)
			input->peeked_at = BOM_BYTES;
		input->returns = memchr(input->peeked, '\r', input->peeked_end) &&
				 !memchr(input->peeked, '\n', input->peeked_end);
		if (input->returns)
			end_lines(input->peeked, input->peeked_end);
	}
	*len = input->peeked_end - input->peeked_at;
	return input->peeked + input->peeked_at;
}

size_t wr_lab_input_read(struct wr_lab_input *input, char *to, size_t room)
{
	size_t ready = input->peeked_end - input->peeked_at;

	if (ready == 0)
		return read_on(input, to, room);
	ready = ready < room ? ready : room;
	memcpy(to, input->peeked + input->peeked_at, ready);
	input->peeked_at += ready;
	if (input->peeked_at == input->peeked_end) {
		free(input->peeked);
		input->peeked = NULL;
	}
	return ready;
}

const char *wr_lab_input_damage(const struct wr_lab_input *input)
{
	return input->damage;
}

uint64_t wr_lab_input_bytes(const struct wr_lab_input *input)
{
	return input->bytes;
}

void wr_lab_input_stat(const struct wr_lab_input *input, uint64_t *bytes, bool *again)
{
	struct stat st;

	*again = fstat(input->fd, &st) == 0 && S_ISREG(st.st_mode);
	*bytes = *again ? (uint64_t)st.st_size : 0;
}

void wr_lab_input_close(struct wr_lab_input *input)
{
	if (!input)
		return;
	wr_lab_unpacker_free(input->unpacker);
	free(input->peeked);
	close(input->fd);
	free(input);
}
