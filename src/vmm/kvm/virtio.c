/* SPDX-License-Identifier: Apache-2.0 */
/*
 * virtio.c: the transport's registers; see virtio.h.
 *
 * What the guest controls here: every register write, in any order. Queue addresses may be written
 * only while a queue is not ready; they are checked when it is made ready. Features are taken only as
 * a subset of those that were offered, and only if VERSION_1 is among them. A write that makes no
 * sense at its time is ignored, except that a queue that cannot be made ready breaks the device.
 */
#include "vmm/kvm/virtio.h"

#include <errno.h>
#include <linux/virtio_config.h>
#include <linux/virtio_mmio.h>
#include <string.h>
#include <unistd.h>

#define MAGIC 0x74726976 /* "virt" */
#define VERSION 2
#define VENDOR 0x4c584f42 /* "BOXL" */
#define CONFIG_OFF VIRTIO_MMIO_CONFIG
#define COMMON_FEATURES                                                                            \
    (1ull << VIRTIO_F_VERSION_1 | 1ull << VIRTIO_RING_F_EVENT_IDX |                                \
     1ull << VIRTIO_RING_F_INDIRECT_DESC)

void bx_virtio_init(struct bx_virtio *v, const struct bx_virtio_ops *ops, const struct bx_gmem *mem,
                    uint64_t features, void *config, size_t config_len)
{
    v->ops = ops;
    v->features = ops->features | features | COMMON_FEATURES;
    v->config = config;
    v->config_len = config_len;
    v->notify_fd = v->irq_fd = -1;
    for (unsigned i = 0; i < ops->nqueues; i++) {
        v->vq[i] = (struct bx_vq){.max = ops->queue_max, .mem = mem};
    }
    (void)pthread_mutex_init(&v->lock, NULL);
}

void bx_virtio_done(struct bx_virtio *v)
{
    (void)pthread_mutex_destroy(&v->lock);
}

/* ---- state ---------------------------------------------------------------------------------- */

bool bx_virtio_live(const struct bx_virtio *v)
{
    return (v->s.status & (VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_NEEDS_RESET)) ==
           VIRTIO_CONFIG_S_DRIVER_OK;
}

bool bx_virtio_has(const struct bx_virtio *v, unsigned feature_bit)
{
    return v->s.driver_features >> feature_bit & 1;
}

static void ring(int fd)
{
    static const uint64_t one = 1;
    ssize_t n = write(fd, &one, sizeof(one)); /* the counter never comes near to its end */

    (void)n;
}

void bx_virtio_kick(struct bx_virtio *v)
{
    if (v->notify_fd >= 0) {
        ring(v->notify_fd);
    } else if (bx_virtio_live(v)) {
        v->ops->work(v);
    }
}

static void raise_interrupt(struct bx_virtio *v, uint32_t why)
{
    (void)__atomic_fetch_or(&v->s.isr, why, __ATOMIC_SEQ_CST);
    v->n.interrupts++;
    if (v->irq_fd >= 0) {
        ring(v->irq_fd);
    }
}

void bx_virtio_resume(struct bx_virtio *v)
{
    if (v->s.isr) {
        raise_interrupt(v, v->s.isr);
    }
    bx_virtio_kick(v);
}

void bx_virtio_config_changed(struct bx_virtio *v)
{
    v->s.generation++;
    if (v->s.status & VIRTIO_CONFIG_S_DRIVER_OK) {
        raise_interrupt(v, VIRTIO_MMIO_INT_CONFIG);
    }
}

void bx_virtio_break(struct bx_virtio *v)
{
    if (!(v->s.status & VIRTIO_CONFIG_S_NEEDS_RESET)) {
        v->n.breaks++;
        v->s.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        bx_virtio_config_changed(v);
    }
}

static void reset(struct bx_virtio *v)
{
    v->ops->reset(v);
    for (unsigned i = 0; i < v->ops->nqueues; i++) {
        bx_vq_reset(&v->vq[i]);
    }
    __atomic_store_n(&v->s.isr, 0, __ATOMIC_SEQ_CST);
    v->s.driver_features = 0;
    v->s.status = 0;
    v->s.features_sel = v->s.driver_sel = v->s.queue_sel = 0;
}

/* ---- queues --------------------------------------------------------------------------------- */

bool bx_virtio_pop(struct bx_virtio *v, unsigned queue, struct bx_chain *ret)
{
    if (!bx_virtio_live(v)) {
        return false;
    }
    int r = bx_vq_pop(&v->vq[queue], ret);
    if (r < 0) {
        bx_virtio_break(v);
        return false;
    }
    v->n.chains += (uint64_t)r;
    return r > 0;
}

