/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_console.c: the guest's console: console.log in the box's folder, the tail in memory for
 * errors, and the watch for a kernel panic.
 *
 * A guest can print without end, so the file has a bound: when it is full it starts again with the
 * tail. A panic is told by the console long before the engine ends (or although it never does):
 * "Kernel panic - not syncing: REASON" at the beginning of a line, behind the kernel's time stamp
 * if it has one. A program in the guest cannot reach this console; and if the guest lies here, it
 * ends its own box.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/io.h"
#include "box/shim.h"

#define LOG_MAX (256u << 10)
static const char panic_mark[] = "Kernel panic - not syncing: ";

int bx_shim_console_open(struct bx_shim_console *c, int box_fd)
{
    c->tail = (struct bx_buf)BX_BUF_INIT(BX_SHIM_TAIL);
    c->fd =
        openat(box_fd, "console.log", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    return c->fd < 0 ? -errno : 0;
}

void bx_shim_console_done(struct bx_shim_console *c)
{
    bx_close(&c->fd);
    bx_buf_done(&c->tail);
    free(steal_ptr(&c->panic));
}

static void keep(struct bx_shim_console *c, const uint8_t *p, size_t len)
{
    if (c->fd < 0) {
        return;
    }
    if (c->size + len > LOG_MAX) {
        c->size = 0;
        if (ftruncate(c->fd, 0) < 0) {
            return;
        }
        p = bx_buf_data(&c->tail);
        len = c->tail.len;
    }
    if (bx_pwrite_full(c->fd, p, len, (off_t)c->size) == 0) {
        c->size += len;
    }
}

/* Behind "[    1.234567] ", which the kernel prints before its lines. */
static const char *skip_stamp(const char *line)
{
    if (line[0] != '[') {
        return line;
    }
    size_t n = 1 + strspn(line + 1, " 0123456789.");
    return line[n] == ']' && line[n + 1] == ' ' ? line + n + 2 : line;
}

static bool end_line(struct bx_shim_console *c)
{
    c->line[c->line_len] = '\0';
    c->line_len = 0;
    const char *text = skip_stamp(c->line);
    size_t mark = sizeof(panic_mark) - 1;
    if (c->panic || strncmp(text, panic_mark, mark) != 0) {
        return false;
    }
    c->panic = bx_escape(text + mark, strlen(text + mark), 200);
    return c->panic != NULL;
}

bool bx_shim_console_feed(struct bx_shim_console *c, const uint8_t *p, size_t len)
{
    bool panicked = false;
    (void)bx_buf_append_tail(&c->tail, p, len);
    keep(c, p, len);
    for (size_t i = 0; i < len; i++) {
        if (p[i] == '\n') {
            panicked |= end_line(c);
        } else if (p[i] != '\r' && p[i] != '\0' && c->line_len < sizeof(c->line) - 1) {
            c->line[c->line_len++] = (char)p[i];
        }
    }
    return panicked;
}

char *bx_shim_console_last(const struct bx_shim_console *c, unsigned lines)
{
    const char *p = bx_buf_str(&c->tail);
    size_t end = c->tail.len, start;
    while (end > 0 && isspace((unsigned char)p[end - 1])) {
        end--;
    }
    for (start = end; start > 0; start--) {
        if (p[start - 1] == '\n' && lines-- <= 1) {
            break;
        }
    }
    if (start == end) {
        return NULL;
    }
    /* One line for people: line ends become bars, blanks at line starts go. */
    _cleanup_(bx_buf_done) struct bx_buf out = BX_BUF_INIT(2 * BX_SHIM_TAIL);
    for (size_t i = start; i < end; i++) {
        if (p[i] == '\n') {
            (void)bx_buf_appends(&out, " | ");
        } else if (p[i] != '\r') {
            (void)bx_buf_append(&out, &p[i], 1);
        }
    }
    return bx_escape(bx_buf_data(&out), out.len, 1000);
}
