/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_unpack.c: an archive of a hostile guest, unpacked on the host. Whatever it holds, nothing may appear or change
 * outside the one name that was asked for, and nothing with power may be made. The first byte chooses how it was asked.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/path.h"
#include "box/copy.h"

static const uint8_t *input;
static size_t left;

/* These stand in for the stream from the box: copy_stream.c is not linked then. */
ssize_t bx_copy_read(struct bx_copy *c, void *data, size_t size, boxlite_error **err)
{
    size_t n = left < size ? left : size;
    memcpy(data, input, n);
    input += n;
    left -= n;
    return (ssize_t)n;
}

void bx_copy_tell(struct bx_copy_progress *p, uint64_t more)
{
}

int bx_copy_finish(struct bx_copy *c, boxlite_error **err)
{
    return 0;
}

static void check_node(int dirfd, const char *name)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        abort();
    }
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode)) {
        abort();
    }
    if (!S_ISLNK(st.st_mode) && (st.st_mode & (S_ISUID | S_ISGID))) {
        abort();
    }
}

/* The folder holds only these two names at most, and nothing that must not be. */
static void check_folder(int dirfd, const char *one, const char *two)
{
    int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *d;
    while (dir && (d = readdir(dir))) {
        if (bx_streq(d->d_name, ".") || bx_streq(d->d_name, "..")) {
            continue;
        }
        if (one && !bx_streq(d->d_name, one) && !bx_streq(d->d_name, two)) {
            abort();
        }
        check_node(dirfd, d->d_name);
    }
    if (dir) {
        (void)closedir(dir);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char memory[] = "/dev/shm/bx-fuzz-XXXXXX", disk[] = "/tmp/bx-fuzz-XXXXXX";
    const char *base = mkdtemp(memory) ? memory : mkdtemp(disk);
    struct bx_copy c = {0};
    boxlite_error *err = NULL;
    bool contents = size > 0 && data[0] == '.';

    if (!base) {
        return 0;
    }
    int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || mkdirat(fd, "in", 0700) < 0 || symlinkat("../victim", fd, "in/link") < 0 ||
        mkdirat(fd, "victim", 0700) < 0) {
        abort();
    }
    int in = openat(fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    input = data + (size > 0);
    left = size - (size > 0);
    int r = bx_copy_unpack(&c, &(struct bx_log){0}, &(struct bx_copy_progress){0}, in,
                           contents ? "." : "top", contents ? "." : "top", &err);
    if ((r < 0) != (err != NULL)) {
        abort();
    }
    boxlite_error_free(err);
    check_folder(fd, "in", "victim");
    check_folder(in, contents ? NULL : "top", "link");
    if (unlinkat(fd, "victim", AT_REMOVEDIR) < 0) { /* something is in it */
        abort();
    }
    (void)close(in);
    (void)close(fd);
    (void)bx_rm_rf(AT_FDCWD, base);
    return 0;
}
