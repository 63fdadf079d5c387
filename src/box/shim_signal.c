/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shim_signal.c: signals by name, as image configs write them ("SIGTERM", "TERM", "15",
 * "SIGRTMIN+3").
 */
#include <signal.h>
#include <strings.h>

#include "base/str.h"
#include "box/shim.h"

#define GUEST_RTMIN                                                                                \
    34u /* what Linux programs (and Docker) mean, with the two that libc keeps for itself */
#define GUEST_RTMAX 64u

static int realtime(const char *name)
{
    uint64_t n = 0;
    if (strncasecmp(name, "RTMIN", 5) == 0) {
        bool plain = name[5] == '\0';
        bool ok =
            plain || (name[5] == '+' && bx_parse_u64(name + 6, GUEST_RTMAX - GUEST_RTMIN, &n) == 0);
        return ok ? (int)(GUEST_RTMIN + n) : 0;
    }
    if (strncasecmp(name, "RTMAX", 5) == 0) {
        bool plain = name[5] == '\0';
        bool ok =
            plain || (name[5] == '-' && bx_parse_u64(name + 6, GUEST_RTMAX - GUEST_RTMIN, &n) == 0);
        return ok ? (int)(GUEST_RTMAX - n) : 0;
    }
    return 0;
}

int bx_shim_signal_number(const char *name)
{
    uint64_t n = 0;
    if (bx_parse_u64(name, GUEST_RTMAX, &n) == 0) {
        return (int)n;
    }
    if (strncasecmp(name, "SIG", 3) == 0) {
        name += 3;
    }
    for (int i = 1; i < 32; i++) {
        const char *abbrev = sigabbrev_np(i);
        if (abbrev && strcasecmp(abbrev, name) == 0) {
            return i;
        }
    }
    return realtime(name);
}
