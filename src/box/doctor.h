/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.h: the object behind boxlite_report: what this host has, and what to do about what it
 * lacks.
 */
#ifndef BX_BOX_DOCTOR_H
#define BX_BOX_DOCTOR_H

#include <boxlite.h>

#include "box/runtime.h"

#define BX_CHECKS_MAX 32

struct boxlite_report {
    struct bx_check {
        const char *name;
        int status;
        char *detail, *advice;
    } checks[BX_CHECKS_MAX];
    size_t n;
};

int bx_doctor(boxlite_runtime *rt, boxlite_report **ret, boxlite_error **err);
void bx_report_free(boxlite_report *report);

#endif
