/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.h: random bytes and ids from the kernel.
 */
#ifndef BX_BASE_RANDOM_H
#define BX_BASE_RANDOM_H

#include <stddef.h>

void bx_random(void *data, size_t len); /* getrandom(2); never fails after boot */
/* digits lower-case hex digits and a NUL. */
void bx_random_hex(char *ret, size_t digits);

#endif
