/* calls.c - the table of calls.h. */
#include "backend/device/calls.h"

static void fail(comm *c, const char *why)
{
    comm_abort(c, ERR_MACHINE, why);
}

const device_calls device_comm_calls = {.group = comm_group_of,
                                        .group_name = comm_group_name,
                                        .rank = comm_rank,
                                        .size = comm_size,
                                        .shares_process = comm_shares_process,
                                        .is_delayed = comm_is_delayed,
                                        .count = comm_counts,
                                        .meet = comm_meet,
                                        .test = comm_test,
                                        .wait = comm_wait,
                                        .wait_any = comm_wait_any,
                                        .collect = comm_collect,
                                        .barrier = comm_barrier,
                                        .fail = fail,
                                        .host_rows = kernels_cpu};
