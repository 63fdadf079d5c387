/* SPDX-License-Identifier: Apache-2.0 */
/*
 * copy.c: what goes where in a copy. See copy.h.
 *
 * As `docker cp` does it: into an existing folder under its own name; else the last part of the
 * destination is the new name and its folder must exist; a source that ends with "/." gives its
 * contents only. A symlink as the source is copied as such; as the destination folder it is
 * followed.
 */
#include "box/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/io.h"
#include "base/path.h"
#include "box/options.h"
#include "box/quiet.h"

#define CHUNK (256u << 10)

/* A path taken apart: "/a/b/" is folder "/a", name "b". */
struct split {
    char *dir;
    char *name;    /* "." for contents only; "/" has the name "." */
    bool contents; /* it ended with "/." */
    bool slash;    /* it ended with "/" */
};

static void split_done(struct split *s)
{
    free(s->dir);
    free(s->name);
}
#define _cleanup_split_ _cleanup_(split_done)

static int split_path(const char *path, struct split *ret, boxlite_error **err)
{
    struct split s = {0};
    size_t n = strlen(path);

    if (n == 0) {
        return bx_fail(err, BOXLITE_E_INVALID, "path: is empty");
    }
    _cleanup_free_ char *copy = strdup(path);
    if (!copy) {
        return bx_fail_oom(err);
    }
    s.slash = n > 1 && path[n - 1] == '/';
    while (n > 1 && copy[n - 1] == '/') {
        copy[--n] = '\0';
    }
    s.contents = bx_streq(copy, ".") || bx_endswith(copy, "/.");
    char *slash = strrchr(copy, '/');
    const char *name = slash ? slash + 1 : copy;
    s.name = strdup(*name ? name : ".");
    s.contents = s.contents || !*name;
    if (slash) {
        slash[slash == copy] = '\0';
    }
    s.dir = strdup(slash ? copy : ".");
    if (!s.dir || !s.name) {
        split_done(&s);
        return bx_fail_oom(err);
    }
    if (bx_streq(s.name, "..")) {
        split_done(&s);
        return bx_fail(err, BOXLITE_E_INVALID, "path: \"%.80s\" ends with \"..\"", path);
    }
    *ret = s;
    return 0;
}

/* 1: it is a folder in the guest, or a link to one; 0: it is not, or not there. */
static int guest_is_folder(boxlite_box *box, const char *path, boxlite_error **err)
{
    _cleanup_(bx_copy_done) struct bx_copy c = {0};
    _cleanup_free_ char *inside = bx_asprintf("%s/.", path);
    char first[512];

    if (!inside) {
        return bx_fail_oom(err);
    }
    int r = bx_copy_start(box, false, inside, &c, err);
    if (r < 0) {
        return r;
    }
    ssize_t n = bx_copy_read(&c, first, sizeof(first), err);
    if (n != 0) {
        return n < 0 ? (int)n : 1; /* the rest is not wanted: freeing ends it */
    }
    _cleanup_error_ boxlite_error *why = NULL;
    r = bx_copy_finish(&c, &why);
    if (r < 0 && (r == BOXLITE_E_GUEST || r == BOXLITE_E_STATE || r == BOXLITE_E_CANCELLED)) {
        return bx_fail_again(err, why);
    }
    return 0;
}

/* The command is over: its handle goes before its box does. */
static int end_quiet(struct bx_copy *c, struct bx_quiet *quiet, boxlite_error **err)
{
    bx_copy_done(c);
    *c = (struct bx_copy){0};
    return bx_quiet_end(quiet, err);
}

static int need_guest_folder(boxlite_box *box, const char *path, boxlite_error **err)
{
    int r = guest_is_folder(box, path, err);
    return r < 0    ? r
           : r == 0 ? bx_fail(err, BOXLITE_E_NOT_FOUND, "there is no folder %s in the box", path)
                    : 0;
}

/* ---- Progress -------------------------------------------------------------------------------- */

#define TELL_BYTES (4u << 20)

void bx_copy_tell(struct bx_copy_progress *p, uint64_t more)
{
    p->done += more;
    if (p->fn && p->done - p->told >= TELL_BYTES) {
        p->told = p->done;
        p->fn(p->data, p->what, p->done, 0);
    }
}

