/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stats.c: counters and the stages of the boot, as one JSON object.
 *
 * Numbers are read while their threads go on: each is right, together they are of nearly one moment.
 */
#include <errno.h>
#include <inttypes.h>

#include "base/buf.h"
#include "vmm/kvm/vm.h"

static int put_boot(const struct bx_trace *t, struct bx_buf *out)
{
    int r = bx_buf_appends(out, "{\"boot_us\":{");

    for (unsigned i = 0; r == 0 && i < BX_STAGES; i++) {
        r = bx_buf_appendf(out, "%s\"%s\":%" PRIu64, i ? "," : "", bx_trace_name(i),
                           bx_trace_us(t, i));
    }
    return r < 0 ? r : bx_buf_appends(out, "}");
}

static int put_exits(const struct bx_vm *vm, struct bx_buf *out)
{
    static const char *const names[BX_EXITS] = {"io", "mmio", "signal", "other"};
    int r = bx_buf_appends(out, ",\"vcpus\":[");

    for (unsigned i = 0; r == 0 && i < vm->opt.cpus; i++) {
        r = bx_buf_appends(out, i ? ",{" : "{");
        for (unsigned j = 0; r == 0 && j < BX_EXITS; j++) {
            r = bx_buf_appendf(out, "%s\"%s\":%" PRIu64, j ? "," : "", names[j],
                               vm->vcpus[i].exits[j]);
        }
        r = r < 0 ? r : bx_buf_appends(out, "}");
    }
    return r < 0 ? r : bx_buf_appends(out, "]");
}

static int put_devices(const struct bx_vm *vm, struct bx_buf *out)
{
    int r = bx_buf_appends(out, ",\"devices\":[");

    for (unsigned i = 0; r == 0 && i < vm->ndevices; i++) {
        const struct bx_virtio *v = vm->devices[i];

        r = bx_buf_appendf(
            out,
            "%s{\"name\":\"%s\",\"live\":%s,\"wakes\":%" PRIu64 ",\"chains\":%" PRIu64
            ",\"interrupts\":%" PRIu64 ",\"bytes_in\":%" PRIu64 ",\"bytes_out\":%" PRIu64
            ",\"breaks\":%" PRIu64 "}",
            i ? "," : "", v->ops->name, bx_virtio_live(v) ? "true" : "false", v->n.wakes,
            v->n.chains, v->n.interrupts, v->n.bytes_in, v->n.bytes_out, v->n.breaks);
    }
    return r < 0 ? r : bx_buf_appends(out, "]");
}

int bx_vm_stats(struct bx_vm *vm, struct bx_buf *out)
{
    int r = put_boot(&vm->trace, out);

    r = r < 0 ? r : put_exits(vm, out);
    r = r < 0 ? r : put_devices(vm, out);
    return r < 0 ? r
                 : bx_buf_appendf(out,
                                  ",\"memory\":{\"size\":%" PRIu64 ",\"given_back\":%" PRIu64
                                  "},\"console\":{\"bytes\":%" PRIu64 ",\"dropped\":%" PRIu64
                                  "},\"net_dropped\":%" PRIu64 "}",
                                  vm->mem.size, vm->balloon.freed, vm->serial.bytes,
                                  vm->serial.dropped, vm->net.dropped);
}
