/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h: what the harness' parts share: the runner (harness.c), the checks and helpers that tests
 * call (checks.c), leaks (leaks.c).
 */
#ifndef BX_TESTS_HARNESS_INTERNAL_H
#define BX_TESTS_HARNESS_INTERNAL_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum outcome { OUTCOME_NONE, OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_SKIPPED };

/* Shared between a test's process and the runner. */
struct harness_report {
    enum outcome outcome;
    char reason[512]; /* of a skip */
    char tmpdir[PATH_MAX];
};
extern struct harness_report *harness_report;

/* Releases what helpers made for the test. */
void harness_release(void);

struct fd_set_names;
/* The descriptors that are open now; NULL when that cannot be told. */
struct fd_set_names *harness_fds(void);
void harness_fds_free(struct fd_set_names *fds);
/* Prints the differences: their number. */
int harness_fds_compare(const struct fd_set_names *before, const struct fd_set_names *after);
/* Prints and kills the children that still run, and prints those not reaped: their number. */
int harness_children_left(void);
/* Kills and reaps all children, also those that come to us by the death of others. Silent. */
void harness_children_kill(void);
/* Leaked memory: its number of reports (only under LeakSanitizer). */
int harness_memory_left(void);

#endif
