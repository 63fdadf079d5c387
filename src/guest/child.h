/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h: what happens in the new process between clone and execve.
 */
#ifndef BX_GUEST_CHILD_H
#define BX_GUEST_CHILD_H

#include "guest/agent.h"
#include "guest/spec.h"
#include "guest/text.h"

/* What the child tells the agent: first its PID in the container (failure.errnum 0), then, only if it
 * cannot start, why. The end of the pipe after the first alone means that the program runs. */
struct child_report {
    int32_t pid;
    struct failure failure;
};

struct child {
    const struct agent *agent;
    const struct spec *spec;
    int stdio[3]; /* with a terminal all three are its slave side */
    int report;
};

/* Does not return. */
_Noreturn void child_main(const struct child *c);

#endif
