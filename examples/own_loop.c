/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_loop.c: boxlite in a program that has its own event loop (here the plainest: poll) and never
 * blocks.
 *
 *     own_loop [IMAGE]
 *
 * The box starts in the background while the program does other work; each step begins the next one
 * from its callback.
 */
#include <boxlite.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

struct app {
    boxlite_box *box;
    boxlite_exec *exec;
    int ended, exit_code;
};

static void fail(const boxlite_error *err)
{
    fprintf(stderr, "own_loop: %s\n", boxlite_error_message(err));
    exit(125);
}

static void on_stopped(void *data, int result, const boxlite_error *err)
{
    struct app *app = data;
    if (result < 0) {
        fail(err);
    }
    printf("stopped\n");
    app->ended = 1;
}

static void on_exec(void *data, boxlite_exec *exec, uint32_t events)
{
    struct app *app = data;
    boxlite_error *err = NULL;
    char buffer[4096];
    ssize_t n;

    if (events & BOXLITE_EXEC_STDOUT) {
        n = boxlite_exec_read(exec, BOXLITE_STDOUT, buffer, sizeof(buffer), NULL);
        if (n > 0) {
            fwrite(buffer, 1, (size_t)n, stdout); /* called again if there is more */
        }
    }
    if (events & BOXLITE_EXEC_EXITED) {
        boxlite_exec_result result = {.struct_size = sizeof(result)};
        if (boxlite_exec_wait(exec, 0, &result, &err) < 0 ||
            boxlite_box_stop_async(app->box, 1000, on_stopped, app, &err) < 0) {
            fail(err);
        }
        app->exit_code = result.exit_code;
    }
}

static void on_started(void *data, int result, const boxlite_error *err)
{
    struct app *app = data;
    const char *argv[] = {"sh", "-c", "echo running; exit 3"};
    boxlite_exec_options *options;
    boxlite_error *error = NULL;

    if (result < 0) {
        fail(err);
    }
    printf("started\n");
    if (boxlite_exec_options_new(argv, 3, &options, &error) < 0 ||
        boxlite_box_exec(app->box, options, &app->exec, &error) < 0) {
        fail(error);
    }
    boxlite_exec_options_free(options);
    boxlite_exec_set_callback(app->exec, on_exec, app);
}

int main(int argc, char **argv)
{
    struct app app = {0};
    boxlite_error *err = NULL;
    boxlite_runtime *rt;
    boxlite_box_options *options;

    if (boxlite_runtime_new(NULL, &rt, &err) < 0 ||
        boxlite_box_options_new(argc > 1 ? argv[1] : "boxlite/base:bookworm", &options, &err) < 0 ||
        boxlite_box_create(rt, options, &app.box, &err) < 0 ||
        boxlite_box_start_async(app.box, on_started, &app, &err) < 0) {
        fail(err);
    }
    while (!app.ended) {
        struct pollfd fds[1] = {{.fd = boxlite_runtime_fd(rt), .events = POLLIN}};
        if (poll(fds, 1, 1000) == 0) {
            fprintf(stderr, "time for other work\n");
        }
        if (fds[0].revents && boxlite_runtime_dispatch(rt, 0, &err) < 0) {
            fail(err);
        }
    }
    if (boxlite_box_remove(app.box, 1, &err) < 0) {
        fail(err);
    }
    boxlite_exec_free(app.exec);
    boxlite_box_free(app.box);
    boxlite_box_options_free(options);
    boxlite_runtime_free(rt);
    return app.exit_code;
}
