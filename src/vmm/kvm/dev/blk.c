/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blk.c: virtio-blk (virtio 1.2, 5.2): read, write, flush, discard, write zeroes, and the disk's id.
 *
 * Requests are done one after the other by a thread of the disk's own, with the guest's buffers as
 * they are: most of them are answered from the host's page cache, where a second thread would cost
 * more than it brings. Other devices and the vCPUs never wait for a disk.
 *
 * The guest controls: the type, the sector and the length of each request, and where in its chain the
 * pieces begin. The header is copied first; the status byte is the last byte of what may be written.
 * A request outside of the disk, of an odd length, or for a change of a read-only disk is an I/O
 * error of the guest's. A chain without room for header and status breaks the device.
 */
#include "vmm/kvm/dev/blk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define SECTOR 512u
#define RANGES_MAX 16u               /* of one discard or write-zeroes request */
#define RANGE_SECTORS_MAX (1u << 21) /* 1 GiB each */

static struct bx_blk *of(struct bx_virtio *v)
{
    return (struct bx_blk *)v;
}

static bool inside(const struct bx_blk *b, uint64_t sector, uint64_t bytes)
{
    return sector <= b->size / SECTOR && bytes <= b->size - sector * SECTOR;
}

/* A run of pieces from or to the image, whole. */
static uint8_t transfer(const struct bx_blk *b, const struct iovec *iov, unsigned n, size_t len,
                        uint64_t sector, bool write)
{
    struct iovec rest[BX_CHAIN_MAX];
    off_t off = (off_t)(sector * SECTOR);
    size_t done = 0;

    if (len % SECTOR || !inside(b, sector, len)) {
        return VIRTIO_BLK_S_IOERR;
    }
    while (done < len) {
        int pieces = (int)bx_iov_cut(iov, n, done, len - done, rest);
        ssize_t r = write ? pwritev(b->fd, rest, pieces, off + (off_t)done)
                          : preadv(b->fd, rest, pieces, off + (off_t)done);
        if (r < 0 && errno == EINTR) {
            continue;
        }
        if (r <= 0) { /* 0: the image was cut off under us */
            return VIRTIO_BLK_S_IOERR;
        }
        done += (size_t)r;
    }
    return VIRTIO_BLK_S_OK;
}

static uint8_t clear_range(const struct bx_blk *b, const struct virtio_blk_discard_write_zeroes *r,
                           bool discard)
{
    bool unmap = discard || (r->flags & VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP);
    int mode = unmap ? FALLOC_FL_PUNCH_HOLE : FALLOC_FL_ZERO_RANGE;
    off_t off = (off_t)(r->sector * SECTOR), len = (off_t)r->num_sectors * SECTOR;

    if (r->num_sectors > RANGE_SECTORS_MAX || !inside(b, r->sector, (uint64_t)len) ||
        (r->flags & ~(discard ? 0u : VIRTIO_BLK_WRITE_ZEROES_FLAG_UNMAP))) {
        return VIRTIO_BLK_S_IOERR;
    }
    if (len == 0 || fallocate(b->fd, mode | FALLOC_FL_KEEP_SIZE, off, len) == 0) {
        return VIRTIO_BLK_S_OK;
    }
    if (!unmap && errno == EOPNOTSUPP && /* tmpfs knows holes only, which read as zeros as well */
        fallocate(b->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, off, len) == 0) {
        return VIRTIO_BLK_S_OK;
    }
    return errno == EOPNOTSUPP ? VIRTIO_BLK_S_UNSUPP : VIRTIO_BLK_S_IOERR;
}

static uint8_t clear(const struct bx_blk *b, const struct bx_chain *c, bool discard)
{
    struct virtio_blk_discard_write_zeroes ranges[RANGES_MAX];
    size_t len = c->out_len - sizeof(struct virtio_blk_outhdr);
    uint8_t status = VIRTIO_BLK_S_OK;

    if (len == 0 || len % sizeof(ranges[0]) || len > sizeof(ranges)) {
        return VIRTIO_BLK_S_IOERR;
    }
    (void)bx_iov_read(c->iov, c->nout, sizeof(struct virtio_blk_outhdr), ranges, len);
    for (size_t i = 0; i < len / sizeof(ranges[0]) && status == VIRTIO_BLK_S_OK; i++) {
        status = clear_range(b, &ranges[i], discard);
    }
    return status;
}

