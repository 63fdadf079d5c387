/* SPDX-License-Identifier: Apache-2.0 */
/*
 * io.c: whole reads and writes on blocking descriptors, atomic replacement of files, copies.
 */
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/path.h"

#define CHUNK ((size_t)128 * 1024)

ssize_t bx_read_full(int fd, void *data, size_t size)
{
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, (uint8_t *)data + done, size - done);
        if (n == 0) {
            break;
        }
        if (n > 0) {
            done += (size_t)n;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return (ssize_t)done;
}

int bx_write_full(int fd, const void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, (const uint8_t *)data + done, size - done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0) {
            return -EIO; /* no progress and no reason: never spin */
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

int bx_pwrite_full(int fd, const void *data, size_t size, off_t off)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, (const uint8_t *)data + done, size - done, off + (off_t)done);
        if (n > 0) {
            done += (size_t)n;
        } else if (n == 0) {
            return -EIO;
        } else if (errno != EINTR) {
            return -errno;
        }
    }
    return 0;
}

/* Reads what fits; once the buffer is full, one byte more tells whether the file ended there. */
static int read_some(int fd, struct bx_buf *b, bool *ret_end)
{
    size_t room = b->max - b->len;
    uint8_t probe;
    size_t want = room < CHUNK ? room : CHUNK;
    void *p = want ? bx_buf_reserve(b, want) : &probe;
    if (!p) {
        return -errno;
    }
    ssize_t n = read(fd, p, want ? want : 1);
    if (n < 0) {
        return errno == EINTR ? 0 : -errno;
    }
    if (n > 0 && want == 0) {
        return -EFBIG;
    }
    bx_buf_commit(b, (size_t)n);
    *ret_end = n == 0;
    return 0;
}

int bx_read_fd(int fd, struct bx_buf *b)
{
    size_t before = b->len;
    bool end = false;
    while (!end) {
        int r = read_some(fd, b, &end);
        if (r < 0) {
            b->len = before;
            if (b->base) {
                b->base[b->off + b->len] = '\0';
            }
            return r;
        }
    }
    return 0;
}

int bx_read_file(int dirfd, const char *path, struct bx_buf *b)
{
    /* O_NONBLOCK: a FIFO in the place of the file must not hang us before it is seen. */
    _cleanup_close_ int fd = openat(dirfd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -errno;
    }
    if (!S_ISREG(st.st_mode)) {
        return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
    }
    return bx_read_fd(fd, b);
}

/* Opens the folder of a path; *ret_name is the path's last component. */
static int open_parent(int dirfd, const char *path, const char **ret_name)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    if (!bx_is_filename(name)) {
        return -EINVAL;
    }
    _cleanup_free_ char *dir = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!dir) {
        return -ENOMEM;
    }
    int fd = openat(dirfd, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    *ret_name = name;
    return fd;
}

int bx_write_file(int dirfd, const char *path, const void *data, size_t size, mode_t mode)
{
    const char *name = NULL;
    _cleanup_close_ int parent = open_parent(dirfd, path, &name);
    if (parent < 0) {
        return parent;
    }
    char tmp[64];
    _cleanup_close_ int fd = bx_mkstempat(parent, BX_WRITE_TMP, tmp, sizeof(tmp));
    if (fd < 0) {
        return fd;
    }
    int r = bx_write_full(fd, data, size);
    if (r == 0 &&
        (fchmod(fd, mode) < 0 || fsync(fd) < 0 || renameat(parent, tmp, parent, name) < 0)) {
        r = -errno;
    }
    if (r < 0) {
        (void)unlinkat(parent, tmp, 0);
        return r;
    }
    /* The new name is safe only when the folder is on disk too; some file systems cannot (EINVAL). */
    return fsync(parent) < 0 && errno != EINVAL ? -errno : 0;
}

/* Copies the bytes [off, end) with read and write. */
static int copy_extent_plain(int src, int dst, off_t off, off_t end)
{
    _cleanup_free_ uint8_t *buf = malloc(CHUNK);
    if (!buf) {
        return -ENOMEM;
    }
    while (off < end) {
        size_t want = end - off < (off_t)CHUNK ? (size_t)(end - off) : CHUNK;
        ssize_t n = pread(src, buf, want, off);
        if (n == 0) {
            return 0; /* truncated meanwhile */
        }
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        int r = bx_pwrite_full(dst, buf, (size_t)n, off);
        if (r < 0) {
            return r;
        }
        off += n;
    }
    return 0;
}

static int copy_extent(int src, int dst, off_t off, off_t end)
{
    while (off < end) {
        off_t in = off, out = off;
        ssize_t n = copy_file_range(src, &in, dst, &out, (size_t)(end - off), 0);
        if (n > 0) {
            off += n;
        } else if (n < 0 && errno == EINTR) {
            continue;
        } else if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) {
            return -errno;
        } else {
            /* Not between these file systems, or (n == 0) one that lies about it. */
            return copy_extent_plain(src, dst, off, end);
        }
    }
    return 0;
}

static int copy_extents(int src, int dst, off_t size)
{
    for (off_t off = 0; off < size;) {
        off_t data = lseek(src, off, SEEK_DATA);
        if (data < 0) {
            /* ENXIO: only a hole is left. EINVAL: holes are not known here, all is data. */
            if (errno == ENXIO) {
                return 0;
            }
            return errno == EINVAL ? copy_extent(src, dst, off, size) : -errno;
        }
        off_t hole = lseek(src, data, SEEK_HOLE);
        off_t end = hole < 0 || hole > size ? size : hole;
        int r = copy_extent(src, dst, data, end);
        if (r < 0) {
            return r;
        }
        off = end;
    }
    return 0;
}

int bx_copy_sparse(int src, int dst)
{
    struct stat s, d;
    if (fstat(src, &s) < 0 || fstat(dst, &d) < 0) {
        return -errno;
    }
    if (!S_ISREG(s.st_mode) || !S_ISREG(d.st_mode) ||
        (s.st_dev == d.st_dev && s.st_ino == d.st_ino)) {
        return -EINVAL;
    }
    if (ftruncate(dst, 0) < 0) {
        return -errno;
    }
    if (ioctl(dst, FICLONE, src) == 0) {
        return 0;
    }
    if (ftruncate(dst, s.st_size) < 0) {
        return -errno;
    }
    return copy_extents(src, dst, s.st_size);
}

int64_t bx_copy_stream(int src, int dst, uint64_t max)
{
    _cleanup_free_ uint8_t *buf = malloc(CHUNK);
    if (!buf) {
        return -ENOMEM;
    }
    max = max > INT64_MAX ? INT64_MAX : max;
    for (uint64_t done = 0;;) {
        ssize_t n = read(src, buf, CHUNK);
        if (n == 0) {
            return (int64_t)done;
        }
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        if ((uint64_t)n > max - done) {
            return -EFBIG;
        }
        int r = bx_write_full(dst, buf, (size_t)n);
        if (r < 0) {
            return r;
        }
        done += (uint64_t)n;
    }
}
