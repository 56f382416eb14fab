/* Recognises requests that a web page made a browser send. The decision port and the admin port
 * refuse such requests.
 *
 * A request of a page of another site is recognised by its Origin, which the browser sends with
 * each POST. Besides, the browser sends JSON only after a preflight request, which weir refuses.
 * With DNS rebinding, the host name of the page resolves to this machine, so for the browser the
 * page and weir are the same site. A request of this page is recognised by its Host: the host name
 * of the page, with the port of the listener. */
#ifndef WR_SERVE_HTTP_PAGE_H
#define WR_SERVE_HTTP_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/rules.h>

/* Returns whether a Host is localhost, an address in 127.0.0.0/8, or [::1], with or without a
 * port. */
bool wr_page_host_is_local(struct weir_str host);

/* Returns whether a browser would send this Host to this port. A Host without a port stands for
 * port 80. */
bool wr_page_host_has_port(struct weir_str host, uint16_t port);

/* Returns whether there is an Origin other than http://HOST and https://HOST. */
bool wr_page_is_foreign(struct weir_str origin, struct weir_str host);

/* Returns whether a Content-Type is application/json, with any parameters. */
bool wr_page_is_json(struct weir_str content_type);

#endif
