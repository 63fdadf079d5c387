/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pio.c: the few I/O ports of the machine: serial port, power registers, and the keyboard controller's
 * reset line, which kernels pull when they know no better way. Others read as ones.
 */
#include <string.h>

#include "vmm/kvm/vm.h"

#define I8042_COMMAND 0x64
#define I8042_RESET 0xfe

static void access_serial(struct bx_vm *vm, unsigned reg, uint8_t *data, bool write)
{
    if (write) {
        bx_serial_write(&vm->serial, reg, *data);
    } else {
        *data = bx_serial_read(&vm->serial, reg);
    }
}

static void access_power(struct bx_vm *vm, uint16_t port, uint8_t *data, bool write)
{
    if (!write) {
        *data = 0;
    } else if (port == BX_POWER_SLEEP && *data == BX_SLEEP_OFF) {
        bx_vm_end(vm, BX_KVM_END_OFF, "powered off");
    } else if (port == BX_POWER_RESET && *data == BX_RESET_VALUE) {
        bx_vm_end(vm, BX_KVM_END_RESET, "reset");
    }
}

void bx_pio_access(struct bx_vm *vm, uint16_t port, void *data, unsigned len, bool write)
{
    uint8_t *byte = data;

    if (len == 1 && port >= BX_SERIAL_PORT && port < BX_SERIAL_PORT + BX_SERIAL_PORTS) {
        access_serial(vm, port - BX_SERIAL_PORT, byte, write);
    } else if (len == 1 && port >= BX_POWER_PORT && port <= BX_POWER_RESET) {
        access_power(vm, port, byte, write);
    } else if (len == 1 && port == I8042_COMMAND) {
        if (!write) {
            *byte = 0; /* ready to take a command */
        } else if (*byte == I8042_RESET) {
            bx_vm_end(vm, BX_KVM_END_RESET, "reset");
        }
    } else if (!write) {
        memset(data, 0xff, len);
    }
}