static struct bx_copy_progress progress_of(const boxlite_box *box, const char *what)
{
    return (struct bx_copy_progress){
        .fn = box->rt->images.progress, .data = box->rt->images.progress_data, .what = what};
}

static void end_progress(const struct bx_copy_progress *p)
{
    if (p->fn && p->told > 0) {
        p->fn(p->data, p->what, p->done, p->done);
    }
}

/* ---- In -------------------------------------------------------------------------------------- */

/* Starts tar-in for a folder, with the user whose all will be. */
static int start_in(boxlite_box *box, const char *dir, const char *owner, struct bx_copy *ret,
                    boxlite_error **err)
{
    const char *user = owner ? owner : box->config.user ? box->config.user : "0:0";
    const char *const argv[] = {dir, user};
    return bx_copy_start_builtin(box, "tar-in", argv, *user ? 2 : 1, true, ret, err);
}

static int copy_in(boxlite_box *box, const char *host_path, const char *guest_path,
                   const char *owner, boxlite_error **err)
{
    struct bx_copy_progress progress = progress_of(box, "copying into the box");
    _cleanup_split_ struct split from = {0}, to = {0};
    _cleanup_(bx_copy_done) struct bx_copy c = {0};
    struct stat st;
    int r = split_path(host_path, &from, err);

    if (r == 0) {
        r = split_path(guest_path, &to, err);
    }
    if (r < 0) {
        return r;
    }
    if (lstat(host_path, &st) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", host_path);
    }
    int folder = guest_is_folder(box, guest_path, err);
    if (folder < 0) {
        return folder;
    }
    if (!folder) {
        if (to.slash && !S_ISDIR(st.st_mode)) {
            return bx_fail(err, BOXLITE_E_NOT_FOUND, "there is no folder %s in the box",
                           guest_path);
        }
        r = need_guest_folder(box, to.dir, err);
        if (r < 0) {
            return r;
        }
    }
    const char *top = !folder ? to.name : from.contents ? "." : from.name;
    r = start_in(box, folder ? guest_path : to.dir, owner, &c, err);
    if (r == 0) {
        r = bx_copy_pack(&c, &box->rt->log, &progress, AT_FDCWD, host_path, top, owner && !*owner,
                         err);
    }
    r = r < 0 ? r : bx_copy_finish(&c, err);
    end_progress(&progress);
    return r;
}

int bx_box_copy_in(boxlite_box *box, const char *host_path, const char *guest_path,
                   const char *owner, boxlite_error **err)
{
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    int r = bx_check_guest_path("guest_path", guest_path, err);
    r = r < 0 ? r : bx_box_need_config(box, err);
    if (r < 0) {
        return r;
    }
    r = bx_quiet_begin(box, &quiet, err);
    r = r < 0 ? r : copy_in(box, host_path, guest_path, owner, err);
    r = r < 0 ? r : bx_quiet_end(&quiet, err);
    if (r < 0) {
        bx_wrap(err, "copying %s to %s:%s", host_path, box->row.name, guest_path);
    }
    return r;
}

int bx_box_copy_in_tar(boxlite_box *box, int fd, const char *guest_dir, boxlite_error **err)
{
    _cleanup_(bx_copy_done) struct bx_copy c = {0};
    _cleanup_free_ char *chunk = malloc(CHUNK);
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    int r = bx_check_guest_path("guest_dir", guest_dir, err);

    if (r == 0 && !chunk) {
        r = bx_fail_oom(err);
    }
    r = r < 0 ? r : bx_quiet_begin(box, &quiet, err);
    if (r == 0) {
        r = need_guest_folder(box, guest_dir, err);
    }
    if (r == 0) {
        r = bx_copy_start(box, true, guest_dir, &c, err);
    }
    while (r == 0) {
        ssize_t n = read(fd, chunk, CHUNK);
        if (n == 0) {
            r = bx_copy_finish(&c, err);
            break;
        }
        if (n < 0 && errno != EINTR) {
            r = bx_fail_errno(err, BOXLITE_E_IO, errno, "reading the archive");
        } else if (n > 0) {
            r = bx_copy_write(&c, chunk, (size_t)n, err);
        }
    }
    r = r < 0 ? r : end_quiet(&c, &quiet, err);
    if (r < 0) {
        bx_wrap(err, "copying an archive to %s:%s", box->row.name, guest_dir);
    }
    return r;
}

