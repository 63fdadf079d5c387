/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cleanup.h: scope ends ownership. A variable marked _cleanup_x_ is released when it leaves scope,
 * so it must be initialised where it is declared; steal_ptr() and steal_fd() hand it over.
 * Every function used as a cleanup accepts the empty value (NULL, -1).
 */
#ifndef BX_BASE_CLEANUP_H
#define BX_BASE_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(f) __attribute__((cleanup(f)))

/* Defines NAME(type *) for use in _cleanup_(NAME) from a free function that takes the value. */
#define BX_DEFINE_CLEANUP(type, func, name)                                                        \
    static inline void name(type *p)                                                               \
    {                                                                                              \
        if (*p) {                                                                                  \
            func(*p);                                                                              \
        }                                                                                          \
    }                                                                                              \
    struct bx_swallow_semicolon

static inline void bx_cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void bx_cleanup_close(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
}

BX_DEFINE_CLEANUP(FILE *, fclose, bx_cleanup_fclose);
BX_DEFINE_CLEANUP(DIR *, closedir, bx_cleanup_closedir);

#define _cleanup_free_ _cleanup_(bx_cleanup_free)
#define _cleanup_close_ _cleanup_(bx_cleanup_close)
#define _cleanup_fclose_ _cleanup_(bx_cleanup_fclose)
#define _cleanup_closedir_ _cleanup_(bx_cleanup_closedir)

static inline int bx_steal_fd(int *fd)
{
    int r = *fd;
    *fd = -1;
    return r;
}
#define steal_fd(p) bx_steal_fd(p)

#define steal_ptr(p)                                                                               \
    ({                                                                                             \
        __typeof__(*(p)) *bx_steal_pp_ = (p);                                                      \
        __typeof__(*(p)) bx_steal_v_ = *bx_steal_pp_;                                              \
        *bx_steal_pp_ = NULL;                                                                      \
        bx_steal_v_;                                                                               \
    })

#define BX_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
