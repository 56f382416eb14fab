/* Asks for the table and its rules over netlink; see rules_count.h. */
#include "shield/rules_count.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"

#define TABLE "weir"
#define ANSWER_BYTES 32768 /* more than one part of the kernel's answer */
#define WAIT_S 1           /* longest wait for a part of the answer */

#define MESSAGE(type) (NFNL_SUBSYS_NFTABLES << 8 | (type))

/* The question: the table, or all rules of the table. */
struct question {
	struct nlmsghdr head;
	struct nfgenmsg family;
	struct nlattr attribute;
	char table[NLA_ALIGN(sizeof TABLE)];
};

_Static_assert((int)NFTA_RULE_TABLE == (int)NFTA_TABLE_NAME, "the attribute of both questions");

static int ask(int fd, unsigned type, unsigned flags)
{
	struct question question = {
		.head = {.nlmsg_len = sizeof question,
			 .nlmsg_type = (uint16_t)MESSAGE(type),
			 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)},
		.family = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0},
		.attribute = {.nla_len = NLA_HDRLEN + sizeof TABLE, .nla_type = NFTA_RULE_TABLE},
		.table = TABLE,
	};
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct timeval wait = {.tv_sec = WAIT_S};

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0)
		return -1;
	return sendto(fd, &question, sizeof question, 0, (struct sockaddr *)&kernel,
		      sizeof kernel) == (ssize_t)sizeof question
		       ? 0
		       : -1;
}

/* Counts the rules in a part of the answer. Returns 1 after the last part, 0 if more parts follow,
 * or -1 with errno. */
static int count_part(struct nlmsghdr *part, size_t len, unsigned *count)
{
	for (; NLMSG_OK(part, len); part = NLMSG_NEXT(part, len)) {
		if (part->nlmsg_flags & NLM_F_DUMP_INTR) { /* the rules changed meanwhile */
			errno = EINTR;
			return -1;
		}
		if (part->nlmsg_type == NLMSG_DONE)
			return 1;
		if (part->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *failure = NLMSG_DATA(part);

			errno = part->nlmsg_len >= NLMSG_LENGTH(sizeof *failure) ? -failure->error
										 : EPROTO;
			return -1;
		}
		if (part->nlmsg_type == MESSAGE(NFT_MSG_NEWRULE))
			(*count)++;
	}
	return 0;
}

static int read_answer(int fd, unsigned *count)
{
	static _Alignas(struct nlmsghdr) char answer[ANSWER_BYTES];
	int rc = 0;

	while (rc == 0) {
		ssize_t len = recv(fd, answer, sizeof answer, 0);

		if (len < 0)
			return -1;
		rc = count_part((struct nlmsghdr *)(void *)answer, (size_t)len, count);
	}
	return rc;
}

/* Returns 0, or -1 with errno. EINTR: the rules changed while the kernel listed them. */
static int count_once(unsigned *count)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	int rc, saved;

	*count = 0;
	if (fd < 0)
		return -1;
	rc = ask(fd, NFT_MSG_GETRULE, NLM_F_DUMP);
	rc = rc < 0 ? rc : read_answer(fd, count);
	saved = errno;
	close(fd);
	errno = saved;
	return rc < 0 ? -1 : 0;
}

int wr_nft_rules_count(unsigned *count, struct weir_error *error)
{
	for (unsigned tries = 0; tries < 3; tries++) {
		if (count_once(count) == 0)
			return 0;
		if (errno != EINTR)
			break;
	}
	return wr_error_errno(error, WEIR_ESYS, "cannot count the rules of nftables");
}

bool wr_nft_table_exists(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	_Alignas(struct nlmsghdr) char answer[1024];
	const struct nlmsghdr *head = (const struct nlmsghdr *)(void *)answer;
	ssize_t len = -1;

	if (fd >= 0 && ask(fd, NFT_MSG_GETTABLE, 0) == 0)
		len = recv(fd, answer, sizeof answer, 0);
	if (fd >= 0)
		close(fd);
	return len >= (ssize_t)sizeof *head && head->nlmsg_type == MESSAGE(NFT_MSG_NEWTABLE);
}
