/* The signals of programs that run until a signal ends them. Used by the service and by the
 * shield. */
#include "base/signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

int wr_signals_open(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC);
}
