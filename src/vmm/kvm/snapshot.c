/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c: a machine to and from two files.
 *
 * Saving: the vCPUs are parked between two instructions; holding a device's lock, its queue is
 * worked off, so nothing is under way in it. The memory file gets what can be other than zero: what
 * comes from a file (kernel, initramfs, or the snapshot that this machine came from), and the pages that
 * the page map has for this process. Zeros are left out: the file is sparse.
 *
 * Loading: the memory file is mapped copy-on-write (mem.c), so that costs nothing; the state is
 * checked as outside input: the same checks as for a driver's registers make a queue ready. Then each
 * device is told to look at its queues, and an interrupt whose status was not yet acknowledged is raised
 * again: one too many does no harm, one too few would.
 */
#include "vmm/kvm/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/io.h"
#include "vmm/kvm/state.h"
#include "vmm/kvm/x86_64/save.h"

#define PAGES 512 /* looked at together */
#define PRESENT_OR_SWAPPED (3ull << 62)

/* ---- memory -------------------------------------------------------------------------------------- */

static bool is_zero(const uint8_t *p, size_t len)
{
    return p[0] == 0 && memcmp(p, p + 1, len - 1) == 0;
}

static int write_page(const struct bx_gregion *g, uint64_t off, int fd)
{
    const uint8_t *p = g->host + off;

    return is_zero(p, BX_PAGE) ? 0 : bx_pwrite_full(fd, p, BX_PAGE, (off_t)(g->file_off + off));
}

static int write_range(const struct bx_gregion *g, uint64_t off, uint64_t end, int fd)
{
    int r = 0;

    for (; r == 0 && off < end; off += BX_PAGE) {
        r = write_page(g, off, fd);
    }
    return r;
}

/* What lies behind the region in files: the extents of a snapshot, or what was mapped at the boot. */
static int write_backed(const struct bx_vm *vm, const struct bx_gregion *g, int fd)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < vm->mem.nmapped; i++) {
        const struct bx_gmapped *m = &vm->mem.mapped[i];

        if (m->gpa >= g->gpa && m->gpa - g->gpa < g->size) {
            r = write_range(g, m->gpa - g->gpa, m->gpa - g->gpa + m->len, fd);
        }
    }
    off_t from = (off_t)g->file_off, last = (off_t)(g->file_off + g->size);
    while (r == 0 && vm->opt.restore && from < last) {
        off_t data = lseek(BX_KVM_FD_MEMORY, from, SEEK_DATA);
        if (data < 0 || data >= last) {
            break;
        }
        off_t hole = lseek(BX_KVM_FD_MEMORY, data, SEEK_HOLE);
        hole = hole < 0 || hole > last ? last : hole;
        r = write_range(g, ((uint64_t)data - g->file_off) & ~(uint64_t)(BX_PAGE - 1),
                        (uint64_t)hole - g->file_off, fd);
        from = hole;
    }
    return r;
}

/* The pages that the process has. Without a page map (it could not be opened): all of them. */
static int write_touched(const struct bx_vm *vm, const struct bx_gregion *g, int fd)
{
    uint64_t entries[PAGES];
    int r = 0;

    for (uint64_t off = 0; r == 0 && off < g->size; off += PAGES * (uint64_t)BX_PAGE) {
        uint64_t n = (g->size - off) / BX_PAGE < PAGES ? (g->size - off) / BX_PAGE : PAGES;
        size_t len = n * sizeof(entries[0]);
        off_t at = (off_t)(((uintptr_t)g->host + off) / BX_PAGE * sizeof(entries[0]));

        if (vm->pagemap_fd < 0 || pread(vm->pagemap_fd, entries, len, at) != (ssize_t)len) {
            memset(entries, 0xff, len);
        }
        for (uint64_t i = 0; r == 0 && i < n; i++) {
            if (entries[i] & PRESENT_OR_SWAPPED) {
                r = write_page(g, off + i * BX_PAGE, fd);
            }
        }
    }
    return r;
}

static int save_memory(const struct bx_vm *vm, int fd, boxlite_error **err)
{
    int r = ftruncate(fd, (off_t)vm->mem.size) < 0 ? -errno : 0;

    for (unsigned i = 0; r == 0 && i < vm->mem.n; i++) {
        r = write_backed(vm, &vm->mem.region[i], fd);
        r = r < 0 ? r : write_touched(vm, &vm->mem.region[i], fd);
    }
    return r < 0 ? bx_fail_errno(err, BOXLITE_E_IO, r, "writing the machine's memory") : 0;
}

/* ---- devices ------------------------------------------------------------------------------------- */

static int save_device(struct bx_virtio *v, struct bx_state *out)
{
    struct bx_buf own = BX_BUF_INIT(BX_VIRTIO_SAVE_MAX);
    int r = 0;

    (void)pthread_mutex_lock(&v->lock);
    bx_state_put(out, BX_REC_DEVICE, &v->s, sizeof(v->s));
    for (unsigned i = 0; i < v->ops->nqueues; i++) {
        bx_state_put(out, BX_REC_QUEUE, &v->vq[i].s, sizeof(v->vq[i].s));
    }
    bx_state_put(out, BX_REC_CONFIG, v->config, v->config_len);
    if (v->ops->save) {
        r = v->ops->save(v, &own);
    }
    (void)pthread_mutex_unlock(&v->lock);
    bx_state_put(out, BX_REC_OWN, bx_buf_data(&own), own.len);
    bx_buf_done(&own);
    return r;
}