void bx_virtio_push(struct bx_virtio *v, unsigned queue, const struct bx_chain *c, uint32_t written)
{
    v->n.bytes_in += written;
    bx_vq_push(&v->vq[queue], c->head, written);
}

void bx_virtio_signal(struct bx_virtio *v, unsigned queue)
{
    if (bx_vq_interrupt(&v->vq[queue])) {
        raise_interrupt(v, VIRTIO_MMIO_INT_VRING);
    }
}

void bx_virtio_notified(struct bx_virtio *v)
{
    uint64_t count;
    ssize_t n = read(v->notify_fd, &count, sizeof(count));

    (void)n;
    (void)pthread_mutex_lock(&v->lock);
    v->n.wakes++;
    if (bx_virtio_live(v)) {
        v->ops->work(v);
    }
    (void)pthread_mutex_unlock(&v->lock);
}

/* ---- registers ------------------------------------------------------------------------------ */

static struct bx_vq *selected(struct bx_virtio *v)
{
    return v->s.queue_sel < v->ops->nqueues ? &v->vq[v->s.queue_sel] : NULL;
}

static uint32_t read_register(struct bx_virtio *v, uint32_t off)
{
    const struct bx_vq *vq = selected(v);

    switch (off) {
    case VIRTIO_MMIO_MAGIC_VALUE:
        return MAGIC;
    case VIRTIO_MMIO_VERSION:
        return VERSION;
    case VIRTIO_MMIO_DEVICE_ID:
        return v->ops->id;
    case VIRTIO_MMIO_VENDOR_ID:
        return VENDOR;
    case VIRTIO_MMIO_DEVICE_FEATURES:
        return v->s.features_sel > 1 ? 0 : (uint32_t)(v->features >> (32 * v->s.features_sel));
    case VIRTIO_MMIO_QUEUE_NUM_MAX:
        return vq ? vq->max : 0;
    case VIRTIO_MMIO_QUEUE_READY:
        return vq ? vq->s.ready : 0;
    case VIRTIO_MMIO_STATUS:
        return v->s.status;
    case VIRTIO_MMIO_CONFIG_GENERATION:
        return v->s.generation;
    case VIRTIO_MMIO_SHM_LEN_LOW: /* no shared memory: length -1 */
    case VIRTIO_MMIO_SHM_LEN_HIGH:
    case VIRTIO_MMIO_SHM_BASE_LOW:
    case VIRTIO_MMIO_SHM_BASE_HIGH:
        return UINT32_MAX;
    default:
        return 0;
    }
}

static void read_config(struct bx_virtio *v, uint32_t off, uint8_t *ret, unsigned len)
{
    if (off < v->config_len && len <= v->config_len - off) {
        memcpy(ret, v->config + off, len);
    }
}

void bx_virtio_read(struct bx_virtio *v, uint32_t off, void *ret, unsigned len)
{
    uint32_t value;

    memset(ret, 0, len);
    if (off == VIRTIO_MMIO_INTERRUPT_STATUS && len == sizeof(value)) {
        value = __atomic_load_n(&v->s.isr, __ATOMIC_SEQ_CST);
        memcpy(ret, &value, sizeof(value));
        return;
    }
    (void)pthread_mutex_lock(&v->lock);
    if (off >= CONFIG_OFF) {
        read_config(v, off - CONFIG_OFF, ret, len);
    } else if (len == sizeof(value)) {
        value = read_register(v, off);
        memcpy(ret, &value, sizeof(value));
    }
    (void)pthread_mutex_unlock(&v->lock);
}

static void write_driver_features(struct bx_virtio *v, uint32_t value)
{
    unsigned shift = 32 * v->s.driver_sel;

    if (v->s.driver_sel > 1 || (v->s.status & VIRTIO_CONFIG_S_FEATURES_OK)) {
        return;
    }
    v->s.driver_features &= ~((uint64_t)UINT32_MAX << shift);
    v->s.driver_features |= (uint64_t)value << shift;
}

