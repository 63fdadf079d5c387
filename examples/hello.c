/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hello.c: the shortest way from an image to the output of a command.
 *
 *     hello [IMAGE]
 *
 * A box is made and started, one command runs in it, and the box is removed again.
 */
#include <boxlite.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program when a call has failed. */
static void check(int result, boxlite_error **err)
{
    if (result >= 0) {
        return;
    }
    fprintf(stderr, "hello: %s\n", boxlite_error_message(*err));
    if (boxlite_error_hint(*err)) {
        fprintf(stderr, "hint: %s\n", boxlite_error_hint(*err));
    }
    exit(125);
}

int main(int argc, char **argv)
{
    const char *command[] = {"echo", "Hello from a micro-VM"};
    boxlite_error *err = NULL;
    boxlite_runtime *rt;
    boxlite_box_options *box_options;
    boxlite_box *box;
    boxlite_exec_options *exec_options;
    boxlite_exec *exec;
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    char buffer[4096];
    ssize_t n;

    check(boxlite_runtime_new(NULL, &rt, &err), &err);
    check(boxlite_box_options_new(argc > 1 ? argv[1] : "boxlite/base:bookworm", &box_options, &err),
          &err);
    check(boxlite_box_create(rt, box_options, &box, &err), &err);
    check(boxlite_box_start(box, &err), &err);

    check(boxlite_exec_options_new(command, 2, &exec_options, &err), &err);
    check(boxlite_box_exec(box, exec_options, &exec, &err), &err);
    do {
        check(boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, -1, &err), &err);
        n = boxlite_exec_read(exec, BOXLITE_STDOUT, buffer, sizeof(buffer), NULL);
        if (n > 0) {
            fwrite(buffer, 1, (size_t)n, stdout);
        }
    } while (n > 0 || n == BOXLITE_E_AGAIN);
    check(boxlite_exec_wait(exec, -1, &result, &err), &err);

    check(boxlite_box_remove(box, 1, &err), &err);
    boxlite_exec_free(exec);
    boxlite_exec_options_free(exec_options);
    boxlite_box_free(box);
    boxlite_box_options_free(box_options);
    boxlite_runtime_free(rt);
    return result.exit_code;
}
