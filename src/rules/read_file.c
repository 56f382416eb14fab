/* Reads a whole rule file: the name of its domain, and the descriptors and requests that it adds to
 * that domain. */
#include "rules/read.h"

void wr_read_root(struct wr_load *load, const struct wr_yaml *root)
{
	struct weir_str name = WR_STR("");
	struct wr_node *domain;
	struct wr_fields f;

	if (root->kind != WR_YAML_MAP) {
		const char *problem = "contains a list instead of a map";

		if (root->kind == WR_YAML_TEXT)
			problem = root->text.len ? "contains text instead of a map" : "is empty";
		wr_rules_report(load, WR_D_root_type, root, WR_ARGS(wr_str(problem)));
		return;
	}
	wr_fields_read(load, root, WR_IN_ROOT, WR_STR("a rule file"), &f);
	if (!wr_get_text(load, &f, WR_KEY_DOMAIN, &name) && f.value[WR_KEY_DOMAIN])
		return;
	if (name.len == 0) {
		if (!f.misread || f.key[WR_KEY_DOMAIN])
			wr_rules_report(load, WR_D_empty_domain,
					f.key[WR_KEY_DOMAIN] ? f.key[WR_KEY_DOMAIN] : root, NULL);
		/* The domain has no name. "?" is used instead, so that reading continues and more
		 * errors are reported. */
		name = WR_STR("?");
	}
	domain = wr_node_find(load, NULL, WR_NODE_DOMAIN, name, WR_STR(""));
	if (!domain)
		domain = wr_node_add(load, NULL, WR_NODE_DOMAIN, name, WR_STR(""),
				     f.value[WR_KEY_DOMAIN] ? f.value[WR_KEY_DOMAIN] : root);
	domain->more->file_index = load->file->index;
	wr_read_descriptors(load, &f, domain);
	wr_read_requests(load, &f, domain);
}
