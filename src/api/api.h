/* SPDX-License-Identifier: Apache-2.0 */
/*
 * api.h: the check that every exported function makes of its arguments before it calls the layer
 * below. A NULL where an object belongs is the caller's mistake and is answered with INVALID and
 * the argument's name, never with a crash. Getters of a NULL object give 0 or NULL.
 */
#ifndef BX_API_API_H
#define BX_API_API_H

#include <boxlite.h>

#include "base/error.h"

#define bx_need(arg, err)                                                                          \
    do {                                                                                           \
        if (!(arg)) {                                                                              \
            return bx_fail(err, BOXLITE_E_INVALID, "%s: %s is NULL", __func__, #arg);              \
        }                                                                                          \
    } while (0)

#endif
