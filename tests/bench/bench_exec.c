/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_exec.c: what the library adds to a command: bench_exec BOX ROUNDS MEGABYTES
 * Prints one JSON object: median and 90th percentile of a round trip of `true` in microseconds, the share of it that is
 * not the command's own time in the guest, and the throughput of an output in MB/s.
 */
#include <boxlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static int die(const boxlite_error *err)
{
    fprintf(stderr, "bench_exec: %s\n", err ? boxlite_error_message(err) : "failed");
    return 1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs a command to its end, counting the bytes of its stdout: their number, or -1. */
static double run(boxlite_box *box, const char *const *argv, size_t argc, boxlite_exec_result *result,
                  boxlite_error **err)
{
    static char buf[1 << 20];
    boxlite_exec_options *options = NULL;
    boxlite_exec *exec = NULL;
    double bytes = 0;
    ssize_t n = BOXLITE_E_AGAIN;

    if (boxlite_exec_options_new(argv, argc, &options, err) < 0 || boxlite_box_exec(box, options, &exec, err) < 0) {
        boxlite_exec_options_free(options);
        return -1;
    }
    boxlite_exec_options_free(options);
    while (n != 0) {
        n = boxlite_exec_read(exec, BOXLITE_STDOUT, buf, sizeof(buf), err);
        if (n == BOXLITE_E_AGAIN) {
            boxlite_error_free(*err);
            *err = NULL;
            n = boxlite_exec_poll(exec, BOXLITE_EXEC_STDOUT, -1, err) < 0 ? 0 : BOXLITE_E_AGAIN;
        } else if (n > 0) {
            bytes += (double)n;
        }
    }
    n = boxlite_exec_wait(exec, -1, result, err);
    boxlite_exec_free(exec);
    return n < 0 || result->exit_code != 0 ? -1 : bytes;
}

int main(int argc, char **argv)
{
    const char *true_argv[] = {"/bin/true"};
    const char *dd_argv[] = {"dd", "if=/dev/zero", "bs=1M", NULL, "status=none"};
    boxlite_exec_result result = {.struct_size = sizeof(result)};
    boxlite_error *err = NULL;
    boxlite_runtime *rt = NULL;
    boxlite_box *box = NULL;
    int rounds = argc == 4 ? (int)strtol(argv[2], NULL, 10) : 0;
    double *took = rounds > 0 ? calloc((size_t)rounds, sizeof(*took)) : NULL;
    double start, bytes;
    char size[32];

    if (!took) {
        fprintf(stderr, "usage: bench_exec BOX ROUNDS MEGABYTES\n");
        return 2;
    }
    if (boxlite_runtime_new(NULL, &rt, &err) < 0 || boxlite_box_open(rt, argv[1], &box, &err) < 0) {
        return die(err);
    }
    double guest = 0;
    for (int i = 0; i < rounds; i++) {
        start = now_us();
        if (run(box, true_argv, 1, &result, &err) < 0) {
            return die(err);
        }
        took[i] = now_us() - start;
        guest += (double)result.wall_us;
    }
    qsort(took, (size_t)rounds, sizeof(*took), compare);
    snprintf(size, sizeof(size), "count=%s", argv[3]);
    dd_argv[3] = size;
    start = now_us();
    bytes = run(box, dd_argv, 5, &result, &err);
    if (bytes < 0) {
        return die(err);
    }
    printf("{\"round_trip_us\": %.0f, \"round_trip_p90_us\": %.0f, \"guest_us\": %.0f, \"output_bytes\": %.0f, "
           "\"output_mb_s\": %.1f}\n",
           took[rounds / 2], took[rounds * 9 / 10], guest / rounds, bytes, bytes / (now_us() - start));
    free(took);
    boxlite_box_free(box);
    boxlite_runtime_free(rt);
    return 0;
}
