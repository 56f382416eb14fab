/* The field names of nginx, Apache, Caddy, Traefik, Envoy, Zeek and others, in lower case:
 * X(meaning, rank, unit of a duration in ns, name). Included by log_fields.c only. */
#ifndef WR_LAB_LOG_NAMES_H
#define WR_LAB_LOG_NAMES_H

#define WR_LAB_NAMES(X)                                                                            \
	/* exact times before whole seconds, and starts before ends */                             \
	X(TIME, 1, 0, "startutc")                                                                  \
	X(TIME, 2, 0, "startlocal")                                                                \
	X(TIME, 3, 0, "start_time")                                                                \
	X(TIME, 3, 0, "edgestarttimestamp")                                                        \
	X(TIME, 4, 0, "msec")                                                                      \
	X(TIME, 5, 0, "ts")                                                                        \
	X(TIME, 6, 0, "@timestamp")                                                                \
	X(TIME, 7, 0, "timestamp")                                                                 \
	X(TIME, 8, 0, "time_iso8601")                                                              \
	X(TIME, 9, 0, "time_local")                                                                \
	X(TIME, 10, 0, "time")                                                                     \
	X(TIME, 11, 0, "datetime")                                                                 \
	X(TIME, 12, 0, "date")                                                                     \
	X(CLIENT, 1, 0, "client")                                                                  \
	X(CLIENT, 1, 0, "key")                                                                     \
	X(CLIENT, 2, 0, "request.client_ip")                                                       \
	X(CLIENT, 2, 0, "client_ip")                                                               \
	X(CLIENT, 2, 0, "clientip")                                                                \
	X(CLIENT, 2, 0, "client.ip")                                                               \
	X(CLIENT, 2, 0, "clienthost")                                                              \
	X(CLIENT, 3, 0, "request.remote_ip")                                                       \
	X(CLIENT, 3, 0, "remote_addr")                                                             \
	X(CLIENT, 3, 0, "remote_ip")                                                               \
	X(CLIENT, 3, 0, "remote_address")                                                          \
	X(CLIENT, 3, 0, "remoteaddress")                                                           \
	X(CLIENT, 3, 0, "httprequest.remoteip")                                                    \
	X(CLIENT, 4, 0, "clientaddr")                                                              \
	X(CLIENT, 4, 0, "request.remote_addr")                                                     \
	X(CLIENT, 4, 0, "downstream_remote_address_without_port")                                  \
	X(CLIENT, 4, 0, "downstream_remote_address")                                               \
	X(CLIENT, 5, 0, "source.ip")                                                               \
	X(CLIENT, 5, 0, "source_ip")                                                               \
	X(CLIENT, 5, 0, "src_ip")                                                                  \
	X(CLIENT, 5, 0, "id.orig_h")                                                               \
	X(CLIENT, 6, 0, "ip")                                                                      \
	X(CLIENT, 6, 0, "remote")                                                                  \
	X(METHOD, 1, 0, "request_method")                                                          \
	X(METHOD, 1, 0, "request.method")                                                          \
	X(METHOD, 1, 0, "requestmethod")                                                           \
	X(METHOD, 1, 0, "http.request.method")                                                     \
	X(METHOD, 1, 0, "httprequest.requestmethod")                                               \
	X(METHOD, 1, 0, "clientrequestmethod")                                                     \
	X(METHOD, 2, 0, "method")                                                                  \
	X(METHOD, 3, 0, "http_method")                                                             \
	X(METHOD, 3, 0, "verb")                                                                    \
	X(TARGET, 1, 0, "request_uri")                                                             \
	X(TARGET, 1, 0, "request.uri")                                                             \
	X(TARGET, 1, 0, "requestpath")                                                             \
	X(TARGET, 1, 0, "clientrequesturi")                                                        \
	X(TARGET, 1, 0, "httprequest.requesturl")                                                  \
	X(TARGET, 1, 0, "target")                                                                  \
	X(TARGET, 1, 0, "url.original")                                                            \
	X(TARGET, 2, 0, "path")                                                                    \
	X(TARGET, 3, 0, "uri")                                                                     \
	X(TARGET, 3, 0, "url")                                                                     \
	X(TARGET, 4, 0, "request.path")                                                            \
	X(TARGET, 4, 0, "request_path")                                                            \
	X(TARGET, 4, 0, "url.path")                                                                \
	X(QUERY, 1, 0, "query_string")                                                             \
	X(QUERY, 1, 0, "args")                                                                     \
	X(QUERY, 1, 0, "url.query")                                                                \
	X(REQUEST, 1, 0, "request")                                                                \
	X(REQUEST, 1, 0, "request_line")                                                           \
	X(HOST, 1, 0, "request.host")                                                              \
	X(HOST, 1, 0, "requesthost")                                                               \
	X(HOST, 1, 0, "http_host")                                                                 \
	X(HOST, 1, 0, "authority")                                                                 \
	X(HOST, 1, 0, "clientrequesthost")                                                         \
	X(HOST, 2, 0, "host")                                                                      \
	X(HOST, 3, 0, "vhost")                                                                     \
	X(HOST, 3, 0, "server_name")                                                               \
	X(HOST, 3, 0, "url.domain")                                                                \
	X(USER, 1, 0, "remote_user")                                                               \
	X(USER, 1, 0, "clientusername")                                                            \
	X(USER, 2, 0, "user")                                                                      \
	X(USER, 3, 0, "user_id")                                                                   \
	X(USER, 3, 0, "user.name")                                                                 \
	X(STATUS, 1, 0, "downstreamstatus")                                                        \
	X(STATUS, 1, 0, "status")                                                                  \
	X(STATUS, 1, 0, "status_code")                                                             \
	X(STATUS, 1, 0, "response_code")                                                           \
	X(STATUS, 1, 0, "http.response.status_code")                                               \
	X(STATUS, 1, 0, "httprequest.status")                                                      \
	X(STATUS, 1, 0, "edgeresponsestatus")                                                      \
	X(STATUS, 2, 0, "originstatus")                                                            \
	X(STATUS, 3, 0, "code")                                                                    \
	X(BYTES, 1, 0, "downstreamcontentsize")                                                    \
	X(BYTES, 1, 0, "body_bytes_sent")                                                          \
	X(BYTES, 2, 0, "bytes_sent")                                                               \
	X(BYTES, 2, 0, "size")                                                                     \
	X(BYTES, 2, 0, "http.response.body.bytes")                                                 \
	X(BYTES, 2, 0, "edgeresponsebytes")                                                        \
	X(BYTES, 3, 0, "bytes")                                                                    \
	X(DURATION, 1, 0, "duration")                                                              \
	X(DURATION, 1, 1, "duration_ns")                                                           \
	X(DURATION, 1, 1000, "duration_us")                                                        \
	X(DURATION, 1, 1000000, "duration_ms")                                                     \
	X(DURATION, 1, 1000000, "latency_ms")                                                      \
	X(DURATION, 1, 1000000000, "request_time")                                                 \
	X(DURATION, 1, 1, "event.duration")                                                        \
	X(COST, 1, 0, "cost")                                                                      \
	X(COST, 1, 0, "units")                                                                     \
	X(COST, 2, 0, "tokens")                                                                    \
	X(COST, 2, 0, "total_tokens")                                                              \
	X(COST, 3, 0, "contexttokens")                                                             \
	X(COST, 3, 0, "generatedtokens")                                                           \
	X(COST, 3, 0, "input_tokens")                                                              \
	X(COST, 3, 0, "output_tokens")                                                             \
	X(COST, 3, 0, "prompt_tokens")                                                             \
	X(COST, 3, 0, "completion_tokens")

/* Names of header fields: X(name of the field, name of the header field). */
#define WR_LAB_HEADER_NAMES(X)                                                                     \
	X("user_agent", "user-agent")                                                              \
	X("useragent", "user-agent")                                                               \
	X("user_agent.original", "user-agent")                                                     \
	X("httprequest.useragent", "user-agent")                                                   \
	X("clientrequestuseragent", "user-agent")                                                  \
	X("referer", "referer")                                                                    \
	X("referrer", "referer")                                                                   \
	X("httprequest.referer", "referer")                                                        \
	X("clientrequestreferer", "referer")                                                       \
	X("x_request_id", "x-request-id")                                                          \
	X("x_forwarded_for", "x-forwarded-for")

#endif
