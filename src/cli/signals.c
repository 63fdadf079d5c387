/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.c: see signals.h. The handler does two async-signal-safe things: it writes the number into a pipe that never
 * blocks (a full pipe means that the reader has enough to do), and wakes the library.
 */
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

static int pipe_fds[2] = {-1, -1};
static boxlite_runtime *volatile woken;
static volatile sig_atomic_t fatal;

static bool is_fatal(int signo)
{
    return signo == SIGHUP || signo == SIGINT || signo == SIGQUIT || signo == SIGTERM;
}

static void handler(int signo)
{
    int saved = errno;
    unsigned char byte = (unsigned char)signo;

    (void)!write(pipe_fds[1], &byte, 1);
    if (is_fatal(signo)) {
        fatal = signo;
        if (woken) {
            boxlite_runtime_wakeup(woken);
        }
    }
    errno = saved;
}

int cli_signals_catch(void)
{
    static const int caught[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM,
                                 SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
    struct sigaction action = {.sa_handler = handler}, old;

    if (pipe_fds[0] >= 0) {
        return 0;
    }
    if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0) {
        return -errno;
    }
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < CLI_COUNT(caught); i++) {
        if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN) {
            (void)sigaction(caught[i], &action, NULL);
        }
    }
    return 0;
}

int cli_signals_fd(void)
{
    return pipe_fds[0];
}

int cli_signals_take(void)
{
    unsigned char byte;

    return pipe_fds[0] >= 0 && read(pipe_fds[0], &byte, 1) == 1 ? byte : 0;
}

void cli_signals_wake(boxlite_runtime *rt)
{
    woken = rt;
}

int cli_signals_fatal(void)
{
    return fatal;
}
