/* SPDX-License-Identifier: Apache-2.0 */
/*
 * changes_out.c: the built-in changes-out: an overlay's upper folder as a layer of an image (OCI image
 * specification, "Layer Filesystem Changeset").
 *
 *     changes-out UPPER MERGED|"" [PATH…]
 *
 * MERGED "@/path" is a place in the container, looked up in its root.
 *
 * It runs in the agent's own view, outside the container, because only there the upper folder and its
 * trusted.overlay.* attributes are to be seen. What stands in UPPER was made by the guest's users and is
 * walked by descriptors, never by a path with a link in it.
 *
 *   a whiteout (a device 0:0, or an empty file marked so)   .wh.NAME
 *   an opaque folder                                        the folder, then .wh..wh..opq in it
 *   a folder that was renamed (redirect), or a file that    taken whole from MERGED, the joined view, and
 *   holds only its attributes (metacopy)                    such a folder is opaque
 *
 * Names of a folder come sorted, so the same changes give the same bytes. Extended attributes are kept but for
 * the overlay's own. Names of one file become hard links of the first. Holes stay holes (GNU sparse 1.0).
 * Each PATH ("/etc/hosts") is left out with all below it: what the agent itself puts there. Left out with a
 * line on standard error: sockets, and files whose names begin with ".wh.", which a layer cannot hold.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.h"
#include "base/str.h"
#include "guest/tar.h"

#define DEPTH_MAX 1024
#define PATH_BYTES_MAX (256u * 1024u)
#define NAMES_BYTES_MAX (1u << 30) /* names of one folder */
#define PAX_MAX (1u << 20)
#define XATTR_NAMES_MAX 65536
#define XATTR_VALUE_MAX 65536
#define LINKS_MAX (1u << 20)    /* files with several names; the names of more stand alone */
#define SEGMENTS_MAX (1u << 16) /* of a sparse file; more holes are filled with zeros */
#define CHUNK (128u * 1024u)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"
#define OVERLAY "trusted.overlay."

struct link {
    dev_t dev;
    ino_t ino;
    char *name;
};

struct segment {
    uint64_t from, len;
};

struct out {
    struct bx_buf path; /* name in the archive, "" for the top */
    struct bx_buf block;
    struct bx_buf extra; /* pax records of the entry at hand */
    int merged;          /* the joined view, or -1 */
    bool in_merged;      /* walking in it */
    bool opaque;         /* the next folder is, whatever it says */
    char *const *skip;
    size_t nskip;
    void *links; /* tsearch tree of struct link */
    size_t nlinks;
    struct segment *map;
    size_t nmap;
    int depth;
    int status;
    uint8_t chunk[CHUNK];
    char xattr_names[XATTR_NAMES_MAX];
    char xattr_value[XATTR_VALUE_MAX];
};

/* errnum 0: only told, not a failure. */
static void complain(struct out *o, const char *what, int errnum)
{
    (void)dprintf(2, "changes-out: %s: %s%s%s\n", o->path.len ? bx_buf_str(&o->path) : "/", what,
                  errnum ? ": " : "", errnum ? strerror(errnum) : "");
    o->status = errnum ? 1 : o->status;
}

/* -errno: the output is gone, so everything ends. */
static int emit(struct out *o, const void *p, size_t len)
{
    int r = bx_write_full(1, p, len);
    if (r < 0) {
        o->status = 1;
    }
    return r;
}