static int load_queues(struct bx_virtio *v, struct bx_state *in, boxlite_error **err)
{
    int r = 0;

    for (unsigned i = 0; r == 0 && i < v->ops->nqueues; i++) {
        struct bx_vq *vq = &v->vq[i];

        r = bx_state_get(in, BX_REC_QUEUE, &vq->s, sizeof(vq->s), err);
        if (r == 0 && vq->s.ready && bx_vq_enable(vq) < 0) {
            r = bx_fail(err, BOXLITE_E_INTEGRITY, "the saved state is damaged: a queue of %s",
                        v->ops->name);
        }
    }
    return r;
}

static int load_device(struct bx_virtio *v, struct bx_state *in, boxlite_error **err)
{
    const uint8_t *own;
    size_t len = 0;
    int r = bx_state_get(in, BX_REC_DEVICE, &v->s, sizeof(v->s), err);

    r = r < 0 ? r : load_queues(v, in, err);
    r = r < 0 ? r : bx_state_get(in, BX_REC_CONFIG, v->config, v->config_len, err);
    r = r < 0 ? r : bx_state_next(in, BX_REC_OWN, &own, &len, err);
    if (r < 0) {
        return r;
    }
    if ((v->s.driver_features & ~v->features) || (v->ops->load && v->ops->load(v, own, len) < 0)) {
        return bx_fail(err, BOXLITE_E_INTEGRITY, "the saved state is damaged: %s", v->ops->name);
    }
    bx_virtio_resume(v);
    return 0;
}

/* ---- the whole ----------------------------------------------------------------------------------- */

int bx_snapshot_save(struct bx_vm *vm, int state_fd, int memory_fd, boxlite_error **err)
{
    const struct bx_state_machine machine = {vm->mem.size, vm->opt.cpus, vm->ndevices};
    struct bx_state out = BX_STATE_INIT;
    int r;

    bx_serial_flush(&vm->serial);
    bx_state_put(&out, BX_REC_MACHINE, &machine, sizeof(machine));
    bx_state_put(&out, BX_REC_CPUID, vm->cpuid->entries,
                 vm->cpuid->nent * sizeof(vm->cpuid->entries[0]));
    for (unsigned i = 0; i < vm->ndevices && out.error == 0; i++) {
        out.error = save_device(vm->devices[i], &out);
    }
    bx_state_put(&out, BX_REC_SERIAL, &vm->serial.s, sizeof(vm->serial.s));
    r = bx_arch_vm_save(vm->fd, &out, err);
    for (unsigned i = 0; r == 0 && i < vm->opt.cpus; i++) {
        r = bx_arch_vcpu_save(vm->vcpus[i].fd, &out, err);
    }
    bx_state_put(&out, BX_REC_END, "", 0);
    r = r < 0 ? r : save_memory(vm, memory_fd, err);
    r = r < 0 ? r : bx_state_write(&out, state_fd, err);
    bx_state_done(&out);
    return r;
}

static int check_machine(struct bx_vm *vm, struct bx_state *in, boxlite_error **err)
{
    size_t own_len = vm->cpuid->nent * sizeof(vm->cpuid->entries[0]), len = 0;
    struct bx_state_machine m;
    const uint8_t *cpuid;
    int r = bx_state_get(in, BX_REC_MACHINE, &m, sizeof(m), err);

    r = r < 0 ? r : bx_state_next(in, BX_REC_CPUID, &cpuid, &len, err);
    if (r < 0) {
        return r;
    }
    if (m.memory != vm->mem.size || m.cpus != vm->opt.cpus || m.devices != vm->ndevices) {
        return bx_fail(err, BOXLITE_E_UNSUPPORTED,
                       "the snapshot is of a machine with other processors, memory or devices");
    }
    if (len != own_len || memcmp(cpuid, vm->cpuid->entries, len) != 0) {
        (void)bx_fail(err, BOXLITE_E_UNSUPPORTED,
                      "this host's processor is another than that of the snapshot's host");
        bx_hint(err, "restore it on a host with the same processor, kernel and microcode");
        return BOXLITE_E_UNSUPPORTED;
    }
    return 0;
}

static int load_all(struct bx_vm *vm, struct bx_state *in, boxlite_error **err)
{
    const uint8_t *p;
    size_t len;
    int r = check_machine(vm, in, err);

    for (unsigned i = 0; r == 0 && i < vm->ndevices; i++) {
        r = load_device(vm->devices[i], in, err);
    }
    r = r < 0 ? r : bx_state_get(in, BX_REC_SERIAL, &vm->serial.s, sizeof(vm->serial.s), err);
    r = r < 0 ? r : bx_arch_vm_load(vm->fd, in, err);
    for (unsigned i = 0; r == 0 && i < vm->opt.cpus; i++) {
        r = bx_arch_vcpu_load(vm->vcpus[i].fd, in, err);
    }
    return r < 0 ? r : bx_state_next(in, BX_REC_END, &p, &len, err);
}

int bx_snapshot_load(struct bx_vm *vm, boxlite_error **err)
{
    struct bx_state in = BX_STATE_INIT;
    int r = bx_state_read(&in, BX_KVM_FD_STATE, err);

    r = r < 0 ? r : load_all(vm, &in, err);
    bx_state_done(&in);
    return r;
}