static void write_status(struct bx_virtio *v, uint32_t value)
{
    uint32_t old = v->s.status;

    if (value == 0) {
        reset(v);
        return;
    }
    if ((value & VIRTIO_CONFIG_S_FEATURES_OK) &&
        ((v->s.driver_features & ~v->features) || !bx_virtio_has(v, VIRTIO_F_VERSION_1))) {
        value &= ~(uint32_t)VIRTIO_CONFIG_S_FEATURES_OK;
    }
    if (!(value & VIRTIO_CONFIG_S_FEATURES_OK)) { /* no work without agreed features */
        value &= ~(uint32_t)VIRTIO_CONFIG_S_DRIVER_OK;
    }
    v->s.status = old | (value & 0xff & ~(uint32_t)VIRTIO_CONFIG_S_NEEDS_RESET);
    if (!(old & VIRTIO_CONFIG_S_DRIVER_OK) && bx_virtio_live(v)) {
        bx_virtio_kick(v);
    }
}

static void write_ready(struct bx_virtio *v, struct bx_vq *vq, uint32_t value)
{
    if (value == 0) {
        bx_vq_reset(vq);
        return;
    }
    vq->s.event_idx = bx_virtio_has(v, VIRTIO_RING_F_EVENT_IDX);
    if (!vq->s.ready && bx_vq_enable(vq) < 0) {
        bx_virtio_break(v);
    }
}

/* A half of a 64-bit address. */
static void set_half(uint64_t *field, uint32_t value, bool high)
{
    unsigned shift = high ? 32 : 0;

    *field &= ~((uint64_t)UINT32_MAX << shift);
    *field |= (uint64_t)value << shift;
}

static void write_queue(struct bx_virtio *v, uint32_t off, uint32_t value)
{
    struct bx_vq *vq = selected(v);

    if (!vq) {
        return;
    }
    if (off == VIRTIO_MMIO_QUEUE_READY) {
        write_ready(v, vq, value);
        return;
    }
    if (vq->s.ready) {
        return;
    }
    switch (off) {
    case VIRTIO_MMIO_QUEUE_NUM:
        vq->s.size = value <= vq->max ? (uint16_t)value : 0;
        break;
    case VIRTIO_MMIO_QUEUE_DESC_LOW:
    case VIRTIO_MMIO_QUEUE_DESC_HIGH:
        set_half(&vq->s.desc, value, off == VIRTIO_MMIO_QUEUE_DESC_HIGH);
        break;
    case VIRTIO_MMIO_QUEUE_AVAIL_LOW:
    case VIRTIO_MMIO_QUEUE_AVAIL_HIGH:
        set_half(&vq->s.avail, value, off == VIRTIO_MMIO_QUEUE_AVAIL_HIGH);
        break;
    case VIRTIO_MMIO_QUEUE_USED_LOW:
    case VIRTIO_MMIO_QUEUE_USED_HIGH:
        set_half(&vq->s.used, value, off == VIRTIO_MMIO_QUEUE_USED_HIGH);
        break;
    }
}

static void write_register(struct bx_virtio *v, uint32_t off, uint32_t value)
{
    switch (off) {
    case VIRTIO_MMIO_DEVICE_FEATURES_SEL:
        v->s.features_sel = value;
        break;
    case VIRTIO_MMIO_DRIVER_FEATURES_SEL:
        v->s.driver_sel = value;
        break;
    case VIRTIO_MMIO_DRIVER_FEATURES:
        write_driver_features(v, value);
        break;
    case VIRTIO_MMIO_QUEUE_SEL:
        v->s.queue_sel = value;
        break;
    case VIRTIO_MMIO_QUEUE_NOTIFY: /* only where there is no ioeventfd */
        bx_virtio_kick(v);
        break;
    case VIRTIO_MMIO_STATUS:
        write_status(v, value);
        break;
    default:
        write_queue(v, off, value);
    }
}

static void write_config(struct bx_virtio *v, uint32_t off, const uint8_t *data, unsigned len)
{
    if (v->ops->config_written && off < v->config_len && len <= v->config_len - off) {
        memcpy(v->config + off, data, len);
        v->ops->config_written(v);
    }
}

void bx_virtio_write(struct bx_virtio *v, uint32_t off, const void *data, unsigned len)
{
    uint32_t value = 0;

    if (len == sizeof(value)) {
        memcpy(&value, data, sizeof(value));
        if (off == VIRTIO_MMIO_INTERRUPT_ACK) {
            (void)__atomic_fetch_and(&v->s.isr, ~value, __ATOMIC_SEQ_CST);
            return;
        }
    }
    (void)pthread_mutex_lock(&v->lock);
    if (off >= CONFIG_OFF) {
        write_config(v, off - CONFIG_OFF, data, len);
    } else if (len == sizeof(value)) {
        write_register(v, off, value);
    }
    (void)pthread_mutex_unlock(&v->lock);
}
