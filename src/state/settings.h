/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h: HOME/settings.json, what a user has set for a home. Written by people, read when the home is opened.
 */
#ifndef BX_STATE_SETTINGS_H
#define BX_STATE_SETTINGS_H

#include "state/home.h"

struct bx_settings {
    uint64_t
        images_limit; /* "images": {"limit": "20G"}: least recently used images go beyond it; 0: none */
    uint64_t
        images_unpacked; /* "images": {"unpacked": "64G"}: largest sum of an image's files; 0: 64 GiB */
};
/* An absent file leaves all at 0. A bad one is INVALID, with the place of the mistake. */
int bx_settings_read(const struct bx_home *home, struct bx_settings *ret, boxlite_error **err);

#endif
