/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.c: see files.h. A file appears whole: it is written beside its place and renamed. One that is there is replaced
 * and hands on its permissions; missing folders are made. The new one's time is of a later second than the old one's:
 * Python takes a compiled module for current when the source's size and whole seconds are as they were, and two versions
 * of an agent's code often come within a second.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/io.h"
#include "base/str.h"
#include "guest/files.h"
#include "wire/proto.h"

int files_parse(const struct bx_field *f, const char **path, const uint8_t **data, size_t *len)
{
    const uint8_t *nul = f->len > 0 ? memchr(f->data, 0, f->len) : NULL;
    if (!nul || nul == f->data) {
        return -EPROTO;
    }
    *path = (const char *)f->data;
    *data = nul + 1;
    *len = f->len - (size_t)(nul + 1 - f->data);
    return 0;
}

static void make_folders(char *path)
{
    for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        (void)mkdir(path, 0755);
        *slash = '/';
    }
}

static int open_beside(char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 && errno == ENOENT) {
        make_folders(name);
        fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
    }
    return fd < 0 ? -errno : fd;
}

/* The same file by name, newer in a way that whole seconds show. */
static void take_after(int fd, const struct stat *old)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = old->st_mtim.tv_sec + 1}};
    struct stat st;

    (void)fchmod(fd, old->st_mode & 0777);
    if (fstat(fd, &st) == 0 && st.st_mtim.tv_sec <= old->st_mtim.tv_sec) {
        (void)futimens(fd, times);
    }
}

static int write_one(const char *path, const uint8_t *data, size_t len)
{
    _cleanup_free_ char *name = bx_asprintf("%s.boxlite.%d", path, (int)getpid());
    _cleanup_close_ int fd = name ? open_beside(name) : -ENOMEM;
    struct stat st;
    int r = fd < 0 ? fd : bx_write_full(fd, data, len);

    if (r == 0 && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        take_after(fd, &st);
    }
    if (r == 0 && rename(name, path) < 0) {
        r = -errno;
    }
    if (r < 0 && fd >= 0) {
        (void)unlink(name);
    }
    return r;
}

int files_write(const struct bx_msg *msg, struct failure *f)
{
    struct bx_msg walk = *msg;
    struct bx_field field;
    const char *path;
    const uint8_t *data;
    size_t len;

    while (bx_msg_next(&walk, &field) > 0) {
        if (field.tag == BX_T_FILE && files_parse(&field, &path, &data, &len) == 0) {
            int r = write_one(path, data, len);
            if (r < 0) {
                return failure_set(f, r, "writing %.150s", path);
            }
        }
    }
    return 0;
}