static int emit_padding(struct out *o, uint64_t len)
{
    static const char zeros[TAR_BLOCK];
    return emit(o, zeros, (size_t)((TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK));
}

static int emit_header(struct out *o, struct tar_entry *e)
{
    e->name = (char *)bx_buf_str(&o->path);
    e->extra = &o->extra;
    bx_buf_clear(&o->block);
    int r = tar_write_header(&o->block, e);
    bx_buf_clear(&o->extra);
    if (r < 0) {
        complain(o, "header", -r);
        return r;
    }
    return emit(o, bx_buf_data(&o->block), o->block.len);
}

static void cut(struct bx_buf *b, size_t len)
{
    b->len = len;
    if (b->base) {
        bx_buf_data(b)[len] = 0;
    }
}

static struct tar_entry entry_of(const struct stat *st, char type)
{
    return (struct tar_entry){
        .type = type,
        .mode = st->st_mode & 07777,
        .uid = st->st_uid,
        .gid = st->st_gid,
        .mtime = st->st_mtim.tv_sec,
        .mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
    };
}

/* ---- attributes --------------------------------------------------------------------------------- */

/* The overlay's mark of that name; "" when there is none. */
static const char *mark(struct out *o, int fd, const char *name)
{
    ssize_t n = o->in_merged ? -1 : fgetxattr(fd, name, o->xattr_value, XATTR_VALUE_MAX - 1);
    o->xattr_value[n < 0 ? 0 : n] = 0;
    return o->xattr_value;
}

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int put_xattr(struct out *o, int fd, const char *name)
{
    char key[300];
    ssize_t n = fgetxattr(fd, name, o->xattr_value, XATTR_VALUE_MAX);
    if (n < 0) {
        return errno == ENODATA ? 0 : -errno;
    }
    (void)snprintf(key, sizeof(key), "SCHILY.xattr.%s", name);
    return tar_put_record(&o->extra, key, o->xattr_value, (size_t)n);
}

/* All but the overlay's own and a label that the kernel makes up, by name. A name with '=' cannot be said. */
static void put_xattrs(struct out *o, int fd)
{
    static const char *names[1024];
    size_t count = 0;
    ssize_t n = flistxattr(fd, o->xattr_names, XATTR_NAMES_MAX);
    if (n < 0) {
        if (errno != ENOTSUP) {
            complain(o, "listing attributes", errno);
        }
        return;
    }
    for (const char *p = o->xattr_names; p < o->xattr_names + n; p += strlen(p) + 1) {
        if (bx_startswith(p, OVERLAY) || bx_streq(p, "security.selinux")) {
            continue;
        }
        if (strchr(p, '=') || count == BX_ARRAY_SIZE(names)) {
            complain(o, "left out: an attribute", 0);
            continue;
        }
        names[count++] = p;
    }
    qsort(names, count, sizeof(*names), compare_strings);
    for (size_t i = 0; i < count; i++) {
        int r = put_xattr(o, fd, names[i]);
        if (r < 0) {
            complain(o, names[i], -r);
        }
    }
}

/* ---- files -------------------------------------------------------------------------------------- */

/* Where the data is. False: as one piece, there are no holes worth it. */
static bool map_segments(struct out *o, int fd, const struct stat *st)
{
    uint64_t size = (uint64_t)st->st_size, at = 0;
    o->nmap = 0;
    if ((uint64_t)st->st_blocks * 512 >= size) {
        return false;
    }
    while (at < size) {
        off_t from = lseek(fd, (off_t)at, SEEK_DATA);
        if (from < 0) {
            return errno == ENXIO;
        }
        off_t to = lseek(fd, from, SEEK_HOLE);
        uint64_t end = to < 0 ? 0 : (uint64_t)to < size ? (uint64_t)to : size;
        if (end <= (uint64_t)from || o->nmap == SEGMENTS_MAX) {
            return false;
        }
        if (!o->map && !(o->map = malloc(SEGMENTS_MAX * sizeof(*o->map)))) {
            return false;
        }
        o->map[o->nmap++] = (struct segment){(uint64_t)from, end - (uint64_t)from};
        at = end;
    }
    return true;
}

/* Exactly that many bytes from there, as the header has promised; zeros where the file became shorter. */
static int emit_range(struct out *o, int fd, uint64_t from, uint64_t len)
{
    bool whole = lseek(fd, (off_t)from, SEEK_SET) >= 0;
    while (len > 0) {
        size_t want = len < CHUNK ? (size_t)len : CHUNK;
        ssize_t n = whole ? bx_read_full(fd, o->chunk, want) : 0;
        if (n < (ssize_t)want) {
            complain(o, "became shorter", n < 0 ? (int)-n : EIO);
            n = n < 0 ? 0 : n;
            memset(o->chunk + n, 0, want - (size_t)n);
            whole = false;
        }
        int r = emit(o, o->chunk, want);
        if (r < 0) {
            return r;
        }
        len -= want;
    }
    return 0;
}

static int sparse_records(struct out *o, uint64_t size)
{
    char text[32];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
    int r = tar_put_record(&o->extra, "GNU.sparse.major", "1", 1);
    r = r < 0 ? r : tar_put_record(&o->extra, "GNU.sparse.minor", "0", 1);
    r = r < 0 ? r
              : tar_put_record(&o->extra, "GNU.sparse.name", bx_buf_data(&o->path), o->path.len);
    return r < 0 ? r : tar_put_record(&o->extra, "GNU.sparse.realsize", text, (size_t)n);
}

static int sparse_map(const struct out *o, uint64_t size, struct bx_buf *map, uint64_t *total)
{
    bool tail = o->nmap == 0 || o->map[o->nmap - 1].from + o->map[o->nmap - 1].len < size;
    int r = bx_buf_appendf(map, "%zu\n", o->nmap + tail);
    for (size_t i = 0; r == 0 && i < o->nmap; i++) {
        r = bx_buf_appendf(map, "%llu\n%llu\n", (unsigned long long)o->map[i].from,
                           (unsigned long long)o->map[i].len);
        *total += o->map[i].len;
    }
    return r < 0 || !tail ? r : bx_buf_appendf(map, "%llu\n0\n", (unsigned long long)size);
}

static int emit_sparse(struct out *o, int fd, struct tar_entry *e, uint64_t size)
{
    struct bx_buf map = BX_BUF_INIT(SEGMENTS_MAX * 48);
    uint64_t data = 0;
    int r = sparse_records(o, size);
    r = r < 0 ? r : sparse_map(o, size, &map, &data);
    e->size = (map.len + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK + data;
    r = r < 0 ? r : emit_header(o, e);
    r = r < 0 ? r : emit(o, bx_buf_data(&map), map.len);
    r = r < 0 ? r : emit_padding(o, map.len);
    for (size_t i = 0; r == 0 && i < o->nmap; i++) {
        r = emit_range(o, fd, o->map[i].from, o->map[i].len);
    }
    bx_buf_done(&map);
    return r < 0 ? r : emit_padding(o, data);
}

static int compare_links(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    if (x->ino != y->ino) {
        return x->ino < y->ino ? -1 : 1;
    }
    return x->dev < y->dev ? -1 : x->dev > y->dev;
}

/* The first name of this file, or NULL: this one is. */
static const char *first_name(struct out *o, const struct stat *st)
{
    struct link key = {st->st_dev, st->st_ino, NULL};
    if (st->st_nlink < 2) {
        return NULL;
    }
    struct link *const *found = tfind(&key, &o->links, compare_links);
    if (found) {
        return (*found)->name;
    }
    struct link *fresh = o->nlinks < LINKS_MAX ? malloc(sizeof(*fresh)) : NULL;
    if (fresh) {
        *fresh = (struct link){st->st_dev, st->st_ino, strdup(bx_buf_str(&o->path))};
        if (fresh->name && tsearch(fresh, &o->links, compare_links)) {
            o->nlinks++;
        }
    }
    return NULL;
}

static int out_whiteout(struct out *o, size_t parent, const struct stat *st)
{
    _cleanup_free_ char *name = strdup(bx_buf_str(&o->path) + parent);
    struct tar_entry e = {.type = TAR_FILE, .mtime = st->st_mtim.tv_sec};
    cut(&o->path, parent);
    int r = name ? bx_buf_appendf(&o->path, WHITEOUT "%s", name) : -ENOMEM;
    return r < 0 ? r : emit_header(o, &e);
}

static int out_merged(struct out *o, const char *path, size_t parent);

static int out_file(struct out *o, int dirfd, const char *name, size_t parent)
{
    struct stat st;
    _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        complain(o, "open", fd < 0 ? errno : EIO);
        return 0;
    }
    if (st.st_size == 0 && fgetxattr(fd, OVERLAY "whiteout", NULL, 0) >= 0 && !o->in_merged) {
        return out_whiteout(o, parent, &st);
    }
    if (!o->in_merged && fgetxattr(fd, OVERLAY "metacopy", NULL, 0) >= 0) {
        return out_merged(o, bx_buf_str(&o->path), parent);
    }
    const char *first = first_name(o, &st);
    struct tar_entry e = entry_of(&st, first ? TAR_HARDLINK : TAR_FILE);
    if (first) {
        e.link = (char *)first;
        return emit_header(o, &e);
    }
    put_xattrs(o, fd);
    if (map_segments(o, fd, &st)) {
        return emit_sparse(o, fd, &e, (uint64_t)st.st_size);
    }
    e.size = (uint64_t)st.st_size;
    int r = emit_header(o, &e);
    r = r < 0 ? r : emit_range(o, fd, 0, e.size);
    return r < 0 ? r : emit_padding(o, e.size);
}

static int out_symlink(struct out *o, int dirfd, const char *name, const struct stat *st)
{
    char target[4097];
    struct tar_entry e = entry_of(st, TAR_SYMLINK);
    ssize_t n = readlinkat(dirfd, name, target, sizeof(target) - 1);
    if (n < 0) {
        complain(o, "readlink", errno);
        return 0;
    }
    target[n] = 0;
    e.mode = 0777;
    e.link = target;
    return emit_header(o, &e);
}

static int out_special(struct out *o, const struct stat *st, char type)
{
    struct tar_entry e = entry_of(st, type);
    e.major = major(st->st_rdev);
    e.minor = minor(st->st_rdev);
    return emit_header(o, &e);
}

/* ---- folders ------------------------------------------------------------------------------------ */

/* Without following a link, and not into another file system: -EXDEV. */
static int open_dir(int dirfd, const char *name)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH,
    };
    long fd = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

