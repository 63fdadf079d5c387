/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy_stream.c: the built-in command that packs or unpacks in the guest. See copy.h.
 *
 * Its stderr is always emptied, so that complaints never stop it; the first of them become the
 * error.
 */
#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "box/copy.h"
#include "box/options.h"
#include "wire/proto.h"

#define COMPLAINTS_MAX 1024u
#define CHUNK 4096u

static int start(boxlite_box *box, const char *name, const char *const *argv, size_t argc,
                 bool input, boxlite_exec **ret, boxlite_error **err)
{
    struct bx_exec_spec spec = {
        .argv = {.v = (char **)argv, .n = argc},
        .cwd = (char *)"/",
        .user = (char *)"0:0",
        .flags = input ? BX_EXEC_STDIN : 0,
        .builtin = (char *)name,
    };
    return bx_exec_start(box, &spec, ret, err);
}

int bx_box_exec_tar(boxlite_box *box, bool input, const char *path, boxlite_exec **ret,
                    boxlite_error **err)
{
    int r = bx_check_guest_path(input ? "guest_dir" : "guest_path", path, err);
    return r < 0 ? r : start(box, input ? "tar-in" : "tar-out", &path, 1, input, ret, err);
}

int bx_copy_start(boxlite_box *box, bool input, const char *arg, struct bx_copy *ret,
                  boxlite_error **err)
{
    return bx_copy_start_builtin(box, input ? "tar-in" : "tar-out", &arg, 1, input, ret, err);
}

int bx_copy_start_builtin(boxlite_box *box, const char *name, const char *const *argv, size_t argc,
                          bool input, struct bx_copy *ret, boxlite_error **err)
{
    *ret = (struct bx_copy){.complaints = BX_BUF_INIT(COMPLAINTS_MAX), .what = name};
    return start(box, name, argv, argc, input, &ret->exec, err);
}

void bx_copy_done(struct bx_copy *c)
{
    bx_exec_free(steal_ptr(&c->exec));
    bx_buf_done(&c->complaints);
}

static void take_complaints(struct bx_copy *c)
{
    char chunk[512];
    ssize_t n;
    while (!c->err_ended && (n = bx_exec_read(c->exec, BOXLITE_STDERR, chunk, sizeof(chunk),
                                              NULL)) != BOXLITE_E_AGAIN) {
        if (n <= 0) {
            c->err_ended = true;
            return;
        }
        size_t room = COMPLAINTS_MAX - c->complaints.len;
        (void)bx_buf_append(&c->complaints, chunk, (size_t)n < room ? (size_t)n : room);
    }
}

/* Waits for one of the events, emptying stderr meanwhile. */
static int wait_for(struct bx_copy *c, uint32_t events, boxlite_error **err)
{
    int r = bx_exec_poll(c->exec, events | (c->err_ended ? 0u : BOXLITE_EXEC_STDERR), -1, err);
    take_complaints(c);
    return r < 0 ? r : 0;
}

int bx_copy_write(struct bx_copy *c, const void *data, size_t len, boxlite_error **err)
{
    const char *p = data;
    while (len > 0) {
        ssize_t n = bx_exec_write(c->exec, p, len, NULL);
        if (n == BOXLITE_E_AGAIN) {
            int r = wait_for(c, BOXLITE_EXEC_STDIN | BOXLITE_EXEC_EXITED, err);
            if (r < 0) {
                return r;
            }
            continue;
        }
        if (n < 0) { /* it has ended, or is about to: its own words say why */
            int r = bx_copy_finish(c, err);
            return r < 0 ? r
                         : bx_fail(err, BOXLITE_E_GUEST, "%s ended before its input did", c->what);
        }
        p += n;
        len -= (size_t)n;
    }
    return 0;
}

ssize_t bx_copy_read(struct bx_copy *c, void *data, size_t size, boxlite_error **err)
{
    for (;;) {
        ssize_t n = bx_exec_read(c->exec, BOXLITE_STDOUT, data, size, NULL);
        if (n != BOXLITE_E_AGAIN) {
            return n < 0 ? bx_fail(err, (int)n, "%s: its output was lost", c->what) : n;
        }
        int r = wait_for(c, BOXLITE_EXEC_STDOUT, err);
        if (r < 0) {
            return r;
        }
    }
}

/* The first line of what the command said. */
static int complain(struct bx_copy *c, const boxlite_exec_result *result, boxlite_error **err)
{
    char line[256] = "";
    const char *text = bx_buf_str(&c->complaints);
    int code = strstr(text, strerror(ENOENT))   ? BOXLITE_E_NOT_FOUND
               : strstr(text, strerror(ENOSPC)) ? BOXLITE_E_NO_SPACE
                                                : BOXLITE_E_IO;

    (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(text, "\n"), text);
    if (result->flags & BOXLITE_EXIT_BOX_LOST) {
        return bx_fail(err, BOXLITE_E_GUEST, "the box ended during the copy");
    }
    if (result->flags & BOXLITE_EXIT_NOT_STARTED) {
        const char *why = bx_exec_failure(c->exec);
        return bx_fail(err, BOXLITE_E_GUEST, "%s could not be started: %s", c->what,
                       why ? why : "no reason given");
    }
    return *line ? bx_fail(err, code, "%s", line)
                 : bx_fail(err, BOXLITE_E_GUEST, "%s ended with exit code %d", c->what,
                           result->exit_code);
}

int bx_copy_finish(struct bx_copy *c, boxlite_error **err)
{
    char rest[CHUNK];
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    ssize_t n;
    int r;

    (void)bx_exec_close_stdin(c->exec, NULL);
    while ((n = bx_copy_read(c, rest, sizeof(rest), err)) > 0) {
    }
    if (n < 0) {
        return (int)n;
    }
    while (!c->err_ended) {
        r = wait_for(c, 0, err);
        if (r < 0) {
            return r;
        }
    }
    r = bx_exec_wait(c->exec, -1, &result, err);
    if (r < 0) {
        return r;
    }
    return result.exit_code == 0 && result.flags == 0 ? 0 : complain(c, &result, err);
}
