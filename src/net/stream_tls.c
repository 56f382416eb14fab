/* TLS on a stream. OpenSSL reads and writes memory, and stream.c sends and receives the bytes. */
#include "net/stream_impl.h"

#include <openssl/err.h>

#include "base/assert.h"
#include "net/log.h"
#include "net/listen.h"
#include "net/net.h"
#include "net/tls.h"

#define SEAL_BYTES 16384          /* a TLS record contains at most this many bytes */
#define SEALED_ENOUGH (64u << 10) /* encryption pauses while this many encrypted bytes are unsent */

/* Appends the TLS records that OpenSSL has produced to the encrypted output. If there is no memory,
 * the stage of the stream becomes WR_STREAM_DEAD. */
static void collect_records(struct wr_stream *stream)
{
	BIO *bio = SSL_get_wbio(stream->tls);
	size_t waiting = BIO_ctrl_pending(bio);
	uint8_t *room;
	int n;

	if (waiting == 0)
		return;
	room = wr_output_room(&stream->sealed, &stream->net->blocks, waiting);
	if (!room) {
		stream->stage = WR_STREAM_DEAD;
		return;
	}
	n = BIO_read(bio, room, (int)waiting);
	if (n > 0)
		stream->sealed.tail += (size_t)n;
}

void wr_stream_seal(struct wr_stream *stream)
{
	wr_assert(stream->tls);
	while (stream->stage != WR_STREAM_DEAD && SSL_is_init_finished(stream->tls) &&
	       wr_output_len(&stream->out) > 0 && wr_output_len(&stream->sealed) < SEALED_ENOUGH) {
		size_t len = wr_output_len(&stream->out);
		int n = SSL_write(stream->tls, wr_output_bytes(&stream->out),
				  (int)(len < SEAL_BYTES ? len : SEAL_BYTES));

		if (n <= 0) {
			ERR_clear_error();
			stream->stage = WR_STREAM_DEAD;
			return;
		}
		wr_output_eat(&stream->out, &stream->net->blocks, (size_t)n);
		collect_records(stream);
	}
}

void wr_stream_seal_end(struct wr_stream *stream)
{
	wr_assert(stream->tls && stream->stage == WR_STREAM_CLOSING);
	SSL_shutdown(stream->tls);
	ERR_clear_error();
	collect_records(stream);
}

/* Called after an error of OpenSSL, or when the peer has ended the TLS session. If there was an
 * error and no encrypted output (such as a TLS alert) is left to send, the stream is dead.
 * Otherwise the stream closes when its output has been sent. */
static void handle_failure(struct wr_stream *stream)
{
	static struct wr_log_gate gate;
	int why = SSL_get_error(stream->tls, 0);

	if (stream->stage == WR_STREAM_HANDSHAKE)
		wr_log_limited(&gate, WR_LOG_WARN, "%s at %s: a TLS handshake failed: %s",
			       stream->listener->name, stream->listener->text,
			       wr_tls_failure(stream->tls));
	ERR_clear_error();
	collect_records(stream);
	if (why != SSL_ERROR_ZERO_RETURN && !wr_output_len(&stream->sealed))
		stream->stage = WR_STREAM_DEAD;
	else
		wr_stream_close(stream);
}

static void read_decrypted(struct wr_stream *stream)
{
	uint8_t *data = stream->net->opened;

	while (stream->stage == WR_STREAM_OPEN) {
		int n = SSL_read(stream->tls, data, WR_READ_BYTES);

		if (n > 0) {
			wr_stream_deliver(stream, data, (size_t)n);
			continue;
		}
		if (SSL_get_error(stream->tls, n) != SSL_ERROR_WANT_READ)
			handle_failure(stream);
		break;
	}
}

void wr_stream_unseal(struct wr_stream *stream, const uint8_t *data, size_t len)
{
	wr_assert(stream->tls && len > 0 && len <= WR_READ_BYTES);
	ERR_clear_error();
	if (BIO_write(SSL_get_rbio(stream->tls), data, (int)len) != (int)len) {
		stream->stage = WR_STREAM_DEAD;
		return;
	}
	if (stream->stage == WR_STREAM_HANDSHAKE) {
		int rc = SSL_do_handshake(stream->tls);

		if (rc <= 0 && SSL_get_error(stream->tls, rc) != SSL_ERROR_WANT_READ) {
			handle_failure(stream);
			return;
		}
		if (rc == 1)
			wr_stream_begin(stream);
	}
	read_decrypted(stream);
	collect_records(stream);
	wr_stream_account(stream);
}