/* The names in a folder, sorted: *ret points into *text. */
static int read_names(int fd, struct bx_buf *text, const char ***ret, size_t *ret_n)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    _cleanup_closedir_ DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *d;
    size_t n = 0;
    if (!dir) {
        int r = -errno;
        if (copy >= 0) {
            (void)close(copy);
        }
        return r;
    }
    while (errno = 0, (d = readdir(dir))) {
        if (!bx_streq(d->d_name, ".") && !bx_streq(d->d_name, "..")) {
            int r = bx_buf_append(text, d->d_name, strlen(d->d_name) + 1);
            if (r < 0) {
                return r;
            }
            n++;
        }
    }
    if (errno) {
        return -errno;
    }
    const char **names = calloc(n + 1, sizeof(*names));
    const char *p = bx_buf_str(text);
    if (!names) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < n; i++, p += strlen(p) + 1) {
        names[i] = p;
    }
    qsort(names, n, sizeof(*names), compare_strings);
    *ret = names;
    *ret_n = n;
    return 0;
}

static bool skipped(const struct out *o)
{
    for (size_t i = 0; i < o->nskip; i++) {
        if (*o->skip[i] == '/' && bx_streq(o->skip[i] + 1, bx_buf_str(&o->path))) {
            return true;
        }
    }
    return false;
}

