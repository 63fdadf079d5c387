/* SPDX-License-Identifier: Apache-2.0 */
/*
 * home.c: finds and opens the home directory.
 *
 * Everything BoxLite keeps lies below this one folder, with the rights of one user. So it is refused when
 * it belongs to someone else (also to root: files that root leaves in a user's home lock the user out),
 * when the world can write into it, when it cannot be written, or when a later format made it. The format
 * is the number in the file "version"; the database has its own (store.c).
 */
#include "state/home.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/io.h"
#include "base/path.h"
#include "base/str.h"

#define HOME_FORMAT 1
#define PASSWD_BUF_MAX 65536

static char *passwd_home(void)
{
    _cleanup_free_ char *buf = malloc(PASSWD_BUF_MAX);
    struct passwd pw, *found = NULL;

    if (!buf || getpwuid_r(geteuid(), &pw, buf, PASSWD_BUF_MAX, &found) != 0 || !found ||
        !found->pw_dir || found->pw_dir[0] != '/') {
        return NULL;
    }
    return bx_path_join(found->pw_dir, ".boxlite");
}

static int choose_path(const char *path, char **ret, boxlite_error **err)
{
    _cleanup_free_ char *chosen = NULL;
    const char *home = getenv("HOME");

    if (!path || !*path) {
        path = getenv("BOXLITE_HOME");
    }
    if (path && *path) {
        chosen = bx_path_absolute(path);
    } else if (home && home[0] == '/') {
        chosen = bx_path_join(home, ".boxlite");
    } else {
        chosen = passwd_home();
        if (!chosen) {
            int r = bx_fail(err, BOXLITE_E_NOT_FOUND, "this user has no home directory");
            bx_hint(err, "set BOXLITE_HOME to a folder of your own");
            return r;
        }
    }
    if (!chosen) {
        return bx_fail_oom(err);
    }
    *ret = steal_ptr(&chosen);
    return 0;
}

static int fail_home(boxlite_error **err, const char *path, int errnum)
{
    int r;

    if (errnum == ENOTDIR || errnum == EEXIST) {
        r = bx_fail(err, BOXLITE_E_INVALID, "home %s is not a folder", path);
        bx_hint(err, "move that file away or set BOXLITE_HOME to another folder");
        return r;
    }
    r = bx_fail_errno(err, errnum == EROFS ? BOXLITE_E_DENIED : BOXLITE_E_IO, errnum,
                      "opening home %s", path);
    if (r == BOXLITE_E_NO_SPACE) {
        bx_hint(err, "free some space or set BOXLITE_HOME to a folder on another disk");
    } else {
        bx_hint(err,
                "make %s readable and writable for this user or set BOXLITE_HOME to another folder",
                path);
    }
    return r;
}

static int check_owner(int fd, const char *path, boxlite_error **err)
{
    struct stat st;
    int r;

    if (fstat(fd, &st) < 0) {
        return fail_home(err, path, errno);
    }
    if (st.st_uid != geteuid()) {
        r = bx_fail(err, BOXLITE_E_DENIED,
                    "home %s belongs to another user (uid %u, this is uid %u)", path,
                    (unsigned)st.st_uid, (unsigned)geteuid());
        bx_hint(err, "run as that user or set BOXLITE_HOME to a folder of your own");
        return r;
    }
    if (st.st_mode & S_IWOTH) {
        r = bx_fail(err, BOXLITE_E_DENIED, "home %s can be written by every user", path);
        bx_hint(err, "chmod 700 %s", path);
        return r;
    }
    /* Root passes mode bits; a read-only file system is seen by both. */
    if (faccessat(fd, ".", R_OK | W_OK | X_OK, AT_EACCESS) < 0) {
        return fail_home(err, path, errno);
    }
    return 0;
}

