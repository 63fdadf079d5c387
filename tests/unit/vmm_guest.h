/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm_guest.h: what the tiny guests of vmm_engine.h do last, and where their parts lie.
 */
#ifndef BX_TESTS_VMM_GUEST_H
#define BX_TESTS_VMM_GUEST_H

#include <stddef.h>
#include <stdint.h>

#define LOAD 0x100000
#define CODE_OFF 0x100
#define TEXT_OFF 0x140
#define ZEROS_OFF 0x300
#define IMAGE_SIZE 0x400

enum last_act { HALT, POWER_OFF, TRIPLE_FAULT, RESET, COUNT };

struct act {
    uint8_t code[32];
    size_t len;
};

#endif