static int out_node(struct out *o, int dirfd, const char *name, size_t parent);

static int out_children(struct out *o, int fd)
{
    struct bx_buf text = BX_BUF_INIT(NAMES_BYTES_MAX);
    _cleanup_free_ const char **names = NULL;
    size_t n = 0, len = o->path.len;
    int r = read_names(fd, &text, &names, &n);
    if (r < 0) {
        complain(o, "reading the folder", -r);
        bx_buf_done(&text);
        return 0;
    }
    for (size_t i = 0; r == 0 && i < n; i++) {
        r = bx_buf_appends(&o->path, names[i]);
        if (r == 0 && bx_startswith(names[i], WHITEOUT)) {
            complain(o, "left out: its name means something else in a layer", 0);
        } else if (r == 0 && !skipped(o)) {
            r = out_node(o, fd, names[i], len);
        }
        cut(&o->path, len);
    }
    bx_buf_done(&text);
    return r;
}

static int out_opaque(struct out *o)
{
    size_t len = o->path.len;
    struct tar_entry e = {.type = TAR_FILE};
    int r = bx_buf_appends(&o->path, OPAQUE);
    r = r < 0 ? r : emit_header(o, &e);
    cut(&o->path, len);
    return r;
}

/* A folder of the upper that is not the top: itself, its mark, its children. */
static int out_dir(struct out *o, int dirfd, const char *name, const struct stat *st, size_t parent)
{
    struct tar_entry e = entry_of(st, TAR_DIR);
    _cleanup_close_ int fd = open_dir(dirfd, name);
    if (fd == -EXDEV) {
        return 0; /* something is mounted there */
    }
    if (fd < 0 || o->depth >= DEPTH_MAX) {
        complain(o, "open", fd < 0 ? -fd : ELOOP);
        return 0;
    }
    if (*mark(o, fd, OVERLAY "redirect")) {
        return out_merged(o, bx_buf_str(&o->path), parent);
    }
    bool opaque = o->opaque || bx_streq(mark(o, fd, OVERLAY "opaque"), "y");
    o->opaque = false;
    put_xattrs(o, fd);
    int r = bx_buf_appends(&o->path, "/");
    r = r < 0 ? r : emit_header(o, &e);
    r = r < 0 || !opaque ? r : out_opaque(o);
    o->depth++;
    r = r < 0 ? r : out_children(o, fd);
    o->depth--;
    return r;
}

