/* weir top in a terminal: draws the page, reads the keyboard, and finally restores the terminal. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/watch/top.h"

/* ENTER switches to the alternate screen, hides the cursor and disables line wrap. */
#define ENTER "\x1b[?1049h\x1b[?25l\x1b[?7l"
#define LEAVE "\x1b[?7h\x1b[?25h\x1b[?1049l"
#define KEYS_SHOWN 8u
#define LINES_BESIDE                                                                               \
	4u /* number of lines between the parts of the page: a blank line and three titles */
#define ESCAPE_MS 25 /* time to wait after ESC for the rest of an arrow key */

static struct termios saved;
static volatile sig_atomic_t end_requested;

static void on_end(int number)
{
	(void)number;
	end_requested = 1;
}

/* Handles a change of the window size: the signal interrupts the wait for the keyboard, and the
 * next drawing reads the new size. */
static void on_resize(int number)
{
	(void)number;
}

/* ---- the terminal ---- */

static void write_all(const char *text, size_t len)
{
	while (len) {
		ssize_t done = write(STDOUT_FILENO, text, len);

		if (done < 0 && errno != EINTR)
			return;
		text += done > 0 ? done : 0;
		len -= done > 0 ? (size_t)done : 0;
	}
}

static int enter_screen(void)
{
	struct sigaction end = {.sa_handler = on_end}, resize = {.sa_handler = on_resize};
	struct termios raw;

	if (tcgetattr(STDIN_FILENO, &saved) < 0)
		return -1;
	raw = saved;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	/* Ctrl-Z is disabled, because it would leave the alternate screen active. */
	raw.c_cc[VSUSP] = _POSIX_VDISABLE;
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	sigaction(SIGWINCH, &resize, NULL);
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw) < 0)
		return -1;
	write_all(ENTER, sizeof ENTER - 1);
	return 0;
}

static void leave_screen(void)
{
	write_all(LEAVE, sizeof LEAVE - 1);
	tcsetattr(STDIN_FILENO, TCSAFLUSH, &saved);
}

/* ---- drawing ---- */

/* Divides the lines of the terminal between the list of rules and the list of keys. `head` is the
 * number of lines above the list of rules. The list of rules gets all lines that nothing else
 * needs, but at least three lines. Scrolls so that the chosen rule is visible. */
static void fit_rules(const struct wr_cli_watch *watch, struct wr_cli_top_look *look, size_t lines,
		      size_t head)
{
	size_t keys = lines > head + LINES_BESIDE + KEYS_SHOWN + 6 ? KEYS_SHOWN : 3;
	size_t beside = head + LINES_BESIDE + keys + 1;

	if (look->chosen < watch->rule_count && watch->rules[look->chosen].cost.size)
		beside += WR_CLI_TOP_COST_LINES;
	if (look->chosen < watch->rule_count && watch->rules[look->chosen].bans.size)
		beside += WR_CLI_TOP_BAN_LINES;
	look->keys = keys;
	look->rules = lines > beside + 3 ? lines - beside : 3;
	look->detail = 1;
	if (look->chosen >= watch->rule_count)
		look->chosen = watch->rule_count ? watch->rule_count - 1 : 0;
	if (look->chosen < look->first)
		look->first = look->chosen;
	if (look->chosen >= look->first + look->rules)
		look->first = look->chosen - look->rules + 1;
}

/* Returns the number of bytes of the line that fit into `columns`. A longer line has to be cut,
 * because the terminal would write each further character over the last column. The character that
 * stays there could look like the last digit of a number. */
static size_t count_fitting(const char *line, size_t len, size_t columns)
{
	size_t at = 0;

	while (at < len) {
		size_t bytes = wr_utf8_len(line + at, len - at);
		int width = bytes ? wcwidth((wchar_t)wr_utf8_point(line + at, bytes)) : 1;

		if (line[at] == '\x1b') { /* a colour, which ends with the letter m */
			bytes = strcspn(line + at, "m\n") + 1;
			width = 0;
		}
		if (width > 0 && (size_t)width > columns)
			break;
		columns -= width > 0 ? (size_t)width : 0;
		at += bytes ? bytes : 1;
	}
	return at < len ? at : len;
}

/* Draws the lines of the page that the terminal has room for. */
static void draw_page(const struct wr_buf *page, size_t lines, size_t columns)
{
	struct wr_buf out;
	size_t at = 0, line = 0;

	wr_buf_init(&out, WR_CLI_TOP_PAGE);
	wr_buf_printf(&out, "\x1b[H");
	for (; line < lines && at < page->len; line++) {
		const char *end = memchr(page->ptr + at, '\n', page->len - at);
		size_t len = end ? (size_t)(end - page->ptr) - at : page->len - at;

		wr_buf_printf(&out, "%s\x1b[2K%.*s\x1b[0m", line ? "\r\n" : "",
			      (int)count_fitting(page->ptr + at, len, columns), page->ptr + at);
		at += len + 1;
	}
	if (line < lines)
		wr_buf_printf(&out, "\r\n\x1b[J");
	if (wr_buf_failed(&out))
		abort();
	write_all(out.ptr, out.len);
	wr_buf_free(&out);
}

