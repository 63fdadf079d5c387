/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mounts.c: see mounts.h.
 *
 * A host path is resolved when it is given, so that the record names one place whatever the working
 * directory of a later start is, and no link can be turned in between: the shim opens it without
 * following any.
 */
#include "box/mounts.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/path.h"

/* What the container makes itself, for each start. */
static const char *const own_places[] = {"/proc", "/sys", "/dev", "/.boxlite"};

/* Is `path` the folder or below it? Both in normal form. */
static bool is_within(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int bad_guest(const char *guest, const char *why, boxlite_error **err)
{
    bx_fail(err, BOXLITE_E_INVALID, "volume: \"%.200s\" %s", guest, why);
    bx_hint(err, "name an absolute path in the box, like /work");
    return BOXLITE_E_INVALID;
}

/* Copies the parts of a path behind one slash each; false at a ".." */
static bool normalise(const char *path, char *out)
{
    char *end = out;
    for (const char *p = path; *p;) {
        p += strspn(p, "/");
        size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') {
            return false;
        }
        if (n > 0 && !(n == 1 && p[0] == '.')) {
            *end++ = '/';
            memcpy(end, p, n);
            end += n;
        }
        p += n;
    }
    *end = '\0';
    return true;
}

int bx_mount_guest_path(const char *guest, char **ret, boxlite_error **err)
{
    if (guest[0] != '/') {
        return bad_guest(guest, "is not an absolute path in the box", err);
    }
    if (strlen(guest) >= PATH_MAX) {
        return bad_guest(guest, "is too long", err);
    }
    _cleanup_free_ char *out = malloc(strlen(guest) + 1);
    if (!out) {
        return bx_fail_oom(err);
    }
    if (!normalise(guest, out)) {
        return bad_guest(guest, "has a \"..\"", err);
    }
    if (*out == '\0') {
        return bad_guest(guest, "is the root of the box, which is the image's", err);
    }
    for (size_t i = 0; i < BX_ARRAY_SIZE(own_places); i++) {
        if (is_within(out, own_places[i])) {
            return bad_guest(guest, "is a place that the box makes itself", err);
        }
    }
    *ret = steal_ptr(&out);
    return 0;
}

static int resolve_host(const char *kind, const char *host, char **ret, boxlite_error **err)
{
    struct stat st;
    if (*host == '\0') {
        return bx_fail(err, BOXLITE_E_INVALID, "volume: the host path is empty");
    }
    _cleanup_free_ char *path = realpath(host, NULL);
    if (!path || stat(path, &st) < 0) {
        int r = bx_fail_errno(err, BOXLITE_E_IO, errno, "volume: %.400s", host);
        bx_hint(err,
                r == BOXLITE_E_NOT_FOUND
                    ? "make it first, or have it made: --mount type=bind,source=…,target=…,create"
                    : "name a folder or file that you may read");
        return r;
    }
    bool workspace = bx_streq(kind, BX_MOUNT_WORKSPACE);
    if (!S_ISDIR(st.st_mode) && (workspace || !S_ISREG(st.st_mode))) {
        return bx_fail(err, BOXLITE_E_INVALID, "volume: %.400s is not a folder%s", host,
                       workspace ? "" : " or a plain file");
    }
    *ret = steal_ptr(&path);
    return 0;
}

int bx_mount_add(struct bx_rec_list *list, const char *kind, const char *host, const char *guest,
                 bool read_only, boxlite_error **err)
{
    _cleanup_free_ char *host_path = NULL, *guest_path = NULL;
    int r = resolve_host(kind, host, &host_path, err);
    r = r < 0 ? r : bx_mount_guest_path(guest ? guest : host_path, &guest_path, err);
    if (r < 0) {
        return r;
    }
    if (list->n >= BX_BOX_MOUNTS_MAX) {
        return bx_fail(err, BOXLITE_E_INVALID, "volume: more than %u", BX_BOX_MOUNTS_MAX);
    }
    const struct bx_box_mount *v = list->v;
    for (size_t i = 0; i < list->n; i++) {
        if (bx_streq(v[i].guest, guest_path)) {
            return bx_fail(err, BOXLITE_E_INVALID, "volume: %.200s is taken by %.400s", guest_path,
                           v[i].host);
        }
    }
    const struct bx_box_mount m = {(char *)kind, host_path, guest_path, read_only};
    return bx_box_mount_add(list, &m) < 0 ? bx_fail_oom(err) : 0;
}

int bx_mounts_check(const struct bx_rec_list *list, const char *home, boxlite_error **err)
{
    const struct bx_box_mount *v = list->v;
    _cleanup_free_ char *real = list->n > 0 ? realpath(home, NULL) : NULL;
    for (size_t i = 0; real && i < list->n; i++) {
        if (is_within(v[i].host, real)) {
            bx_fail(err, BOXLITE_E_INVALID, "volume: %.400s is in BoxLite's home directory",
                    v[i].host);
            bx_hint(err, "whoever writes there owns all boxes: share another folder");
            return BOXLITE_E_INVALID;
        }
    }
    return 0;
}
