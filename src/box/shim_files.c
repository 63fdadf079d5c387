/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_files.c: the box's folder, at the beginning and at the end of a run (boxconfig.h has the
 * list).
 *
 * The lock is the first thing taken and the last given back: whoever holds it is the box's only
 * shim, and nothing in the folder is touched without it. `started` without exit.json is what a
 * killed shim leaves: the next start, which has the lock, clears it. At the end exit.json is there
 * before `started` goes, so a box is never without one of the two.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/timeutil.h"
#include "box/shim.h"
#include "box/shimfind.h"

void bx_shim_args_close(struct bx_shim_args *a)
{
    int *fds[] = {&a->box_fd, &a->home_fd, &a->control_fd, &a->owner_pidfd};
    for (size_t i = 0; i < BX_ARRAY_SIZE(fds); i++) {
        bx_close(fds[i]);
    }
}

/* ---- beginning */

static int take_lock(struct bx_shim *s, boxlite_error **err)
{
    _cleanup_close_ int fd =
        openat(s->args.box_fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "opening the box's lock");
    }
    int r = bx_lock(fd, true, false);
    if (r == -EAGAIN) {
        return bx_fail(err, BOXLITE_E_STATE, "the box is running already");
    }
    if (r < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "locking the box");
    }
    bx_shim_note(fd);
    s->lock_fd = steal_fd(&fd);
    return 0;
}

/* A quiet run leaves what the last real one left, and has a folder of its own for output. */
static const char *execs_name(const struct bx_shim *s)
{
    return s->args.quiet ? "execs.quiet" : "execs";
}

static int clear_old(struct bx_shim *s)
{
    const char *const old[] = {execs_name(s), "exit.json"};
    for (size_t i = 0; i < (s->args.quiet ? 1 : BX_ARRAY_SIZE(old)); i++) {
        int r = bx_rm_rf(s->args.box_fd, old[i]);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int mark_started(struct bx_shim *s)
{
    int fd = openat(s->args.box_fd, "started", O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -errno;
    }
    (void)close(fd);
    return 0;
}

static int make_new(struct bx_shim *s)
{
    int r = s->args.quiet ? 0 : mark_started(s);
    if (r < 0) {
        return r;
    }
    s->execs.dir = bx_open_dir(s->args.box_fd, execs_name(s), 0700);
    if (s->execs.dir < 0) {
        return s->execs.dir;
    }
    return bx_shim_console_open(&s->console, s->args.box_fd);
}

static void make_quiet(struct bx_box_config *c)
{
    c->main = c->auto_remove = c->detached = false;
    c->network = BOXLITE_NETWORK_NONE;
    c->timeout_ms = 0;
}

int bx_shim_files_begin(struct bx_shim *s, boxlite_error **err)
{
    int r = take_lock(s, err);
    if (r < 0) {
        return r;
    }
    if ((r = bx_box_config_read(s->args.box_fd, &s->config, err)) < 0) {
        return r;
    }
    s->have_config = true;
    if (s->args.quiet) {
        make_quiet(&s->config);
    }
    if ((r = clear_old(s)) < 0 || (r = make_new(s)) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, r, "preparing the box's folder");
    }
    return 0;
}

/* ---- end */

static void write_exit(struct bx_shim *s)
{
    const struct bx_box_exit e = {
        .started = s->started,
        .ended = (int64_t)(bx_now_real() / BX_SEC),
        .engine = s->engine ? (char *)s->engine->name : NULL,
        .code = s->failure ? boxlite_error_code(s->failure) : 0,
        .error = s->failure ? (char *)boxlite_error_message(s->failure) : NULL,
        .hint = s->failure ? (char *)boxlite_error_hint(s->failure) : NULL,
    };
    _cleanup_error_ boxlite_error *err = NULL;
    if (bx_box_exit_write(&e, s->args.box_fd, &err) < 0) {
        bx_warn(&s->log, "box", "%s", boxlite_error_message(err)); /* it will count as lost */
        return;
    }
    (void)unlinkat(s->args.box_fd, "started", 0);
}

/* Output of commands other than the main one has no reader any more but those who have it open. */
static void remove_execs(struct bx_shim *s)
{
    for (size_t i = 0; i < s->execs.n; i++) {
        char name[16];
        const struct bx_shim_exec *e = s->execs.v[i];
        if (!bx_shim_exec_is_main(e) && (e->out[0].spool.fd >= 0 || e->out[1].spool.fd >= 0)) {
            (void)snprintf(name, sizeof(name), "%u", e->number);
            (void)bx_rm_rf(s->execs.dir, name);
        }
    }
}

/* All but the lock; then the lock. The folder itself and the box's row are for the library to
 * remove. */
static void remove_all(struct bx_shim *s)
{
    _cleanup_close_ int fd = openat(s->args.box_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    _cleanup_closedir_ DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (!dir) {
        return;
    }
    fd = -1;
    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        if (!bx_streq(d->d_name, ".") && !bx_streq(d->d_name, "..") &&
            !bx_streq(d->d_name, "lock")) {
            (void)bx_rm_rf(s->args.box_fd, d->d_name);
        }
    }
    (void)unlinkat(s->args.box_fd, "lock", 0);
}

bool bx_shim_leaves_nothing(const struct bx_shim *s)
{
    return s->config.auto_remove && !bx_box_kept(s->args.box_fd);
}

void bx_shim_files_end(struct bx_shim *s)
{
    if (s->lock_fd < 0) {
        return; /* another shim's box */
    }
    bx_shim_unlisten(s);
    if (s->args.quiet) {
        (void)bx_rm_rf(s->args.box_fd, execs_name(s));
    } else if (s->have_config && bx_shim_leaves_nothing(s)) {
        remove_all(s);
    } else {
        remove_execs(s);
        write_exit(s);
    }
    bx_close(&s->lock_fd);
}
