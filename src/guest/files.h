/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h: files that a command brings along: written by its own process, with its user's rights, before it becomes
 * the program, so that a program text needs no process of its own to get into the guest.
 */
#ifndef BX_GUEST_FILES_H
#define BX_GUEST_FILES_H

#include "guest/text.h"
#include "wire/msg.h"

/* The path of a FILE field and its content, borrowed; 0 or -EPROTO. */
int files_parse(const struct bx_field *f, const char **path, const uint8_t **data, size_t *len);
/* Writes all FILE fields of the message; relative paths are below the working folder. 0 or -errno, f says which. */
int files_write(const struct bx_msg *msg, struct failure *f);

#endif
