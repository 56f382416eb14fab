/* Assertions that stay on in production. They check conditions that only a bug in this program can
 * break. Input from a network, a file or shared memory is never asserted: bad input is handled as
 * an error. */
#ifndef WR_BASE_ASSERT_H
#define WR_BASE_ASSERT_H

/* If `condition` is false, writes the file, the line and the text of the condition to stderr, and
 * aborts the process. If the condition is true, the cost is a compare and a branch that the
 * processor predicts. */
#define wr_assert(condition)                                                                       \
	do {                                                                                       \
		if (__builtin_expect(!(condition), 0))                                             \
			wr_assert_failed(__FILE__, __LINE__, #condition);                          \
	} while (0)

/* Asserts that `object` points to a live object, whose member `magic` is equal to `number`. Each
 * type has its own number. The member is set when the object is initialized, and cleared before the
 * object is freed. */
#define wr_assert_magic(object, number) wr_assert((object) && (object)->magic == (number))

/* Called by wr_assert() only. */
void wr_assert_failed(const char *file, int line, const char *condition)
	__attribute__((noreturn, cold));

#endif
