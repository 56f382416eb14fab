/* The system calls that the shield may make after its start.
 *
 * A call that is not in the list fails with EPERM, and the process is not killed: another version of
 * the C library or of libnftables may use a call that is missing here. The shield then reports that
 * a change failed and tries again, and the bans in the kernel stay. A killed shield would leave them
 * without supervision. An attacker gains nothing by EPERM, because the call has no effect. */
#include "shield/rights.h"

#include <errno.h>
#include <linux/netlink.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <seccomp.h>

#include "base/error.h"

/* The shield opens files to read them: the table (which is also written), the rules, the files of
 * --never and /proc. */
static const int allowed[] = {
	/* memory and time */
	SCMP_SYS(brk),
	SCMP_SYS(mremap),
	SCMP_SYS(munmap),
	SCMP_SYS(madvise),
	SCMP_SYS(clock_gettime),
	SCMP_SYS(gettimeofday),
	SCMP_SYS(getrandom),
	SCMP_SYS(futex),
	/* files */
	SCMP_SYS(openat),
	SCMP_SYS(open),
	SCMP_SYS(read),
	SCMP_SYS(pread64),
	SCMP_SYS(write),
	SCMP_SYS(writev),
	SCMP_SYS(close),
	SCMP_SYS(lseek),
	SCMP_SYS(fstat),
	SCMP_SYS(stat),
	SCMP_SYS(lstat),
	SCMP_SYS(newfstatat),
	SCMP_SYS(statx),
	SCMP_SYS(getdents64),
	SCMP_SYS(readlink),
	SCMP_SYS(readlinkat),
	SCMP_SYS(access),
	SCMP_SYS(faccessat),
	SCMP_SYS(faccessat2),
	SCMP_SYS(fcntl),
	SCMP_SYS(flock),
	SCMP_SYS(statfs),
	SCMP_SYS(fstatfs),
	/* netlink, on the sockets that socket() below permits */
	SCMP_SYS(bind),
	SCMP_SYS(getsockname),
	SCMP_SYS(setsockopt),
	SCMP_SYS(getsockopt),
	SCMP_SYS(sendto),
	SCMP_SYS(sendmsg),
	SCMP_SYS(recvmsg),
	SCMP_SYS(recvfrom),
	/* the lock of the network namespace */
	SCMP_SYS(accept4),
	/* waiting and the end */
	SCMP_SYS(poll),
	SCMP_SYS(ppoll),
	SCMP_SYS(select),
	SCMP_SYS(pselect6),
	SCMP_SYS(restart_syscall),
	SCMP_SYS(rt_sigaction),
	SCMP_SYS(rt_sigprocmask),
	SCMP_SYS(rt_sigreturn),
	SCMP_SYS(getpid),
	SCMP_SYS(gettid),
	SCMP_SYS(geteuid),
	SCMP_SYS(getuid),
	SCMP_SYS(getegid),
	SCMP_SYS(getgid),
	SCMP_SYS(tgkill),
	SCMP_SYS(exit),
	SCMP_SYS(exit_group),
};

/* Calls that are allowed with certain values of one argument. */
static const struct {
	int call;
	struct scmp_arg_cmp argument; /* number, comparison, and two operands */
} by_argument[] = {
	/* no memory of the process becomes executable */
	{SCMP_SYS(mmap), {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
	{SCMP_SYS(mprotect), {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, 0}},
	{SCMP_SYS(socket), {0, SCMP_CMP_EQ, AF_NETLINK, 0}},
};

static int add_rules(scmp_filter_ctx filter)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < sizeof allowed / sizeof *allowed; i++)
		rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
	for (size_t i = 0; rc == 0 && i < sizeof by_argument / sizeof *by_argument; i++)
		rc = seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, by_argument[i].call, 1,
					    &by_argument[i].argument);
	return rc;
}

int wr_nft_filter_load(struct weir_error *error)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int rc = filter ? add_rules(filter) : -ENOMEM;

	if (rc == 0)
		rc = seccomp_load(filter);
	if (filter)
		seccomp_release(filter);
	errno = -rc;
	return rc == 0 ? 0
		       : wr_error_errno(error, WEIR_ESYS, "cannot load the filter of system calls");
}