static int check_format(int fd, const char *path, boxlite_error **err)
{
    _cleanup_buf_ struct bx_buf text = BX_BUF_INIT(32);
    uint64_t version = 0;
    int r = bx_read_file(fd, "version", &text);

    if (r == -ENOENT) {
        const char *line = "1\n";
        r = bx_write_file(fd, "version", line, strlen(line), 0600);
        return r < 0 ? fail_home(err, path, -r) : 0;
    }
    if (r < 0 && r != -ENOBUFS && r != -EFBIG) { /* too long: that is damage */
        return fail_home(err, path, -r);
    }
    if (r == 0) {
        char *end = strchr((char *)bx_buf_data(&text), '\n');
        if (end) {
            *end = '\0';
        }
        r = bx_parse_u64(bx_buf_str(&text), UINT32_MAX, &version);
    }
    if (r < 0 || version == 0) {
        r = bx_fail(err, BOXLITE_E_INTEGRITY, "%s/version is damaged", path);
        bx_hint(err,
                "write the line \"%d\" into it if this is a BoxLite home, or choose another folder",
                HOME_FORMAT);
        return r;
    }
    if (version > HOME_FORMAT) {
        r = bx_fail(err, BOXLITE_E_UNSUPPORTED, "home %s was made by a newer BoxLite (format %llu)",
                    path, (unsigned long long)version);
        bx_hint(err, "update BoxLite or set BOXLITE_HOME to another folder");
        return r;
    }
    return 0;
}

int bx_home_open(const char *path, struct bx_home **ret, boxlite_error **err)
{
    _cleanup_free_ char *chosen = NULL;
    _cleanup_close_ int fd = -1;
    struct bx_home *home;
    int r = choose_path(path, &chosen, err);

    if (r < 0) {
        return r;
    }
    fd = open(chosen, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        r = bx_mkdir_p(chosen, 0700);
        if (r < 0) {
            return fail_home(err, chosen, -r);
        }
        fd = open(chosen, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0) {
        return fail_home(err, chosen, errno);
    }
    r = check_owner(fd, chosen, err);
    if (r == 0) {
        r = check_format(fd, chosen, err);
    }
    if (r < 0) {
        return r;
    }
    home = calloc(1, sizeof(*home));
    if (!home) {
        return bx_fail_oom(err);
    }
    home->path = steal_ptr(&chosen);
    home->fd = steal_fd(&fd);
    *ret = home;
    return 0;
}

void bx_home_free(struct bx_home *home)
{
    if (home) {
        bx_close(&home->fd);
        free(home->path);
        free(home);
    }
}

int bx_home_dir(const struct bx_home *home, const char *name, int *ret_fd, boxlite_error **err)
{
    int r;
    int fd = bx_open_dir(home->fd, name, 0700);

    if (fd < 0) {
        r = bx_fail_errno(err, fd == -EROFS ? BOXLITE_E_DENIED : BOXLITE_E_IO, fd, "opening %s/%s",
                          home->path, name);
        if (r == BOXLITE_E_NO_SPACE) {
            bx_hint(err, "free some space");
        } else {
            bx_hint(err, "make %s/%s a folder that this user can read and write", home->path, name);
        }
        return r;
    }
    *ret_fd = fd;
    return 0;
}

char *bx_home_path(const struct bx_home *home, const char *dir, const char *name)
{
    return bx_asprintf("%s/%s/%s", home->path, dir, name);
}

int bx_home_need_space(const struct bx_home *home, uint64_t need, const char *what,
                       boxlite_error **err)
{
    struct statvfs vfs;
    char want[16], have[16];
    uint64_t available;
    int r;

    if (fstatvfs(home->fd, &vfs) < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "looking for free space in %s", home->path);
    }
    if (__builtin_mul_overflow((uint64_t)vfs.f_bavail, (uint64_t)vfs.f_frsize, &available) ||
        available >= need) {
        return 0;
    }
    r = bx_fail(err, BOXLITE_E_NO_SPACE, "%s needs %s in %s, where %s are free", what,
                bx_format_size(need, want, sizeof(want)), home->path,
                bx_format_size(available, have, sizeof(have)));
    bx_hint(
        err,
        "free some space (boxlite image rm, boxlite rm) or set BOXLITE_HOME to a folder on another disk");
    return r;
}
