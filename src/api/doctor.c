/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor.c: the report about the host, as exported.
 */
#include "box/doctor.h"

#include "api/api.h"

int boxlite_doctor(boxlite_runtime *rt, boxlite_report **ret, boxlite_error **err)
{
    bx_need(rt, err);
    bx_need(ret, err);
    return bx_doctor(rt, ret, err);
}

size_t boxlite_report_count(const boxlite_report *report)
{
    return report ? report->n : 0;
}

const char *boxlite_report_name(const boxlite_report *report, size_t i)
{
    return i < boxlite_report_count(report) ? report->checks[i].name : NULL;
}

int boxlite_report_status(const boxlite_report *report, size_t i)
{
    return i < boxlite_report_count(report) ? report->checks[i].status : BOXLITE_CHECK_FAIL;
}

const char *boxlite_report_detail(const boxlite_report *report, size_t i)
{
    return i < boxlite_report_count(report) ? report->checks[i].detail : NULL;
}

const char *boxlite_report_advice(const boxlite_report *report, size_t i)
{
    return i < boxlite_report_count(report) ? report->checks[i].advice : NULL;
}

void boxlite_report_free(boxlite_report *report)
{
    bx_report_free(report);
}