/* What only the joined view shows whole. A folder hides what the image has at its place. */
static int out_merged(struct out *o, const char *path, size_t parent)
{
    if (o->merged < 0) {
        complain(o, "stands for another place, and there is no joined view", EXDEV);
        return 0;
    }
    _cleanup_free_ char *copy = strdup(path);
    struct open_how how = {.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH};
    if (!copy) {
        complain(o, "the joined view", ENOMEM);
        return 0;
    }
    char *slash = strrchr(copy, '/');
    *(slash ? slash : copy) = 0;
    _cleanup_close_ int dir =
        (int)syscall(SYS_openat2, o->merged, *copy ? copy : ".", &how, sizeof(how));
    if (dir < 0) {
        complain(o, "the joined view", errno);
        return 0;
    }
    o->in_merged = o->opaque = true;
    int r = out_node(o, dir, slash ? slash + 1 : path, parent);
    o->in_merged = o->opaque = false;
    return r;
}

static int out_node(struct out *o, int dirfd, const char *name, size_t parent)
{
    struct stat st;
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        if (errno != ENOENT) { /* gone since it was listed */
            complain(o, "stat", errno);
        }
        return 0;
    }
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        return out_file(o, dirfd, name, parent);
    case S_IFLNK:
        return out_symlink(o, dirfd, name, &st);
    case S_IFDIR:
        return out_dir(o, dirfd, name, &st, parent);
    case S_IFIFO:
        return out_special(o, &st, TAR_FIFO);
    case S_IFCHR:
        return st.st_rdev == 0 ? out_whiteout(o, parent, &st) : out_special(o, &st, TAR_CHAR);
    case S_IFBLK:
        return out_special(o, &st, TAR_BLOCKDEV);
    default:
        complain(o, "left out: a socket", 0);
        return 0;
    }
}

static void free_link(void *p)
{
    free(((struct link *)p)->name);
    free(p);
}

static void links_done(struct out *o)
{
    while (o->links) {
        struct link *l = *(struct link **)o->links;
        (void)tdelete(l, &o->links, compare_links);
        free_link(l);
    }
}

static void raise_nofile(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
        rl.rlim_cur = rl.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &rl);
    }
}

int changes_container_root = -1;

static int open_merged(const char *path, int flags)
{
    struct open_how how = {.flags = (uint64_t)(unsigned)flags,
                           .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    if (*path != '@') {
        return open(path, flags);
    }
    return (int)syscall(SYS_openat2, changes_container_root, path + 1, &how, sizeof(how));
}

int changes_out(char *const *argv, size_t argc)
{
    static struct out o; /* too big for the stack, zero so that it takes no space in the program */
    static const char end[2 * TAR_BLOCK];
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it sees more than the container may */
    o.path.max = PATH_BYTES_MAX;
    o.block.max = 2 * PAX_MAX;
    o.extra.max = PAX_MAX;
    o.skip = argv + 2;
    o.nskip = argc - 2;
    raise_nofile();
    _cleanup_close_ int fd = open(argv[0], flags);
    _cleanup_close_ int merged = *argv[1] ? open_merged(argv[1], flags) : -1;
    if (fd < 0 || (*argv[1] && merged < 0)) {
        (void)dprintf(2, "changes-out: %s: %s\n", argv[fd < 0 ? 0 : 1], strerror(errno));
        return 1;
    }
    o.merged = merged;
    if (out_children(&o, fd) == 0) {
        (void)emit(&o, end, sizeof(end));
    }
    links_done(&o);
    free(o.map);
    bx_buf_done(&o.path);
    bx_buf_done(&o.block);
    bx_buf_done(&o.extra);
    return o.status;
}
