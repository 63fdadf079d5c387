/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.c: runs a command as the box' main command and passes both output streams on as they come.
 *
 *     stream IMAGE COMMAND [ARG...]
 *
 * The box is removed when the command ends, and the program ends with the command's exit code.
 */
#include <boxlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(int result, boxlite_error **err)
{
    if (result < 0) {
        fprintf(stderr, "stream: %s\n", boxlite_error_message(*err));
        exit(125);
    }
}

/* Passes on what is there. 1: more may come, 0: the stream has ended. */
static int pass_on(boxlite_exec *exec, int stream, int fd)
{
    char buffer[65536];
    ssize_t n;

    while ((n = boxlite_exec_read(exec, stream, buffer, sizeof(buffer), NULL)) > 0) {
        for (ssize_t done = 0, w; done < n; done += w) {
            w = write(fd, buffer + done, (size_t)(n - done));
            if (w < 0) {
                exit(125);
            }
        }
    }
    return n == BOXLITE_E_AGAIN;
}

int main(int argc, char **argv)
{
    boxlite_error *err = NULL;
    boxlite_runtime *rt;
    boxlite_box_options *options;
    boxlite_box *box;
    boxlite_exec *exec;
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    uint32_t open = BOXLITE_EXEC_STDOUT | BOXLITE_EXEC_STDERR;

    if (argc < 3) {
        fprintf(stderr, "usage: stream IMAGE COMMAND [ARG...]\n");
        return 125;
    }
    check(boxlite_runtime_new(NULL, &rt, &err), &err);
    check(boxlite_box_options_new(argv[1], &options, &err), &err);
    check(boxlite_box_options_set_command(options, (const char *const *)argv + 2, (size_t)argc - 2,
                                          &err),
          &err);
    check(boxlite_box_options_set_main(options, 1, &err), &err);
    check(boxlite_box_options_set_auto_remove(options, 1, &err), &err);
    check(boxlite_box_create(rt, options, &box, &err), &err);
    check(boxlite_box_start(box, &err), &err);
    check(boxlite_box_main(box, &exec, &err), &err);

    while (open) {
        int events = boxlite_exec_poll(exec, open, -1, &err);
        check(events, &err);
        if ((events & BOXLITE_EXEC_STDOUT) && !pass_on(exec, BOXLITE_STDOUT, STDOUT_FILENO)) {
            open &= ~BOXLITE_EXEC_STDOUT;
        }
        if ((events & BOXLITE_EXEC_STDERR) && !pass_on(exec, BOXLITE_STDERR, STDERR_FILENO)) {
            open &= ~BOXLITE_EXEC_STDERR;
        }
    }
    check(boxlite_exec_wait(exec, -1, &result, &err), &err);

    boxlite_exec_free(exec);
    boxlite_box_free(box);
    boxlite_box_options_free(options);
    boxlite_runtime_free(rt); /* ends the box, if it is still there, and removes it */
    return result.exit_code;
}
