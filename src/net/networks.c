/* Reads lists of networks from options; see networks.h. */
#include "net/networks.h"

#include <netinet/in.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/str.h"

int wr_networks_read(struct wr_networks *networks, const struct wr_text_list *list,
		     const char *flag, struct weir_error *error)
{
	unsigned bits;

	wr_assert(!networks->memory);
	networks->memory = calloc(list->count + 1, sizeof *networks->memory);
	if (!networks->memory)
		return wr_error(error, WEIR_EMEMORY, "out of memory");
	for (size_t i = 0; i < list->count; i++)
		if (wr_address_prefix_parse(wr_str(list->items[i]), &networks->memory[i], &bits) !=
		    WR_ADDRESS_PREFIX_OK)
			return wr_error(error, WEIR_EINVAL,
					"%s '%s' is not a network such as 192.0.2.0/24", flag,
					list->items[i]);
	networks->ranges.items = networks->memory;
	networks->ranges.count = (uint32_t)wr_address_ranges_join(networks->memory, list->count);
	return 0;
}

void wr_networks_free(struct wr_networks *networks)
{
	free(networks->memory);
	*networks = (struct wr_networks){0};
}

bool wr_networks_address(const struct sockaddr *peer, struct wr_address *address)
{
	if (peer && peer->sa_family == AF_INET) {
		const struct sockaddr_in *v4 = (const void *)peer;

		*address = wr_address_from((const uint8_t *)&v4->sin_addr, 4);
		return true;
	}
	if (peer && peer->sa_family == AF_INET6) {
		const struct sockaddr_in6 *v6 = (const void *)peer;

		*address = wr_address_from((const uint8_t *)&v6->sin6_addr, 16);
		return true;
	}
	return false;
}

bool wr_networks_hold(const struct wr_networks *networks, const struct sockaddr *peer)
{
	struct wr_address address;

	return networks->ranges.count && wr_networks_address(peer, &address) &&
	       wr_address_ranges_hold(&networks->ranges, &address);
}
