/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random.c: random bytes from the kernel. Ids and temporary names rest on them, so there is no weaker
 * source behind: where getrandom(2) is refused (a seccomp filter) /dev/urandom is read.
 */
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/cleanup.h"

static ssize_t read_urandom(void *data, size_t len)
{
    _cleanup_close_ int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -1 : read(fd, data, len);
}

void bx_random(void *data, size_t len)
{
    uint8_t *p = data;
    while (len > 0) {
        ssize_t n = getrandom(p, len, 0);
        if (n < 0 && errno != EINTR) {
            n = read_urandom(p, len);
            if (n < 0 && errno != EINTR) {
                abort(); /* no source at all: going on would hand out guessable ids */
            }
        }
        if (n > 0) {
            p += n;
            len -= (size_t)n;
        }
    }
}

void bx_random_hex(char *ret, size_t digits)
{
    static const char hex[] = "0123456789abcdef";
    uint8_t pool[32];
    for (size_t i = 0; i < digits; i++) {
        if (i % sizeof(pool) == 0) {
            size_t left = digits - i;
            bx_random(pool, left < sizeof(pool) ? left : sizeof(pool));
        }
        ret[i] = hex[pool[i % sizeof(pool)] & 15];
    }
    ret[digits] = '\0';
}
