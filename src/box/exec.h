/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h: the object behind boxlite_exec: a command in a box, live over a connection to the shim,
 * or what the box' folder still holds of it.
 */
#ifndef BX_BOX_EXEC_H
#define BX_BOX_EXEC_H

#include <boxlite.h>
#include <stdbool.h>
#include <sys/types.h>

#include "box/box.h"
#include "box/boxconfig.h"

/* How an exec handle is made. */
struct bx_exec_how {
    bool follow; /* until its end; false: what is there now */
    bool input;  /* this handle writes its standard input */
    bool is_main, kill_on_free;
};

int bx_exec_start(boxlite_box *box, const struct bx_exec_spec *spec, boxlite_exec **ret,
                  boxlite_error **err);
int bx_exec_main(boxlite_box *box, boxlite_exec **ret, boxlite_error **err);
/* number 0: the main command. */
int bx_exec_attach(boxlite_box *box, uint32_t number, bool follow, boxlite_exec **ret,
                   boxlite_error **err);
void bx_exec_free(boxlite_exec *exec);

uint32_t bx_exec_number(const boxlite_exec *exec);
void bx_exec_set_callback(boxlite_exec *exec, boxlite_exec_fn fn, void *data);
uint32_t bx_exec_events(const boxlite_exec *exec);
int bx_exec_poll(boxlite_exec *exec, uint32_t events, int timeout_ms, boxlite_error **err);
ssize_t bx_exec_read(boxlite_exec *exec, int stream, void *data, size_t size, boxlite_error **err);
uint64_t bx_exec_dropped(const boxlite_exec *exec, int stream);
ssize_t bx_exec_write(boxlite_exec *exec, const void *data, size_t size, boxlite_error **err);
int bx_exec_close_stdin(boxlite_exec *exec, boxlite_error **err);
int bx_exec_signal(boxlite_exec *exec, int signo, boxlite_error **err);
int bx_exec_resize(boxlite_exec *exec, uint16_t rows, uint16_t cols, boxlite_error **err);
int bx_exec_wait(boxlite_exec *exec, int timeout_ms, boxlite_exec_result *ret, boxlite_error **err);
const char *bx_exec_failure(const boxlite_exec *exec);

BX_DEFINE_CLEANUP(boxlite_exec *, bx_exec_free, bx_cleanup_exec);
#define _cleanup_exec_ _cleanup_(bx_cleanup_exec)

#endif
