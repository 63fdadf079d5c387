/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.c: commands in a box, as exported.
 */
#include "box/exec.h"

#include <stddef.h>

#include "api/api.h"
#include "box/options.h"

#define ALL_EVENTS                                                                                 \
    (BOXLITE_EXEC_STDOUT | BOXLITE_EXEC_STDERR | BOXLITE_EXEC_STDIN | BOXLITE_EXEC_STARTED |       \
     BOXLITE_EXEC_EXITED)

int boxlite_box_exec(boxlite_box *box, const boxlite_exec_options *options, boxlite_exec **ret,
                     boxlite_error **err)
{
    bx_need(box, err);
    bx_need(options, err);
    bx_need(ret, err);
    return bx_exec_start(box, &options->spec, ret, err);
}

int boxlite_box_main(boxlite_box *box, boxlite_exec **ret, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(ret, err);
    return bx_exec_main(box, ret, err);
}

int boxlite_box_attach(boxlite_box *box, uint32_t number, boxlite_exec **ret, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(ret, err);
    if (number == 0) {
        return bx_fail(err, BOXLITE_E_INVALID, "number: commands count from 1");
    }
    return bx_exec_attach(box, number, true, ret, err);
}

int boxlite_box_output(boxlite_box *box, uint32_t number, boxlite_exec **ret, boxlite_error **err)
{
    bx_need(box, err);
    bx_need(ret, err);
    return bx_exec_attach(box, number, false, ret, err);
}

uint32_t boxlite_exec_number(const boxlite_exec *exec)
{
    return exec ? bx_exec_number(exec) : 0;
}

void boxlite_exec_set_callback(boxlite_exec *exec, boxlite_exec_fn fn, void *data)
{
    if (exec) {
        bx_exec_set_callback(exec, fn, data);
    }
}

uint32_t boxlite_exec_events(const boxlite_exec *exec)
{
    return exec ? bx_exec_events(exec) : 0;
}

int boxlite_exec_poll(boxlite_exec *exec, uint32_t events, int timeout_ms, boxlite_error **err)
{
    bx_need(exec, err);
    if (!(events & ALL_EVENTS)) {
        return bx_fail(err, BOXLITE_E_INVALID, "events: none that could come");
    }
    return bx_exec_poll(exec, events & ALL_EVENTS, timeout_ms, err);
}

ssize_t boxlite_exec_read(boxlite_exec *exec, int stream, void *data, size_t size,
                          boxlite_error **err)
{
    bx_need(exec, err);
    bx_need(data || size == 0, err);
    return bx_exec_read(exec, stream, data, size, err);
}

uint64_t boxlite_exec_dropped(const boxlite_exec *exec, int stream)
{
    return exec ? bx_exec_dropped(exec, stream) : 0;
}

ssize_t boxlite_exec_write(boxlite_exec *exec, const void *data, size_t size, boxlite_error **err)
{
    bx_need(exec, err);
    bx_need(data || size == 0, err);
    return bx_exec_write(exec, data, size, err);
}

int boxlite_exec_close_stdin(boxlite_exec *exec, boxlite_error **err)
{
    bx_need(exec, err);
    return bx_exec_close_stdin(exec, err);
}

int boxlite_exec_signal(boxlite_exec *exec, int signo, boxlite_error **err)
{
    bx_need(exec, err);
    return bx_exec_signal(exec, signo, err);
}

int boxlite_exec_resize(boxlite_exec *exec, uint16_t rows, uint16_t cols, boxlite_error **err)
{
    bx_need(exec, err);
    return bx_exec_resize(exec, rows, cols, err);
}

int boxlite_exec_wait(boxlite_exec *exec, int timeout_ms, boxlite_exec_result *ret,
                      boxlite_error **err)
{
    bx_need(exec, err);
    if (ret && ret->struct_size < offsetof(boxlite_exec_result, wall_us)) {
        return bx_fail(err, BOXLITE_E_INVALID,
                       "ret: struct_size is %zu; set it to sizeof(boxlite_exec_result)",
                       ret->struct_size);
    }
    return bx_exec_wait(exec, timeout_ms, ret, err);
}

const char *boxlite_exec_failure(const boxlite_exec *exec)
{
    return exec ? bx_exec_failure(exec) : NULL;
}

void boxlite_exec_free(boxlite_exec *exec)
{
    bx_exec_free(exec);
}
