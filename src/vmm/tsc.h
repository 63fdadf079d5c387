/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsc.h: the rate of this machine's time-stamp counter. TCG gives it to the guest as it is, so the
 * guest can be told the rate instead of having to measure it, which fails at random on a busy host.
 */
#ifndef BX_VMM_TSC_H
#define BX_VMM_TSC_H

#include <stdint.h>

/* Takes the first sample, if there is none yet. The earlier, the less bx_tsc_khz() has to wait. */
void bx_tsc_begin(void);
/* In kHz; 0 where there is no such counter. Waits up to 5 ms if the first sample is too young. */
uint64_t bx_tsc_khz(void);

#endif
