/* SPDX-License-Identifier: Apache-2.0 */
/*
 * console.c: looks for the kernel's words in a console's tail.
 *
 * microvm has no panic device, and a panic ends in a reset just as an orderly reboot does. The
 * kernel prints both at level EMERG, so that "quiet" does not hide them: kernel/panic.c and
 * kernel/reboot.c.
 */
#include "vmm/console.h"

#include <string.h>

#include "base/str.h"

#define LINE_MAX_OUT 200

static const char panic_words[] = "Kernel panic - not syncing: ";
static const char reboot_words[] = "reboot: Restarting system";

/* The bytes behind the last occurrence of words, or NULL. */
static const uint8_t *find_last(const struct bx_buf *tail, const char *words)
{
    const uint8_t *p = bx_buf_data(tail), *end = p + tail->len, *found = NULL;
    size_t len = strlen(words);

    while ((p = memmem(p, (size_t)(end - p), words, len))) {
        p += len;
        found = p;
    }
    return found;
}

bool bx_console_says_reboot(const struct bx_buf *tail)
{
    return find_last(tail, reboot_words) && !find_last(tail, panic_words);
}

char *bx_console_panic(const struct bx_buf *tail)
{
    const uint8_t *why = find_last(tail, panic_words);
    const uint8_t *end = bx_buf_data(tail) + tail->len;
    size_t len = 0;

    if (!why) {
        return NULL;
    }
    while (why + len < end && why[len] != '\r' && why[len] != '\n') {
        len++;
    }
    return bx_escape(why, len, LINE_MAX_OUT);
}

char *bx_last_line(const struct bx_buf *tail)
{
    const uint8_t *p = bx_buf_data(tail);
    size_t end = tail->len, start;

    while (end > 0 && strchr(" \t\r\n", p[end - 1]) && p[end - 1] != '\0') {
        end--;
    }
    for (start = end; start > 0 && p[start - 1] != '\n'; start--) {
    }
    return end > start ? bx_escape(p + start, end - start, LINE_MAX_OUT) : NULL;
}
