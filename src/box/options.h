/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h: what the user asks of a box or a command, checked field by field as it is set, so that
 * an error names the field at the line that is wrong.
 */
#ifndef BX_BOX_OPTIONS_H
#define BX_BOX_OPTIONS_H

#include <boxlite.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "box/boxconfig.h"

struct boxlite_box_options {
    char *image;
    char *name, *hostname, *engine, *kernel, *workdir, *user; /* NULL: not set */
    uint32_t cpus;
    uint64_t memory, disk, timeout_ms;
    int network;
    struct bx_strv env, labels; /* NAME=VALUE */
    struct bx_strv entrypoint, command;
    struct bx_rec_list mounts; /* of struct bx_box_mount */
    bool entrypoint_set, command_set;
    bool main, stdin_open, auto_remove, detached;
    uint16_t rows, cols;
};

struct boxlite_exec_options {
    struct bx_exec_spec spec;
};

int bx_box_options_new(const char *image, boxlite_box_options **ret, boxlite_error **err);
void bx_box_options_free(boxlite_box_options *o);

/* Checks that several setters share; `field` is named in the error. */
int bx_check_name(const char *field, const char *value, boxlite_error **err);
int bx_check_label(const char *name, boxlite_error **err);
/* Replace *field by a copy. */
int bx_set_string(char **field, const char *value, boxlite_error **err);
/* An absolute path without control characters, at most PATH_MAX. */
int bx_check_guest_path(const char *field, const char *value, boxlite_error **err);
int bx_check_user(const char *field, const char *value, boxlite_error **err);
/* NAME=VALUE into env, replacing an older NAME. */
int bx_set_env(struct bx_strv *env, const char *field, const char *name, const char *value,
               boxlite_error **err);
/* A whole argument vector, replacing what was there. */
int bx_set_argv(struct bx_strv *sv, const char *field, const char *const *argv, size_t argc,
                boxlite_error **err);

int bx_exec_options_new(const char *const *argv, size_t argc, boxlite_exec_options **ret,
                        boxlite_error **err);
void bx_exec_options_free(boxlite_exec_options *o);
int bx_exec_options_add_rlimit(boxlite_exec_options *o, int resource, uint64_t soft, uint64_t hard,
                               boxlite_error **err);

#endif
