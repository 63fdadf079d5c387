/* SPDX-License-Identifier: Apache-2.0 */
/*
 * box_fixture.h: a home with a kernel and an image, and boxes in it whose shim is tests/fakeshim:
 * what runs "in" a box is a process of this host. Through the public interface only.
 */
#ifndef BX_TESTS_BOX_FIXTURE_H
#define BX_TESTS_BOX_FIXTURE_H

#include <boxlite.h>

#include "harness.h"

#define IMAGE "test:1"

/* The home in tmpdir(), made at the first call; *rt is a new runtime on it. */
boxlite_runtime *bf_runtime(void);
const char *bf_home(void);

enum {
    BF_DETACHED = 1,
    BF_AUTO_REMOVE = 2,
    BF_STDIN = 4,
    BF_START = 8, /* and start it */
};
/* A box; name NULL: made up; main NULL: none, else a command for sh -c. */
boxlite_box *bf_box(boxlite_runtime *rt, const char *name, const char *main, int flags);

/* sh -c in the box. */
enum { BF_IN = 1, BF_KEEP = 2 /* detached */ };
boxlite_exec *bf_sh(boxlite_box *box, const char *script, int flags);
/* Reads a stream to its end: text, the caller's to free; *ret_len may be NULL. */
char *bf_read_all(boxlite_exec *exec, int stream, size_t *ret_len);
/* Waits: exit code. */
int bf_wait(boxlite_exec *exec);
/* Runs to the end; its stdout must be that. */
void bf_expect(boxlite_box *box, const char *script, const char *out);

/* The pid in the box' lock file. */
pid_t bf_shim_pid(const boxlite_box *box);
/* The box' folder's entry exists. */
bool bf_exists(const char *id, const char *name);
/* How the next shims fail; NULL: not at all. See tests/fakeshim. */
void bf_fail_shim(const char *how);

#endif
