/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many.c: several boxes at once in one thread: all are started together, each runs a command, and
 * the answers are collected as they come.
 *
 *     many COUNT [IMAGE]
 */
#include <boxlite.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT_MAX 64

struct job {
    int number;
    boxlite_box *box;
    boxlite_exec *exec;
    char output[256];
    size_t length;
    int *left; /* jobs that have not ended */
};

static void fail(const char *what, const boxlite_error *err)
{
    fprintf(stderr, "many: %s: %s\n", what, boxlite_error_message(err));
    exit(125);
}

static void on_exec(void *data, boxlite_exec *exec, uint32_t events)
{
    struct job *job = data;
    ssize_t n = 0;
    (void)events;
    while (job->length < sizeof(job->output) - 1 &&
           (n = boxlite_exec_read(exec, BOXLITE_STDOUT, job->output + job->length,
                                  sizeof(job->output) - 1 - job->length, NULL)) > 0) {
        job->length += (size_t)n;
    }
    if (n == 0) { /* the end of its output */
        boxlite_exec_set_callback(exec, NULL, NULL);
        --*job->left;
    }
}

static void on_started(void *data, int result, const boxlite_error *err)
{
    struct job *job = data;
    char script[64];
    const char *argv[] = {"sh", "-c", script};
    boxlite_exec_options *options;
    boxlite_error *error = NULL;

    if (result < 0) {
        fail("start", err);
    }
    (void)snprintf(script, sizeof(script), "echo $((%d * %d))", job->number, job->number);
    if (boxlite_exec_options_new(argv, 3, &options, &error) < 0 ||
        boxlite_box_exec(job->box, options, &job->exec, &error) < 0) {
        fail("exec", error);
    }
    boxlite_exec_options_free(options);
    boxlite_exec_set_callback(job->exec, on_exec, job);
}

int main(int argc, char **argv)
{
    static struct job jobs[COUNT_MAX];
    int count = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 4, left = count;
    boxlite_error *err = NULL;
    boxlite_runtime *rt;
    boxlite_box_options *options;

    if (count < 1 || count > COUNT_MAX) {
        fprintf(stderr, "usage: many COUNT [IMAGE], COUNT from 1 to %d\n", COUNT_MAX);
        return 125;
    }
    if (boxlite_runtime_new(NULL, &rt, &err) < 0 ||
        boxlite_box_options_new(argc > 2 ? argv[2] : "boxlite/base:bookworm", &options, &err) < 0 ||
        boxlite_box_options_set_auto_remove(options, 1, &err) < 0) {
        fail("set-up", err);
    }
    for (int i = 0; i < count; i++) {
        jobs[i].number = i + 1;
        jobs[i].left = &left;
        if (boxlite_box_create(rt, options, &jobs[i].box, &err) < 0 ||
            boxlite_box_start_async(jobs[i].box, on_started, &jobs[i], &err) < 0) {
            fail("create", err);
        }
    }
    while (left > 0) {
        if (boxlite_runtime_dispatch(rt, -1, &err) < 0) {
            fail("loop", err);
        }
    }
    for (int i = 0; i < count; i++) {
        printf("box %d: %s", jobs[i].number, jobs[i].output);
        boxlite_exec_free(jobs[i].exec);
        boxlite_box_free(jobs[i].box);
    }
    boxlite_box_options_free(options);
    boxlite_runtime_free(rt); /* ends the boxes, all together, and removes them */
    return 0;
}
