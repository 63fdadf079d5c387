/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.h: files between host and a running box, as a tar stream through a built-in command of the
 * agent.
 *
 *   copy.c         what goes where (the rules of `docker cp`), and the plain streams
 *   copy_stream.c  the built-in command: its input, output, complaints and result
 *   copy_pack.c    a tree of the host as a tar stream
 *   copy_unpack.c  a tar stream as a tree of the host; the stream is hostile
 */
#ifndef BX_BOX_COPY_H
#define BX_BOX_COPY_H

#include <boxlite.h>
#include <stdbool.h>

#include "base/buf.h"
#include "box/box.h"
#include "box/exec.h"

/* owner: NULL: the box's user; "": those of the host's numbers; else a user of the box. */
int bx_box_copy_in(boxlite_box *box, const char *host_path, const char *guest_path,
                   const char *owner, boxlite_error **err);
int bx_box_copy_out(boxlite_box *box, const char *guest_path, const char *host_path,
                    boxlite_error **err);
int bx_box_copy_in_tar(boxlite_box *box, int fd, const char *guest_dir, boxlite_error **err);
int bx_box_copy_out_tar(boxlite_box *box, const char *guest_path, int fd, boxlite_error **err);
/* The built-in command itself, for a caller with a loop of its own. */
int bx_box_exec_tar(boxlite_box *box, bool input, const char *path, boxlite_exec **ret,
                    boxlite_error **err);

/* ---- Inside ---------------------------------------------------------------------------------- */

struct bx_copy {
    boxlite_exec *exec;
    struct bx_buf complaints; /* the beginning of its stderr */
    bool err_ended;
    const char *what; /* for errors: "tar-in" */
};

/* Starts tar-in (input) or tar-out as root; arg is its folder or path. */
int bx_copy_start(boxlite_box *box, bool input, const char *arg, struct bx_copy *ret,
                  boxlite_error **err);
/* The same of any built-in; `name` must outlive it. */
int bx_copy_start_builtin(boxlite_box *box, const char *name, const char *const *argv, size_t argc,
                          bool input, struct bx_copy *ret, boxlite_error **err);
void bx_copy_done(struct bx_copy *c); /* kills what still runs */
/* All of it, or an error: the one that the command has told, if it ended. */
int bx_copy_write(struct bx_copy *c, const void *data, size_t len, boxlite_error **err);
/* Some bytes, 0 at the end. */
ssize_t bx_copy_read(struct bx_copy *c, void *data, size_t size, boxlite_error **err);
/* Ends the input, drops the rest of the output, waits for the result. */
int bx_copy_finish(struct bx_copy *c, boxlite_error **err);

/* Told how many bytes have gone through, now and then. */
struct bx_copy_progress {
    boxlite_progress_fn fn; /* NULL: nobody wants to know */
    void *data;
    const char *what;
    uint64_t done, told;
};
void bx_copy_tell(struct bx_copy_progress *p, uint64_t more);

/* The tree at dirfd/path as an archive in which its top is called `top`, written to c. owners: with those of the host's
 * files, else all root's. */
int bx_copy_pack(struct bx_copy *c, const struct bx_log *log, struct bx_copy_progress *progress,
                 int dirfd, const char *path, const char *top, bool owners, boxlite_error **err);
/* Extracts an archive from c below dirfd. Every name in it must start with `expect` ("." is no part
 * of a name: then all are let in); that part is replaced by `top`, "." for nothing. */
int bx_copy_unpack(struct bx_copy *c, const struct bx_log *log, struct bx_copy_progress *progress,
                   int dirfd, const char *expect, const char *top, boxlite_error **err);

#endif
