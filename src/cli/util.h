/* SPDX-License-Identifier: Apache-2.0 */
/*
 * util.h: the few helpers that every file of the command line needs. The program uses the public interface and libc
 * only (and the cleanup macros, which have no symbols), so it has its own. Memory: a command that cannot allocate ends the program (cli_die_memory); there is nothing
 * sensible left to do, and the library, which must not do that, is not involved.
 */
#ifndef CLI_UTIL_H
#define CLI_UTIL_H

#include <boxlite.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"

#define CLI_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define CLI_PRINTF(f, a) __attribute__((format(printf, f, a)))
BX_DEFINE_CLEANUP(boxlite_error *, boxlite_error_free, cli_cleanup_error);
BX_DEFINE_CLEANUP(boxlite_box *, boxlite_box_free, cli_cleanup_box);
BX_DEFINE_CLEANUP(boxlite_exec *, boxlite_exec_free, cli_cleanup_exec);
BX_DEFINE_CLEANUP(boxlite_image *, boxlite_image_free, cli_cleanup_image);
BX_DEFINE_CLEANUP(boxlite_image_list *, boxlite_image_list_free, cli_cleanup_image_list);
BX_DEFINE_CLEANUP(boxlite_image_config *, boxlite_image_config_free, cli_cleanup_image_config);
BX_DEFINE_CLEANUP(boxlite_kernel_list *, boxlite_kernel_list_free, cli_cleanup_kernel_list);
BX_DEFINE_CLEANUP(boxlite_box_list *, boxlite_box_list_free, cli_cleanup_box_list);
BX_DEFINE_CLEANUP(boxlite_box_options *, boxlite_box_options_free, cli_cleanup_box_options);
BX_DEFINE_CLEANUP(boxlite_exec_options *, boxlite_exec_options_free, cli_cleanup_exec_options);
BX_DEFINE_CLEANUP(boxlite_transfer *, boxlite_transfer_free, cli_cleanup_transfer);
BX_DEFINE_CLEANUP(boxlite_transfer_options *, boxlite_transfer_options_free,
                  cli_cleanup_transfer_options);
BX_DEFINE_CLEANUP(boxlite_report *, boxlite_report_free, cli_cleanup_report);

#define _cleanup_error_ _cleanup_(cli_cleanup_error)
#define _cleanup_box_ _cleanup_(cli_cleanup_box)
#define _cleanup_exec_ _cleanup_(cli_cleanup_exec)
#define _cleanup_image_ _cleanup_(cli_cleanup_image)
#define _cleanup_image_list_ _cleanup_(cli_cleanup_image_list)
#define _cleanup_image_config_ _cleanup_(cli_cleanup_image_config)
#define _cleanup_kernel_list_ _cleanup_(cli_cleanup_kernel_list)
#define _cleanup_box_list_ _cleanup_(cli_cleanup_box_list)
#define _cleanup_box_options_ _cleanup_(cli_cleanup_box_options)
#define _cleanup_exec_options_ _cleanup_(cli_cleanup_exec_options)
#define _cleanup_transfer_ _cleanup_(cli_cleanup_transfer)
#define _cleanup_transfer_options_ _cleanup_(cli_cleanup_transfer_options)
#define _cleanup_report_ _cleanup_(cli_cleanup_report)

/* A list of borrowed strings. */
struct cli_list {
    const char **items;
    size_t count;
};
void cli_list_add(struct cli_list *list, const char *item);
void cli_list_done(struct cli_list *list);
/* Whether the space-separated list of words has this one. */
bool cli_words_have(const char *words, const char *word, size_t length);

_Noreturn void cli_die_memory(void);
void *cli_alloc(size_t size); /* zeroed */
void *cli_grow(void *old, size_t size);
char *cli_text(const char *format, ...) CLI_PRINTF(1, 2); /* caller frees */
char *cli_copy(const char *text, size_t length);          /* caller frees */
/* Microseconds of the monotonic clock. */
uint64_t cli_now_us(void);
/* Writes all of it to a descriptor; 0 or -errno. Blocks. */
int cli_write_all(int fd, const void *data, size_t size);
/* The word of `words` (NULL-terminated) nearest to `word`, or NULL if none is near enough to be what was meant. */
const char *cli_nearest(const char *word, const char *const *words);

#endif
