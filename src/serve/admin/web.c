/* Serves the files of the dashboard, which are built into the program, and GET /v1/session. */
#include "serve/admin/web.h"

#include <pthread.h>

#include <weir/weir.h>

#include "serve/admin/admin.h"

#define UI "/ui/"
#define FRONT "index.html"

/* The Content-Security-Policy of the dashboard: no inline scripts, no resources of other origins,
 * no frames. */
static const char policy[] = "default-src 'none'; script-src 'self'; style-src 'self'; img-src "
			     "'self'; connect-src 'self'; "
			     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/* ---- files ---- */

bool wr_admin_is_page(const char *path)
{
	return strcmp(path, "/") == 0 || strncmp(path, UI, sizeof UI - 1) == 0;
}

static const struct wr_web_file *find_file(const char *name)
{
	for (size_t i = 0; i < wr_web_file_count; i++)
		if (strcmp(wr_web_files[i].name, name) == 0)
			return &wr_web_files[i];
	return NULL;
}

/* Returns whether the value of a header field contains this text. If the text is an ETag, it begins
 * and ends with quotes, so it does not match a part of a longer ETag. */
static bool field_has(const struct wr_serve_http_request *request, const char *field,
		      const char *text)
{
	struct weir_str value = wr_serve_http_field(request, field);

	return value.len && memmem(value.ptr, value.len, text, strlen(text));
}

static void add_header(struct wr_serve_http_response *response, const char *name, const char *value)
{
	wr_serve_http_header(response, wr_str(name), wr_str(value));
}

static void send_file(struct wr_serve_http_request *request, const struct wr_web_file *file)
{
	bool packed = field_has(request, "Accept-Encoding", "gzip");
	const char *tag = packed ? file->packed_tag : file->tag;
	bool known = field_has(request, "If-None-Match", tag);
	const uint8_t *body = packed ? file->packed : file->plain;
	size_t len = packed ? file->packed_len : file->plain_len;
	struct wr_serve_http_response *response = wr_serve_http_response_static(
		(struct weir_str){(const char *)body, known ? 0 : len}, file->content_type);

	if (response) {
		add_header(response, "ETag", tag);
		add_header(response, "Cache-Control", "no-cache");
		add_header(response, "Vary", "Accept-Encoding");
		if (packed && !known)
			add_header(response, "Content-Encoding", "gzip");
		add_header(response, "Content-Security-Policy", policy);
		add_header(response, "X-Frame-Options", "DENY");
		add_header(response, "X-Content-Type-Options", "nosniff");
		add_header(response, "Referrer-Policy", "no-referrer");
		add_header(response, "Cross-Origin-Opener-Policy", "same-origin");
		add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
	}
	wr_serve_http_reply(request, known ? 304 : 200, response);
}

void wr_admin_front(struct wr_serve_http_request *request)
{
	send_file(request, find_file(FRONT));
}

void wr_admin_file(struct wr_serve_http_request *request)
{
	const struct wr_web_file *file = find_file(request->path + sizeof UI - 1);
	struct wr_problem problem;

	if (file) {
		send_file(request, file);
		return;
	}
	wr_problem(&problem, WR_NOT_FOUND, "the dashboard has no such file");
	wr_serve_http_reply_problem(request, &problem);
}

/* ---- the session ---- */

static char page_token[WR_ADMIN_PAGE_TOKEN];

static void make_page_token(void)
{
	wr_admin_random_hex(page_token, sizeof page_token);
}

const char *wr_admin_page_token(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, make_page_token);
	return page_token[0] ? page_token : NULL;
}

static void write_session(struct wr_json_out *json, void *context)
{
	const struct wr_admin *admin = context;
	const char *token = wr_admin_page_token();

	wr_json_object(json);
	wr_json_member_string(json, "version", wr_str(weir_version()));
	wr_json_member_string_or_null(json, "page", wr_str(token ? token : ""));
	wr_json_member_string_or_null(json, "token",
				      wr_str(admin->token_name ? admin->token_name : ""));
	wr_json_end_object(json);
}

void wr_admin_session(struct wr_serve_http_request *request)
{
	wr_admin_reply(request, 200, write_session, request->server->context);
}