static void show_rules(const struct wr_cli_watch *watch, struct wr_cli_top_look *look,
		       struct wr_buf *page)
{
	struct winsize size = {0};
	size_t head = 4;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		size = (struct winsize){.ws_row = 24, .ws_col = 80};
	look->columns = size.ws_col;
	/* The page is written twice. The first time finds the number of lines above the list of
	 * rules, and the second time uses this number. */
	for (int i = 0; i < 2; i++) {
		fit_rules(watch, look, size.ws_row, head);
		wr_cli_top_write(watch, look, page);
		head = 0;
		for (const char *p = page->ptr; (p = strchr(p, '\n')) && p[1] != '\n'; p++)
			head++;
		head++;
	}
	draw_page(page, size.ws_row, look->columns);
}

/* ---- keys ---- */

struct keyboard {
	bool quit, held;
	int move; /* number of rows to move down */
};

static int read_byte(int wait_ms)
{
	struct pollfd in = {STDIN_FILENO, POLLIN, 0};
	unsigned char byte;

	if (poll(&in, 1, wait_ms) <= 0 || read(STDIN_FILENO, &byte, 1) != 1)
		return -1;
	return byte;
}

/* Reads the rest of an arrow key or page key: ESC [ A, ESC [ 5 ~. */
static void read_escape(struct keyboard *keyboard, const struct wr_cli_top_look *look)
{
	int page = (int)look->rules;

	if (read_byte(ESCAPE_MS) != '[')
		return;
	switch (read_byte(ESCAPE_MS)) {
	case 'A':
		keyboard->move--;
		break;
	case 'B':
		keyboard->move++;
		break;
	case '5':
		keyboard->move -= page;
		read_byte(ESCAPE_MS);
		break;
	case '6':
		keyboard->move += page;
		read_byte(ESCAPE_MS);
		break;
	default:
		break;
	}
}

static void handle_key(int key, struct keyboard *keyboard, struct wr_cli_top_look *look)
{
	switch (key) {
	case 'q':
	case 'Q':
		keyboard->quit = true;
		break;
	case 'k':
		keyboard->move--;
		break;
	case 'j':
		keyboard->move++;
		break;
	case ' ':
		keyboard->held = !keyboard->held;
		break;
	case '\x1b':
		read_escape(keyboard, look);
		break;
#define SORT_CASE(name, word, letter)                                                              \
	case letter:                                                                               \
		look->sort = name;                                                                 \
		look->first = look->chosen = 0;                                                    \
		break;
		WR_CLI_TOP_SORTS(SORT_CASE)
#undef SORT_CASE
	default:
		break;
	}
}

static void move_choice(struct keyboard *keyboard, const struct wr_cli_watch *watch,
			struct wr_cli_top_look *look)
{
	int64_t to = (int64_t)look->chosen + keyboard->move;
	int64_t last = watch->rule_count ? (int64_t)watch->rule_count - 1 : 0;

	look->chosen = (size_t)(to < 0 ? 0 : to > last ? last : to);
	keyboard->move = 0;
}

/* ---- running ---- */

static uint64_t mono_ms(void)
{
	return wr_clock_mono_ns() / 1000000;
}

/* Waits until the next update is due or a key is pressed. Returns false if the terminal is
 * closed. */
static bool wait_for_key(uint64_t until_ms, struct keyboard *keyboard, struct wr_cli_top_look *look)
{
	uint64_t now_ms = mono_ms();
	struct pollfd in = {STDIN_FILENO, POLLIN, 0};
	int ready = poll(&in, 1, until_ms > now_ms ? (int)(until_ms - now_ms) : 0);
	int byte;

	if (ready <= 0)
		return ready == 0 || errno == EINTR;
	byte = read_byte(0);
	if (byte < 0)
		return false;
	for (; byte >= 0; byte = read_byte(0))
		handle_key(byte, keyboard, look);
	return true;
}

static int run_screen(struct wr_cli_watch *watch, struct wr_cli_top_look *look, uint64_t every_ms,
		      struct weir_error *error)
{
	struct keyboard keyboard = {0};
	struct wr_buf page;
	uint64_t due_ms = mono_ms() + every_ms;
	int rc = 0;

	wr_buf_init(&page, WR_CLI_TOP_PAGE);
	while (!keyboard.quit && !end_requested && rc == 0) {
		wr_cli_top_sort_rules(watch, look->sort);
		move_choice(&keyboard, watch, look);
		show_rules(watch, look, &page);
		if (!wait_for_key(due_ms, &keyboard, look))
			break;
		if (mono_ms() < due_ms)
			continue;
		due_ms = mono_ms() + every_ms;
		if (!keyboard.held)
			rc = wr_cli_watch_read(watch, error);
	}
	wr_buf_free(&page);
	return rc;
}

int wr_cli_top_live(struct wr_cli_watch *watch, struct wr_cli_top_look *look, uint64_t every_ns)
{
	struct weir_error error = {0};
	int rc;

	if (enter_screen() < 0) {
		perror("weir top: terminal");
		return WR_EXIT_NO;
	}
	rc = run_screen(watch, look, every_ns / 1000000, &error);
	leave_screen();
	return rc < 0 ? wr_cli_fail("top", &error, WR_EXIT_NO) : WR_EXIT_YES;
}
