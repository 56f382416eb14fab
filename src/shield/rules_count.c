/* Asks for the table, its rules and its owner over netlink; see rules_count.h. */
#include "shield/rules_count.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"

#define TABLE "weir"
#define OWNER "owner"      /* the counter whose comment has the process id of the shield */
#define COMMENT 0          /* type of a comment in the user data of an object */
#define ANSWER_BYTES 32768 /* more than one part of the kernel's answer */
#define WAIT_S 1           /* longest wait for a part of the answer */

#define MESSAGE(type) (NFNL_SUBSYS_NFTABLES << 8 | (type))

/* The question: the table, all rules of the table, or the beginning of a question for an object of
 * the table. */
struct question {
	struct nlmsghdr head;
	struct nfgenmsg family;
	struct nlattr attribute;
	char table[NLA_ALIGN(sizeof TABLE)];
};

_Static_assert((int)NFTA_RULE_TABLE == (int)NFTA_TABLE_NAME &&
		       (int)NFTA_OBJ_TABLE == (int)NFTA_TABLE_NAME,
	       "the attribute of all questions");

struct owner_question {
	struct question table;
	struct nlattr name_head;
	char name[NLA_ALIGN(sizeof OWNER)];
	struct nlattr type_head;
	uint32_t type; /* big-endian */
};

static struct question make_question(unsigned type, unsigned flags, size_t len)
{
	return (struct question){
		.head = {.nlmsg_len = (uint32_t)len,
			 .nlmsg_type = (uint16_t)MESSAGE(type),
			 .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)},
		.family = {.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0},
		.attribute = {.nla_len = NLA_HDRLEN + sizeof TABLE, .nla_type = NFTA_RULE_TABLE},
		.table = TABLE,
	};
}

/* Sends a question, whose length is in its head. */
static int send_question(int fd, const struct nlmsghdr *head)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	struct timeval wait = {.tv_sec = WAIT_S};

	if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) < 0)
		return -1;
	return sendto(fd, head, head->nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof kernel) ==
			       (ssize_t)head->nlmsg_len
		       ? 0
		       : -1;
}

static int ask(int fd, unsigned type, unsigned flags)
{
	struct question question = make_question(type, flags, sizeof question);

	return send_question(fd, &question.head);
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

/* Finds an attribute of a message about nftables. Returns its payload and sets *len, or returns
 * NULL. */
static const char *find_attribute(const struct nlmsghdr *head, unsigned type, size_t *len)
{
	const char *at = (const char *)NLMSG_DATA(head) + NLMSG_ALIGN(sizeof(struct nfgenmsg));
	const char *end = (const char *)head + head->nlmsg_len;
	struct nlattr attribute;

	for (; at + sizeof attribute <= end; at += NLA_ALIGN(attribute.nla_len)) {
		memcpy(&attribute, at, sizeof attribute);
		if (attribute.nla_len < NLA_HDRLEN || attribute.nla_len > end - at)
			return NULL;
		if ((attribute.nla_type & NLA_TYPE_MASK) == type) {
			*len = attribute.nla_len - (size_t)NLA_HDRLEN;
			return at + NLA_HDRLEN;
		}
	}
	return NULL;
}

/* Reads the number in a comment "pid 123". libnftables stores the comment as a byte with its type,
 * a byte with its length, and the text with a zero byte. */
static long read_comment(const char *data, size_t len)
{
	size_t text_len = len > 2 ? (unsigned char)data[1] : 0;

	if (text_len < sizeof "pid " || text_len > len - 2 || data[0] != COMMENT ||
	    data[2 + text_len - 1] != 0 || strncmp(data + 2, "pid ", strlen("pid ")) != 0)
		return 0;
	return strtol(data + 2 + strlen("pid "), NULL, 10);
}

long wr_nft_owner(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
	struct owner_question question = {
		.table = make_question(NFT_MSG_GETOBJ, 0, sizeof question),
		.name_head = {.nla_len = NLA_HDRLEN + sizeof OWNER, .nla_type = NFTA_OBJ_NAME},
		.name = OWNER,
		.type_head = {.nla_len = NLA_HDRLEN + sizeof question.type,
			      .nla_type = NFTA_OBJ_TYPE},
		.type = htonl(NFT_OBJECT_COUNTER),
	};
	_Alignas(struct nlmsghdr) char answer[1024];
	struct nlmsghdr *head = (struct nlmsghdr *)(void *)answer;
	const char *data = NULL;
	ssize_t answer_len = -1;
	size_t len;

	if (fd >= 0 && send_question(fd, &question.table.head) == 0)
		answer_len = recv(fd, answer, sizeof answer, 0);
	if (fd >= 0)
		close(fd);
	if (answer_len > 0 && NLMSG_OK(head, (size_t)answer_len) &&
	    head->nlmsg_type == MESSAGE(NFT_MSG_NEWOBJ))
		data = find_attribute(head, NFTA_OBJ_USERDATA, &len);
	return data ? read_comment(data, len) : 0;
}
