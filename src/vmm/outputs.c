/* SPDX-License-Identifier: Apache-2.0 */
/*
 * outputs.c: see outputs.h.
 */
#include "vmm/outputs.h"

#include <errno.h>
#include <fcntl.h>

#include "base/fd.h"
#include "base/io.h"
#include "vmm/console.h"

#define ERRORS_TAIL 4096
#define ERRORS_COPY_MAX 65536 /* bytes of the program's own output that reach the log file */
#define READ_SIZE 16384

void bx_outputs_init(struct bx_outputs *o)
{
    *o = (struct bx_outputs){
        .console_fd = -1,
        .errors_fd = -1,
        .copy_fd = -1,
        .console_tail = BX_BUF_INIT(BX_CONSOLE_TAIL),
        .errors_tail = BX_BUF_INIT(ERRORS_TAIL),
    };
}

/* Reads once. Bytes, 0 if there is nothing more now, -1 at the end. */
static ssize_t read_some(int fd, uint8_t *buf)
{
    ssize_t n = read(fd, buf, READ_SIZE);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    return n > 0 ? n : -1;
}

bool bx_outputs_read_console(struct bx_outputs *o)
{
    uint8_t buf[READ_SIZE];
    ssize_t n = o->console ? read_some(o->console_fd, buf) : 0;

    if (n <= 0) {
        if (n < 0) {
            bx_source_free(steal_ptr(&o->console));
        }
        return false;
    }
    (void)bx_buf_append_tail(&o->console_tail, buf, (size_t)n);
    if (o->on_console) {
        o->on_console(o->data, buf, (size_t)n);
    }
    return true;
}

bool bx_outputs_read_errors(struct bx_outputs *o)
{
    uint8_t buf[READ_SIZE];
    ssize_t n = o->errors ? read_some(o->errors_fd, buf) : 0;

    if (n <= 0) {
        if (n < 0) {
            bx_source_free(steal_ptr(&o->errors));
        }
        return false;
    }
    (void)bx_buf_append_tail(&o->errors_tail, buf, (size_t)n);
    size_t room = ERRORS_COPY_MAX - o->copied;
    size_t len = (size_t)n < room ? (size_t)n : room;
    if (o->copy_fd >= 0 && len > 0 && bx_write_full(o->copy_fd, buf, len) == 0) {
        o->copied += len;
    }
    return true;
}

static void on_console(void *data, uint32_t events)
{
    (void)bx_outputs_read_console(data);
}

static void on_errors(void *data, uint32_t events)
{
    (void)bx_outputs_read_errors(data);
}

int bx_outputs_start(struct bx_outputs *o, struct bx_loop *loop, int console_fd, int errors_fd,
                     int copy_fd)
{
    o->console_fd = console_fd;
    o->errors_fd = errors_fd;
    o->copy_fd = copy_fd >= 0 ? fcntl(copy_fd, F_DUPFD_CLOEXEC, 3) : -1;
    int r = bx_loop_add_fd(loop, console_fd, EPOLLIN, on_console, o, &o->console);
    return r < 0 ? r : bx_loop_add_fd(loop, errors_fd, EPOLLIN, on_errors, o, &o->errors);
}

void bx_outputs_done(struct bx_outputs *o)
{
    bx_source_free(o->console);
    bx_source_free(o->errors);
    bx_close(&o->console_fd);
    bx_close(&o->errors_fd);
    bx_close(&o->copy_fd);
    bx_buf_done(&o->console_tail);
    bx_buf_done(&o->errors_tail);
}