/* ---- Out ------------------------------------------------------------------------------------- */

/* Where on the host it goes: a folder's descriptor and the name of the top in it ("." for none). */
static int host_target(const struct split *from, const char *host_path, int *ret_fd, char **ret_top,
                       boxlite_error **err)
{
    _cleanup_split_ struct split to = {0};
    struct stat st;
    int r = split_path(host_path, &to, err);

    if (r < 0) {
        return r;
    }
    bool there = stat(host_path, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) {
        *ret_fd = open(host_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *ret_top = strdup(from->contents ? "." : from->name);
    } else if (!there && to.slash && !from->contents) {
        return bx_fail(err, BOXLITE_E_NOT_FOUND, "there is no folder %s", host_path);
    } else {
        *ret_fd = open(to.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *ret_top = strdup(to.name);
    }
    if (*ret_fd < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "%s", host_path);
    }
    return *ret_top ? 0 : bx_fail_oom(err);
}

static int copy_out(boxlite_box *box, const char *guest_path, const char *host_path,
                    boxlite_error **err)
{
    _cleanup_split_ struct split from = {0};
    _cleanup_(bx_copy_done) struct bx_copy c = {0};
    _cleanup_close_ int dirfd = -1;
    _cleanup_free_ char *top = NULL;
    struct bx_copy_progress progress = progress_of(box, "copying out of the box");
    int r = split_path(guest_path, &from, err);

    if (r == 0) {
        r = host_target(&from, host_path, &dirfd, &top, err);
    }
    if (r == 0) {
        r = bx_copy_start(box, false, guest_path, &c, err);
    }
    if (r == 0) {
        r = bx_copy_unpack(&c, &box->rt->log, &progress, dirfd, from.contents ? "." : from.name,
                           top, err);
    }
    r = r < 0 ? r : bx_copy_finish(&c, err);
    end_progress(&progress);
    return r;
}

int bx_box_copy_out(boxlite_box *box, const char *guest_path, const char *host_path,
                    boxlite_error **err)
{
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    int r = bx_check_guest_path("guest_path", guest_path, err);
    if (r < 0) {
        return r;
    }
    r = bx_quiet_begin(box, &quiet, err);
    r = r < 0 ? r : copy_out(box, guest_path, host_path, err);
    r = r < 0 ? r : bx_quiet_end(&quiet, err);
    if (r < 0) {
        bx_wrap(err, "copying %s:%s to %s", box->row.name, guest_path, host_path);
    }
    return r;
}

int bx_box_copy_out_tar(boxlite_box *box, const char *guest_path, int fd, boxlite_error **err)
{
    _cleanup_(bx_copy_done) struct bx_copy c = {0};
    _cleanup_free_ char *chunk = malloc(CHUNK);
    _cleanup_quiet_ struct bx_quiet quiet = {0};
    int r = bx_check_guest_path("guest_path", guest_path, err);
    ssize_t n = 1;

    if (r == 0 && !chunk) {
        r = bx_fail_oom(err);
    }
    r = r < 0 ? r : bx_quiet_begin(box, &quiet, err);
    if (r == 0) {
        r = bx_copy_start(box, false, guest_path, &c, err);
    }
    while (r == 0 && (n = bx_copy_read(&c, chunk, CHUNK, err)) > 0) {
        int w = bx_write_full(fd, chunk, (size_t)n);
        r = w < 0 ? bx_fail_errno(err, BOXLITE_E_IO, w, "writing the archive") : 0;
    }
    r = r < 0 ? r : n < 0 ? (int)n : bx_copy_finish(&c, err);
    r = r < 0 ? r : end_quiet(&c, &quiet, err);
    if (r < 0) {
        bx_wrap(err, "copying %s:%s to an archive", box->row.name, guest_path);
    }
    return r;
}
