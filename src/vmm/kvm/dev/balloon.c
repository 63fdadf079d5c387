/* SPDX-License-Identifier: Apache-2.0 */
/*
 * balloon.c: virtio-balloon (virtio 1.2, 5.5) with free-page reporting and deflate on OOM.
 *
 * Two ways to give memory back. Reporting: the guest's allocator names free ranges by itself, a chain
 * of pieces that we may "write". The balloon proper: asked for by the host, a list of page numbers.
 * Both mean the same here: the host frees the pages, the guest sees zeros (or, where a file was mapped
 * there, the file) when it uses them again. Nothing else of the VMM lives in guest memory, so a guest
 * that names pages in use only loses its own data.
 */
#include "vmm/kvm/dev/balloon.h"

#include <linux/virtio_ids.h>
#include <string.h>
#include <sys/mman.h>

enum { INFLATE, DEFLATE, REPORTING, QUEUES };
#define BATCH 256 /* page numbers copied at once */

static struct bx_balloon *of(struct bx_virtio *v)
{
    return (struct bx_balloon *)v;
}

/* The whole pages of a range that is known to be guest memory. */
static void give_back(struct bx_balloon *b, void *host, size_t len)
{
    uintptr_t start = ((uintptr_t)host + BX_PAGE - 1) & ~(uintptr_t)(BX_PAGE - 1);
    uintptr_t end = ((uintptr_t)host + len) & ~(uintptr_t)(BX_PAGE - 1);

    if (start < end && madvise((void *)start, end - start, MADV_DONTNEED) == 0) {
        b->freed += end - start;
    }
}

/* A list of page numbers; runs of them are freed together. */
static void inflate(struct bx_balloon *b, const struct bx_chain *c)
{
    uint32_t pfns[BATCH];
    uint64_t run = 0, run_len = 0;
    size_t off = 0, got;

    while ((got = bx_iov_read(c->iov, c->nout, off, pfns, sizeof(pfns)) / sizeof(pfns[0])) > 0) {
        off += got * sizeof(pfns[0]);
        for (size_t i = 0; i < got; i++) {
            uint64_t gpa = (uint64_t)pfns[i] << VIRTIO_BALLOON_PFN_SHIFT;

            if (run_len > 0 && gpa == run + run_len && bx_gmem_at(b->mem, run, run_len + BX_PAGE)) {
                run_len += BX_PAGE;
                continue;
            }
            if (run_len > 0) {
                give_back(b, bx_gmem_at(b->mem, run, run_len), run_len);
            }
            run = gpa;
            run_len = bx_gmem_at(b->mem, gpa, BX_PAGE) ? BX_PAGE : 0;
        }
    }
    if (run_len > 0) {
        give_back(b, bx_gmem_at(b->mem, run, run_len), run_len);
    }
}

static void report(struct bx_balloon *b, const struct bx_chain *c)
{
    for (unsigned i = 0; i < c->nin; i++) {
        give_back(b, bx_chain_in(c)[i].iov_base, bx_chain_in(c)[i].iov_len);
    }
}

static void serve(struct bx_virtio *v, unsigned queue)
{
    struct bx_balloon *b = of(v);
    struct bx_chain c;

    do {
        while (bx_virtio_pop(v, queue, &c)) {
            if (queue == INFLATE) {
                inflate(b, &c);
            } else if (queue == REPORTING) {
                report(b, &c);
            }
            bx_virtio_push(v, queue, &c, 0);
        }
    } while (bx_virtio_live(v) && bx_vq_wait(&v->vq[queue], 0));
    bx_virtio_signal(v, queue);
}

static void work(struct bx_virtio *v)
{
    for (unsigned i = 0; i < QUEUES; i++) {
        serve(v, i);
    }
}

void bx_balloon_resize(struct bx_balloon *b, uint64_t bytes)
{
    (void)pthread_mutex_lock(&b->v.lock);
    b->config.num_pages = (uint32_t)(bytes / BX_PAGE);
    bx_virtio_config_changed(&b->v);
    (void)pthread_mutex_unlock(&b->v.lock);
}

static void reset(struct bx_virtio *v)
{
    of(v)->config.actual = 0;
}

/* Only `actual` is the driver's; what it wrote elsewhere is put back. */
static void config_written(struct bx_virtio *v)
{
    of(v)->config.free_page_hint_cmd_id = 0;
    of(v)->config.poison_val = 0;
}

void bx_balloon_init(struct bx_balloon *b, const struct bx_gmem *mem)
{
    static const struct bx_virtio_ops ops = {
        .name = "balloon",
        .id = VIRTIO_ID_BALLOON,
        .nqueues = QUEUES,
        .queue_max = 128,
        .features = 1ull << VIRTIO_BALLOON_F_DEFLATE_ON_OOM | 1ull << VIRTIO_BALLOON_F_REPORTING,
        .reset = reset,
        .work = work,
        .config_written = config_written,
    };

    *b = (struct bx_balloon){.mem = mem};
    bx_virtio_init(&b->v, &ops, mem, 0, &b->config, sizeof(b->config));
}
