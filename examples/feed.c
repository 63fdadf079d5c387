/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feed.c: talks with a command: what comes in on this program's standard input goes to the
 * command's, and its answers come back, in one loop over both.
 *
 *     echo 'print(6 * 7)' | feed IMAGE python3 -
 */
#include <boxlite.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct talk {
    boxlite_exec *exec;
    char in[65536]; /* read here, not yet taken by the command */
    size_t in_len;
    int in_ended, out_ended;
};

static void check(int result, boxlite_error **err)
{
    if (result < 0) {
        fprintf(stderr, "feed: %s\n", boxlite_error_message(*err));
        exit(125);
    }
}

static void read_input(struct talk *t)
{
    ssize_t n = read(STDIN_FILENO, t->in, sizeof(t->in));
    if (n > 0) {
        t->in_len = (size_t)n;
    } else if (n == 0 || errno != EINTR) {
        t->in_ended = 1;
        (void)boxlite_exec_close_stdin(t->exec, NULL);
    }
}

static void give_input(struct talk *t)
{
    ssize_t n = boxlite_exec_write(t->exec, t->in, t->in_len, NULL);
    if (n > 0) {
        memmove(t->in, t->in + n, t->in_len - (size_t)n);
        t->in_len -= (size_t)n;
    } else if (n != BOXLITE_E_AGAIN) {
        t->in_len = 0; /* the command takes no more */
        t->in_ended = 1;
    }
}

static void take_output(struct talk *t)
{
    char buffer[65536];
    ssize_t n;
    while ((n = boxlite_exec_read(t->exec, BOXLITE_STDOUT, buffer, sizeof(buffer), NULL)) > 0) {
        fwrite(buffer, 1, (size_t)n, stdout);
        fflush(stdout);
    }
    t->out_ended = n == 0;
    while ((n = boxlite_exec_read(t->exec, BOXLITE_STDERR, buffer, sizeof(buffer), NULL)) > 0) {
        fwrite(buffer, 1, (size_t)n, stderr);
    }
}

int main(int argc, char **argv)
{
    static struct talk t;
    boxlite_error *err = NULL;
    boxlite_runtime *rt;
    boxlite_box_options *box_options;
    boxlite_box *box;
    boxlite_exec_options *options;
    boxlite_exec_result result = {.struct_size = sizeof(result)};

    if (argc < 3) {
        fprintf(stderr, "usage: feed IMAGE COMMAND [ARG...]\n");
        return 125;
    }
    check(boxlite_runtime_new(NULL, &rt, &err), &err);
    check(boxlite_box_options_new(argv[1], &box_options, &err), &err);
    check(boxlite_box_create(rt, box_options, &box, &err), &err);
    check(boxlite_box_start(box, &err), &err);
    check(boxlite_exec_options_new((const char *const *)argv + 2, (size_t)argc - 2, &options, &err),
          &err);
    check(boxlite_exec_options_set_stdin(options, 1, &err), &err);
    check(boxlite_box_exec(box, options, &t.exec, &err), &err);

    while (!t.out_ended) {
        /* Ask for input only while there is room for it: so a slow command slows the giver down. */
        struct pollfd fds[2] = {
            {.fd = boxlite_runtime_fd(rt), .events = POLLIN},
            {.fd = t.in_len || t.in_ended ? -1 : STDIN_FILENO, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0 && errno != EINTR) {
            break;
        }
        check(boxlite_runtime_dispatch(rt, 0, &err), &err);
        if (fds[1].revents) {
            read_input(&t);
        }
        if (t.in_len) {
            give_input(&t);
        }
        take_output(&t);
    }
    check(boxlite_exec_wait(t.exec, -1, &result, &err), &err);

    check(boxlite_box_remove(box, 1, &err), &err);
    boxlite_exec_free(t.exec);
    boxlite_exec_options_free(options);
    boxlite_box_free(box);
    boxlite_box_options_free(box_options);
    boxlite_runtime_free(rt);
    return result.exit_code;
}
