/* syn-flood ADDRESS SECONDS: sends SYN packets to port 80 of the address, as fast as it can, and
 * prints their number. For bench/shield.py, in a network namespace. The packets have a valid
 * checksum: the kernel answers no others with RST. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define BATCH 64

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static uint32_t sum_words(uint32_t sum, const void *data, size_t bytes)
{
	const uint16_t *words = data;

	for (size_t i = 0; i < bytes / 2; i++)
		sum += words[i];
	return sum;
}

/* The checksum of a packet without data: RFC 9293, 3.1. */
static uint16_t checksum(struct in_addr from, struct in_addr to, const struct tcphdr *packet)
{
	const uint16_t pseudo[2] = {htons(IPPROTO_TCP), htons(sizeof *packet)};
	uint32_t sum = 0;

	sum = sum_words(sum, &from, sizeof from);
	sum = sum_words(sum, &to, sizeof to);
	sum = sum_words(sum, pseudo, sizeof pseudo);
	sum = sum_words(sum, packet, sizeof *packet);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

int main(int argc, char **argv)
{
	struct tcphdr packets[BATCH] = {0};
	struct mmsghdr messages[BATCH] = {0};
	struct iovec pieces[BATCH];
	struct sockaddr_in to = {.sin_family = AF_INET}, from = {0};
	socklen_t from_size = sizeof from;
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_TCP);
	unsigned long sent = 0;
	double end_s;

	if (argc != 3 || inet_pton(AF_INET, argv[1], &to.sin_addr) != 1 || fd < 0 ||
	    connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ||
	    getsockname(fd, (struct sockaddr *)&from, &from_size) < 0)
		return 1;
	for (int i = 0; i < BATCH; i++) {
		packets[i].source = htons((uint16_t)(1024 + i));
		packets[i].dest = htons(80);
		packets[i].doff = 5;
		packets[i].syn = 1;
		packets[i].window = htons(64240);
		packets[i].check = checksum(from.sin_addr, to.sin_addr, &packets[i]);
		pieces[i] = (struct iovec){&packets[i], sizeof packets[i]};
		messages[i].msg_hdr = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
	}
	end_s = now_s() + strtod(argv[2], NULL);
	while (now_s() < end_s) {
		int done = sendmmsg(fd, messages, BATCH, 0);

		sent += done > 0 ? (unsigned long)done : 0;
	}
	printf("%lu\n", sent);
	return 0;
}
