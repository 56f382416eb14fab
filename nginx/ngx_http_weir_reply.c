
#include "ngx_http_weir_link.h"


/* Parses replies of "weir serve", in RESP2. */


#define NGX_HTTP_WEIR_REPLY_LINE  512    /* maximum bytes of a RESP line */
#define NGX_HTTP_WEIR_REPLY_BULK  16384  /* maximum bytes of a bulk string */


/*
 * Parses the bytes of a bulk string. Its first line ("$LENGTH") has been parsed
 * already. A null bulk string ("$-1") has no bytes and gets the type '_'.
 */

static ngx_int_t
ngx_http_weir_reply_bulk(u_char *last, ngx_http_weir_part_t *part,
    u_char **end)
{
    ssize_t  len;

    if (part->len == 2 && ngx_strncmp(part->data, "-1", 2) == 0) {
        part->type = '_';
        return NGX_OK;
    }

    len = ngx_atosz(part->data, part->len);

    if (len == NGX_ERROR || len > NGX_HTTP_WEIR_REPLY_BULK) {
        return NGX_ERROR;
    }

    part->data = *end;
    part->len = len;

    if (len + 2 > last - *end) {
        return NGX_AGAIN;
    }

    *end += len + 2;

    return (*end)[-2] == CR && (*end)[-1] == LF ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_weir_reply_part(u_char *p, u_char *last, ngx_http_weir_part_t *part,
    u_char **end)
{
    u_char  *eol;

    eol = ngx_strlchr(p, last, CR);

    if (eol == NULL || eol + 1 == last) {
        return last - p > NGX_HTTP_WEIR_REPLY_LINE ? NGX_ERROR : NGX_AGAIN;
    }

    if (eol[1] != LF || eol == p || eol - p > NGX_HTTP_WEIR_REPLY_LINE) {
        return NGX_ERROR;
    }

    part->type = *p;
    part->data = p + 1;
    part->len = eol - p - 1;
    *end = eol + 2;

    switch (*p) {

    case '+':
    case '-':
    case ':':
    case '_':
    case '*':
        return NGX_OK;

    case '$':
        return ngx_http_weir_reply_bulk(last, part, end);

    default:
        return NGX_ERROR;
    }
}


/*
 * Parses one reply, or an array of up to NGX_HTTP_WEIR_REPLY_PARTS elements.
 * Returns NGX_AGAIN if the reply is incomplete, NGX_ERROR if it is invalid.
 */

ngx_int_t
ngx_http_weir_reply_parse(u_char *p, u_char *last,
    ngx_http_weir_reply_t *reply)
{
    ngx_int_t   rc, n;
    ngx_uint_t  i;

    reply->nparts = 0;

    rc = ngx_http_weir_reply_part(p, last, &reply->head, &reply->end);

    if (rc != NGX_OK || reply->head.type != '*') {
        return rc;
    }

    n = ngx_atoi(reply->head.data, reply->head.len);

    if (n == NGX_ERROR || n > NGX_HTTP_WEIR_REPLY_PARTS) {
        return NGX_ERROR;
    }

    for (i = 0; i < (ngx_uint_t) n; i++) {
        rc = ngx_http_weir_reply_part(reply->end, last, &reply->parts[i],
                                      &reply->end);
        if (rc != NGX_OK) {
            return rc;
        }

        if (reply->parts[i].type == '*') {
            return NGX_ERROR;
        }
    }

    reply->nparts = n;

    return NGX_OK;
}
