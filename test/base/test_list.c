/* Doubly linked list: adding and removing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/list.h"

struct item {
	char name;
	struct wr_list link;
};

static struct item a, b, c, d;

static int reset_items(void **state)
{
	a = (struct item){.name = 'a'};
	b = (struct item){.name = 'b'};
	c = (struct item){.name = 'c'};
	d = (struct item){.name = 'd'};
	(void)state;
	return 0;
}

static char name_of(const struct wr_list *link)
{
	return wr_container_of(link, const struct item, link)->name;
}

/* Compares the names of the items in both directions of the list. */
static void check_names(const struct wr_list *head, const char *names)
{
	char forwards[8] = "", backwards[8] = "";
	size_t count = 0;

	for (const struct wr_list *link = wr_list_first(head); link && count < 7;
	     link = wr_list_after(head, link))
		forwards[count++] = name_of(link);
	for (const struct wr_list *link = head->prev; link != head && count > 0; link = link->prev)
		backwards[--count] = name_of(link);
	assert_string_equal(forwards, names);
	assert_string_equal(backwards, names);
	assert_int_equal(wr_list_is_empty(head), names[0] == '\0');
}

static void links_are_added_at_both_ends_and_between(void **state)
{
	static struct wr_list list;

	wr_list_init(&list);
	check_names(&list, "");
	assert_null(wr_list_first(&list));
	wr_list_add_last(&list, &b.link);
	check_names(&list, "b");
	wr_list_add_first(&list, &a.link);
	wr_list_add_last(&list, &d.link);
	wr_list_add_after(&b.link, &c.link);
	check_names(&list, "abcd");
	assert_ptr_equal(wr_list_first(&list), &a.link);
	assert_ptr_equal(wr_list_after(&list, &a.link), &b.link);
	assert_null(wr_list_after(&list, &d.link));
	(void)state;
}

static void a_removed_link_is_in_no_list(void **state)
{
	static struct wr_list list;

	wr_list_init(&list);
	wr_list_remove(&a.link); /* has no effect, because the link is in no list */
	wr_list_add_last(&list, &a.link);
	wr_list_add_last(&list, &b.link);
	wr_list_add_last(&list, &c.link);
	assert_true(wr_list_holds(&b.link));
	wr_list_remove(&b.link);
	assert_false(wr_list_holds(&b.link));
	check_names(&list, "ac");
	wr_list_remove(&b.link);
	check_names(&list, "ac");
	wr_list_add_first(&list, &b.link);
	check_names(&list, "bac");
	assert_ptr_equal(wr_list_pop(&list), &b.link);
	assert_ptr_equal(wr_list_pop(&list), &a.link);
	assert_ptr_equal(wr_list_pop(&list), &c.link);
	assert_null(wr_list_pop(&list));
	check_names(&list, "");
	(void)state;
}

static void all_links_move_to_another_list(void **state)
{
	static struct wr_list from, to;

	wr_list_init(&from);
	wr_list_init(&to);
	wr_list_move_all(&to, &from);
	check_names(&to, "");
	wr_list_add_last(&from, &c.link);
	wr_list_add_last(&from, &d.link);
	wr_list_add_last(&to, &a.link);
	wr_list_move_all(&to, &from);
	check_names(&to, "acd");
	check_names(&from, "");
	wr_list_add_last(&from, &b.link);
	wr_list_init(&to);
	wr_list_move_all(&to, &from);
	check_names(&to, "b");
	(void)state;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(links_are_added_at_both_ends_and_between, reset_items),
		cmocka_unit_test_setup(a_removed_link_is_in_no_list, reset_items),
		cmocka_unit_test_setup(all_links_move_to_another_list, reset_items),
	};

	return cmocka_run_group_tests_name("base_list", tests, NULL, NULL);
}
