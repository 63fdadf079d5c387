/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c: see terminal.h. */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>

static struct termios saved;
static bool is_raw;

void cli_terminal_restore(void)
{
    if (is_raw) {
        is_raw = false;
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &saved);
    }
}

int cli_terminal_raw(void)
{
    static bool registered;
    struct termios raw;

    if (!is_raw && tcgetattr(STDIN_FILENO, &saved) < 0) {
        return -errno;
    }
    raw = saved; /* also again, after the program was stopped and the shell had the terminal */
    if (!registered) {
        registered = atexit(cli_terminal_restore) == 0;
    }
    cfmakeraw(&raw);
    if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
        return -errno;
    }
    is_raw = true;
    return 0;
}

void cli_terminal_size(uint16_t *ret_rows, uint16_t *ret_cols)
{
    struct winsize ws;

    *ret_rows = 24;
    *ret_cols = 80;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_row && ws.ws_col) {
            *ret_rows = ws.ws_row;
            *ret_cols = ws.ws_col;
            return;
        }
    }
}

int cli_open_null(void)
{
    return open("/dev/null", O_RDWR | O_CLOEXEC);
}

const char *cli_terminal_type(void)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+._";
    const char *term = getenv("TERM");

    return term && *term && strspn(term, safe) == strlen(term) ? term : "xterm";
}
