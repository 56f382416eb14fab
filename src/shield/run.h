/* The shield: follows the bans of a table and carries them into the kernel. */
#ifndef WR_SHIELD_RUN_H
#define WR_SHIELD_RUN_H

#include "base/text_list.h"
#include "shield/machine.h"
#include "shield/rights.h"
#include "shield/text.h"

struct wr_nft_settings {
	const char *table_name, *table_dir; /* NULL: the default */
	const char *rules;                  /* path of rule files, or NULL */
	struct wr_text_list trust, never;
	struct wr_ssh_ports ssh_ports;
	struct wr_address ssh_client; /* of the user who started the shield */
	bool has_ssh_client;
	struct wr_nft_design design;
	struct wr_nft_user user;
	bool leave; /* at the end, keep the kernel's table */
};

/* Runs until SIGTERM or SIGINT. SIGHUP reads all lists again. Logs what happens. Returns 0 after a
 * signal, or the error of the start. */
int wr_nft_run_shield(const struct wr_nft_settings *settings, struct weir_error *error);

/* Writes the commands that a shield would run at its start to a buffer, which the caller frees.
 * Changes nothing. Returns 0 or an error. */
int wr_nft_dry_run(const struct wr_nft_settings *settings, struct wr_buf *buf,
		   struct weir_error *error);

#endif