/* in: what may be written of the chain without the status byte. */
static uint8_t perform(struct bx_blk *b, const struct virtio_blk_outhdr *h,
                       const struct bx_chain *c, const struct iovec *in, unsigned nin,
                       size_t in_len, uint32_t *ret_written)
{
    static const char id[VIRTIO_BLK_ID_BYTES] = "boxlite";
    struct iovec out[BX_CHAIN_MAX];

    if (b->read_only && (h->type == VIRTIO_BLK_T_OUT || h->type == VIRTIO_BLK_T_DISCARD ||
                         h->type == VIRTIO_BLK_T_WRITE_ZEROES)) {
        return VIRTIO_BLK_S_IOERR;
    }
    switch (h->type) {
    case VIRTIO_BLK_T_IN:
        *ret_written = (uint32_t)in_len;
        return transfer(b, in, nin, in_len, h->sector, false);
    case VIRTIO_BLK_T_OUT: {
        size_t len = c->out_len - sizeof(*h);
        unsigned n = bx_iov_cut(c->iov, c->nout, sizeof(*h), len, out);
        b->v.n.bytes_out += len;
        return transfer(b, out, n, len, h->sector, true);
    }
    case VIRTIO_BLK_T_FLUSH:
        return fdatasync(b->fd) == 0 ? VIRTIO_BLK_S_OK : VIRTIO_BLK_S_IOERR;
    case VIRTIO_BLK_T_DISCARD:
    case VIRTIO_BLK_T_WRITE_ZEROES:
        return clear(b, c, h->type == VIRTIO_BLK_T_DISCARD);
    case VIRTIO_BLK_T_GET_ID:
        *ret_written = (uint32_t)bx_iov_write(in, nin, 0, id, sizeof(id));
        return VIRTIO_BLK_S_OK;
    default:
        return VIRTIO_BLK_S_UNSUPP;
    }
}

/* One request. False: not even a request. */
static bool serve(struct bx_blk *b, const struct bx_chain *c, uint32_t *ret_written)
{
    struct virtio_blk_outhdr h;
    struct iovec in[BX_CHAIN_MAX];

    if (c->in_len < 1 || c->in_len > UINT32_MAX ||
        bx_iov_read(c->iov, c->nout, 0, &h, sizeof(h)) != sizeof(h)) {
        return false;
    }
    size_t in_len = c->in_len - 1;
    unsigned nin = bx_iov_cut(bx_chain_in(c), c->nin, 0, in_len, in);
    *ret_written = 0;
    uint8_t status = perform(b, &h, c, in, nin, in_len, ret_written);
    (void)bx_iov_write(bx_chain_in(c), c->nin, in_len, &status, 1);
    *ret_written += 1;
    return true;
}

static void work(struct bx_virtio *v)
{
    struct bx_blk *b = of(v);
    struct bx_chain c;
    uint32_t written;

    do {
        while (bx_virtio_pop(v, 0, &c)) {
            if (!serve(b, &c, &written)) {
                bx_virtio_break(v);
                return;
            }
            bx_virtio_push(v, 0, &c, written);
            bx_virtio_signal(v, 0);
        }
    } while (bx_virtio_live(v) && bx_vq_wait(&v->vq[0], 0));
}

static void reset(struct bx_virtio *v)
{
    (void)v; /* a request is done before the lock is free: nothing is under way */
}

void *bx_blk_worker(void *blk)
{
    struct bx_blk *b = blk;

    for (;;) {
        bx_virtio_notified(&b->v);
    }
    return NULL;
}

int bx_blk_init(struct bx_blk *b, const struct bx_gmem *mem, int fd, bool read_only,
                boxlite_error **err)
{
    static const struct bx_virtio_ops ops = {
        .name = "blk",
        .id = VIRTIO_ID_BLOCK,
        .nqueues = 1,
        .queue_max = 128,
        .features = 1ull << VIRTIO_BLK_F_SEG_MAX | 1ull << VIRTIO_BLK_F_BLK_SIZE |
                    1ull << VIRTIO_BLK_F_FLUSH,
        .reset = reset,
        .work = work,
    };
    uint64_t more = read_only ? 1ull << VIRTIO_BLK_F_RO
                              : 1ull << VIRTIO_BLK_F_DISCARD | 1ull << VIRTIO_BLK_F_WRITE_ZEROES;
    off_t end = lseek(fd, 0, SEEK_END); /* a block device has a size as well */

    if (end < 0) {
        return bx_fail_errno(err, BOXLITE_E_IO, errno, "the size of a disk");
    }
    *b = (struct bx_blk){.fd = fd, .read_only = read_only, .size = (uint64_t)end / SECTOR * SECTOR};
    b->config = (struct virtio_blk_config){
        .capacity = b->size / SECTOR,
        .seg_max = BX_CHAIN_MAX - 2,
        .blk_size = SECTOR,
        .max_discard_sectors = RANGE_SECTORS_MAX,
        .max_discard_seg = RANGES_MAX,
        .discard_sector_alignment = 8,
        .max_write_zeroes_sectors = RANGE_SECTORS_MAX,
        .max_write_zeroes_seg = RANGES_MAX,
        .write_zeroes_may_unmap = 1,
    };
    bx_virtio_init(&b->v, &ops, mem, more, &b->config, sizeof(b->config));
    return 0;
}
