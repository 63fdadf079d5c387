/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h: a FUSE request, checked and taken apart.
 *
 * The bytes come from the guest's kernel, which may be anything. What the parser lets through has the
 * arguments that its operation needs (copied, so aligned and unchanging), names that are single
 * components where the operation walks a folder, and data whose length is what the arguments say.
 * What the numbers mean is for the operations to judge.
 */
#ifndef BX_SHARE_REQUEST_H
#define BX_SHARE_REQUEST_H

#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>

#define BX_FUSE_IO_MAX (256u << 10) /* most bytes of one read or write */
/* The longest request: a write, or a name and a value of an extended attribute. */
#define BX_FUSE_REQUEST_MAX (BX_FUSE_IO_MAX + 4096u)
#define BX_FUSE_REPLY_MAX (BX_FUSE_IO_MAX + 4096u)
#define BX_FUSE_FORGETS_MAX (BX_FUSE_REQUEST_MAX / sizeof(struct fuse_forget_one))

union bx_fuse_arg {
    struct fuse_init_in init;
    struct fuse_forget_in forget;
    struct fuse_batch_forget_in batch_forget;
    struct fuse_getattr_in getattr;
    struct fuse_setattr_in setattr;
    struct fuse_mknod_in mknod;
    struct fuse_mkdir_in mkdir;
    struct fuse_rename2_in rename; /* flags 0 for the old RENAME */
    struct fuse_link_in link;
    struct fuse_open_in open;
    struct fuse_create_in create;
    struct fuse_read_in read;
    struct fuse_write_in write;
    struct fuse_release_in release;
    struct fuse_flush_in flush;
    struct fuse_fsync_in fsync;
    struct fuse_getxattr_in getxattr;
    struct {
        uint32_t size, flags; /* the short form: FUSE_SETXATTR_EXT is not asked for */
    } setxattr;
    struct fuse_access_in access;
    struct fuse_interrupt_in interrupt;
    struct fuse_fallocate_in fallocate;
    struct fuse_lseek_in lseek;
    struct fuse_copy_file_range_in copy;
};

struct bx_fuse_request {
    struct fuse_in_header head;
    union bx_fuse_arg arg;
    const char *name, *name2; /* NULL: the operation has none; point into the message */
    const uint8_t *data;      /* what follows; may be unaligned */
    size_t len;
};

/* The length that a message's first bytes claim, or 0 while fewer than 4 are there. */
uint32_t bx_fuse_length(const void *msg, size_t len);
/* 0. -EPROTO: no request at all, head is not set: the stream is broken. Another error: head is set and
 * the request is to be answered with it (ENOSYS: an operation that is not served). */
int bx_fuse_parse(const void *msg, size_t len, struct bx_fuse_request *ret);

#endif
