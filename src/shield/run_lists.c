/* Keeps the rules and the lists of protected addresses of a running shield up to date. Called by run.c. */
#include <paths.h>
#include <string.h>

#include "base/error.h"
#include "net/log.h"
#include "shield/lists.h"
#include "shield/machine.h"
#include "shield/run_impl.h"

#define SSH_MS 10000 /* interval of looking for SSH connections if no ban is new */

/* Replaces the list of a kind, and notes if it differs. */
static void replace_list(struct wr_nft_shield *shield, enum wr_protect_kind kind,
			 struct wr_protect_list *list)
{
	if (wr_protect_replace(&shield->protect, kind, list)) {
		shield->protect_differs = true;
		shield->replan = true;
	}
}

/* Takes over the rules. The bans that they suspend may differ, although the addresses are the
 * same. */
static void replace_rules(struct wr_nft_shield *shield, struct weir_rules *rules)
{
	weir_rules_free(shield->rules);
	shield->rules = rules;
	shield->replan = true;
}

/* Reads the rules, and the addresses of `allow: true` in them. Returns 0 or an error. */
static int read_rules(struct wr_nft_shield *shield, struct weir_error *error)
{
	struct wr_protect_list list = {0};
	struct weir_rules *rules;
	int rc;

	if (!shield->settings->rules)
		return 0;
	rc = wr_nft_load_rules(shield->settings->rules, &rules, error);
	if (rc < 0)
		return rc;
	rc = wr_protect_read_rules(rules, &list) ? 0
						 : wr_error(error, WEIR_EMEMORY, "out of memory");
	if (rc == 0) {
		replace_list(shield, WR_PROTECT_RULES, &list);
		replace_rules(shield, rules);
	} else {
		weir_rules_free(rules);
	}
	wr_protect_list_free(&list);
	return rc;
}

static int read_never(struct wr_nft_shield *shield, struct weir_error *error)
{
	struct wr_protect_list list = {0};
	int rc = wr_protect_read_option(&shield->settings->never, "--never", true, &list, error);

	if (rc == 0)
		replace_list(shield, WR_PROTECT_NEVER, &list);
	wr_protect_list_free(&list);
	return rc;
}

static int read_own(struct wr_nft_shield *shield, struct weir_error *error)
{
	struct wr_protect_list list = {0};
	int rc = wr_protect_read_own(&list, error);

	if (rc == 0)
		replace_list(shield, WR_PROTECT_OWN, &list);
	wr_protect_list_free(&list);
	return rc;
}

/* Reads the addresses of users who have logged in with SSH. The user who started the shield may
 * have no session in utmp. */
static int read_logins(const struct wr_nft_settings *settings, struct wr_protect_list *logins,
		       struct weir_error *error)
{
	const struct wr_address *client = &settings->ssh_client;
	int rc = wr_ssh_read_logins(_PATH_UTMP, logins, error);

	if (rc == 0 && settings->has_ssh_client &&
	    !wr_protect_list_add(logins, &(struct wr_address_range){*client, *client}))
		rc = wr_error(error, WEIR_EMEMORY, "out of memory");
	return rc;
}

static int read_ssh(struct wr_nft_shield *shield, struct weir_error *error)
{
	const struct wr_nft_settings *settings = shield->settings;
	struct wr_protect_list logins = {0}, list = {0};
	int rc = read_logins(settings, &logins, error);

	if (rc == 0)
		rc = wr_protect_read_ssh(&settings->ssh_ports, &logins, &list, error);
	wr_protect_list_free(&logins);
	if (rc == 0)
		replace_list(shield, WR_PROTECT_SSH, &list);
	wr_protect_list_free(&list);
	shield->ssh_ms = wr_nft_mono_ms() + SSH_MS;
	return rc;
}

int wr_nft_lists_read(struct wr_nft_shield *shield, struct weir_error *error)
{
	struct wr_protect_list trust = {0};
	int rc;

	if (!wr_protect_init(&shield->protect))
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	rc = wr_protect_read_option(&shield->settings->trust, "--trust", false, &trust, error);
	if (rc == 0)
		replace_list(shield, WR_PROTECT_TRUST, &trust);
	wr_protect_list_free(&trust);
	shield->never_stamp = wr_protect_stamp(&shield->settings->never);
	if (shield->settings->rules)
		shield->rules_stamp = weir_rules_fingerprint(shield->settings->rules);
	rc = rc < 0 ? rc : read_never(shield, error);
	rc = rc < 0 ? rc : read_rules(shield, error);
	rc = rc < 0 ? rc : read_own(shield, error);
	return rc < 0 ? rc : read_ssh(shield, error);
}

static void warn_if(int rc, const struct weir_error *error)
{
	if (rc < 0)
		wr_log(WR_LOG_WARN, "%s; the former list stays in force", error->text);
}

void wr_nft_lists_look_ssh(struct wr_nft_shield *shield)
{
	struct weir_error error;

	warn_if(read_ssh(shield, &error), &error);
}

void wr_nft_lists_look(struct wr_nft_shield *shield, bool all)
{
	struct weir_error error;
	const char *rules = shield->settings->rules;
	uint64_t never = wr_protect_stamp(&shield->settings->never);
	uint64_t stamp = rules ? weir_rules_fingerprint(rules) : 0;

	if (all || never != shield->never_stamp)
		warn_if(read_never(shield, &error), &error);
	if (all || stamp != shield->rules_stamp)
		warn_if(read_rules(shield, &error), &error);
	shield->never_stamp = never;
	shield->rules_stamp = stamp;
	warn_if(read_own(shield, &error), &error);
	if (all || wr_nft_mono_ms() >= shield->ssh_ms)
		warn_if(read_ssh(shield, &error), &error);
}
