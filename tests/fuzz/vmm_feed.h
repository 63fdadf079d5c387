/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vmm_feed.h: a guest made of bytes, for the fuzz targets of boxlite-vmm's devices.
 *
 * The input is a list of steps for one device: register accesses, writes to guest memory, a change of
 * the rings, and what comes from the host's side. Memory is small, so that random addresses often lie
 * in it; the rings are set up soundly first, unless the input undoes that.
 */
#ifndef BX_TESTS_VMM_FEED_H
#define BX_TESTS_VMM_FEED_H

#include "vmm_driver.h"

struct feed {
    const uint8_t *p;
    size_t left;
};

/* Runs all steps; host(data, what) is called for steps of the host's side. */
void feed_run(struct driver *d, struct feed *f, void (*host)(void *data, struct feed *f),
              void *data);
uint8_t feed_u8(struct feed *f);
uint16_t feed_u16(struct feed *f);

#endif
