/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.c: see request.h. One row a operation: the size of its arguments, its names, what follows.
 */
#include "share/request.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

enum text { TEXT_NONE, TEXT_COMPONENT, TEXT_XATTR, TEXT_TARGET };

struct shape {
    bool served;
    uint8_t arg;         /* bytes of arguments */
    uint8_t first, then; /* enum text */
    bool data;           /* bytes may follow */
};

#define A(member) .arg = sizeof(((union bx_fuse_arg *)0)->member)
#define NAME .first = TEXT_COMPONENT

static const struct shape shapes[] = {
    [FUSE_LOOKUP] = {true, NAME},
    [FUSE_FORGET] = {true, A(forget)},
    [FUSE_GETATTR] = {true, A(getattr)},
    [FUSE_SETATTR] = {true, A(setattr)},
    [FUSE_READLINK] = {true},
    [FUSE_SYMLINK] = {true, NAME, .then = TEXT_TARGET},
    [FUSE_MKNOD] = {true, A(mknod), NAME},
    [FUSE_MKDIR] = {true, A(mkdir), NAME},
    [FUSE_UNLINK] = {true, NAME},
    [FUSE_RMDIR] = {true, NAME},
    [FUSE_RENAME] = {true, .arg = sizeof(struct fuse_rename_in), NAME, .then = TEXT_COMPONENT},
    [FUSE_RENAME2] = {true, A(rename), NAME, .then = TEXT_COMPONENT},
    [FUSE_LINK] = {true, A(link), NAME},
    [FUSE_OPEN] = {true, A(open)},
    [FUSE_READ] = {true, A(read)},
    [FUSE_WRITE] = {true, A(write), .data = true},
    [FUSE_STATFS] = {true},
    [FUSE_RELEASE] = {true, A(release)},
    [FUSE_FSYNC] = {true, A(fsync)},
    [FUSE_SETXATTR] = {true, A(setxattr), .first = TEXT_XATTR, .data = true},
    [FUSE_GETXATTR] = {true, A(getxattr), .first = TEXT_XATTR},
    [FUSE_LISTXATTR] = {true, A(getxattr)},
    [FUSE_REMOVEXATTR] = {true, .first = TEXT_XATTR},
    [FUSE_INIT] = {true, .arg = 16, .data = true}, /* older kernels stop before flags2 */
    [FUSE_OPENDIR] = {true, A(open)},
    [FUSE_READDIR] = {true, A(read)},
    [FUSE_RELEASEDIR] = {true, A(release)},
    [FUSE_FSYNCDIR] = {true, A(fsync)},
    [FUSE_ACCESS] = {true, A(access)},
    [FUSE_CREATE] = {true, A(create), NAME},
    [FUSE_INTERRUPT] = {true, A(interrupt)},
    [FUSE_DESTROY] = {true},
    [FUSE_BATCH_FORGET] = {true, A(batch_forget), .data = true},
    [FUSE_FALLOCATE] = {true, A(fallocate)},
    [FUSE_READDIRPLUS] = {true, A(read)},
    [FUSE_LSEEK] = {true, A(lseek)},
    [FUSE_COPY_FILE_RANGE] = {true, A(copy)},
};

uint32_t bx_fuse_length(const void *msg, size_t len)
{
    uint32_t n = 0;
    if (len >= sizeof(n)) {
        memcpy(&n, msg, sizeof(n));
    }
    return n;
}

static int check_text(const char *s, size_t n, uint8_t kind)
{
    size_t max = kind == TEXT_TARGET ? PATH_MAX - 1 : NAME_MAX;
    if (n > max) {
        return -ENAMETOOLONG;
    }
    if (n == 0) {
        return -EINVAL;
    }
    if (kind == TEXT_COMPONENT &&
        (memchr(s, '/', n) || (s[0] == '.' && (n == 1 || (n == 2 && s[1] == '.'))))) {
        return -EINVAL;
    }
    return 0;
}

/* Takes a string with its NUL off what follows. */
static int take_text(struct bx_fuse_request *r, uint8_t kind, const char **ret)
{
    if (kind == TEXT_NONE) {
        return 0;
    }
    const uint8_t *nul = r->len > 0 ? memchr(r->data, 0, r->len) : NULL;
    if (!nul) {
        return -EINVAL;
    }
    size_t n = (size_t)(nul - r->data);
    *ret = (const char *)r->data;
    r->data += n + 1;
    r->len -= n + 1;
    return check_text(*ret, n, kind);
}

/* Lengths that stand in the arguments are those of what follows. */
static int check_data(const struct bx_fuse_request *r)
{
    switch (r->head.opcode) {
    case FUSE_WRITE:
        return r->arg.write.size == r->len && r->len <= BX_FUSE_IO_MAX ? 0 : -EINVAL;
    case FUSE_SETXATTR:
        return r->arg.setxattr.size == r->len && r->len <= XATTR_SIZE_MAX ? 0 : -EINVAL;
    case FUSE_BATCH_FORGET:
        return r->arg.batch_forget.count <= r->len / sizeof(struct fuse_forget_one) ? 0 : -EINVAL;
    default:
        return 0;
    }
}

static void copy_arg(struct bx_fuse_request *r, const uint8_t *p, const struct shape *s)
{
    memcpy(&r->arg, p, s->arg);
    if (r->head.opcode == FUSE_INIT) { /* flags2 lies in what follows, if it is there */
        size_t rest = sizeof(r->arg.init) - s->arg;
        memcpy((uint8_t *)&r->arg.init + s->arg, p + s->arg, r->len < rest ? r->len : rest);
    }
}

int bx_fuse_parse(const void *msg, size_t len, struct bx_fuse_request *ret)
{
    struct bx_fuse_request r = {0};
    if (len < sizeof(r.head) || len > BX_FUSE_REQUEST_MAX) {
        return -EPROTO;
    }
    memcpy(&r.head, msg, sizeof(r.head));
    if (r.head.len != len) {
        return -EPROTO;
    }
    *ret = r;
    const struct shape *s =
        r.head.opcode < BX_ARRAY_SIZE(shapes) ? &shapes[r.head.opcode] : &shapes[0];
    if (!s->served) {
        return -ENOSYS;
    }
    const uint8_t *p = (const uint8_t *)msg + sizeof(r.head);
    if (len - sizeof(r.head) < s->arg) {
        return -EINVAL;
    }
    r.data = p + s->arg;
    r.len = len - sizeof(r.head) - s->arg;
    copy_arg(&r, p, s);
    int error = take_text(&r, s->first, &r.name);
    error = error < 0 ? error : take_text(&r, s->then, &r.name2);
    error = error < 0 ? error : check_data(&r);
    *ret = r;
    return error;
}
