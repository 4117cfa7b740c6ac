/* null.c - a device that computes nothing: "null". All calls are taken, numbered and at once over.
 *
 * Memory is addresses: the system gives a page to what the host itself writes or reads; kernels,
 * copies and messages touch none. What is read are zeros, or what the host wrote. Ranks meet in the
 * control plane of comm only. It is the least that a device can be (device.h), and shows what a
 * program costs the host alone. */
#include <stdlib.h>

#include "backend/device/host.h"
#include "base/clock.h"
#include "emulated/emulated.h"
#include "ir/target.h"

static status open_null(device *d, const char *words, const device_options *o, error *err)
{
    (void)o;
    if (*words) return error_set(err, ERR_MACHINE, "device null:%s: it takes no words", words);
    return host_open(d, NULL, err);
}

static void copy(device *d, op_stream s, device_address to, device_address from, int64_t bytes)
{
    (void)d, (void)s, (void)to, (void)from, (void)bytes;
}

static status no_list(device *d, int n, error *err)
{
    (void)d, (void)n, (void)err;
    return OK;
}

static void in_stream(device *d, op_stream s, int number)
{
    (void)d, (void)s, (void)number;
}

static void on_host(device *d, int number)
{
    (void)d, (void)number;
}

static bool is_over(device *d, int number)
{
    (void)d, (void)number;
    return true;
}

static void launch(device *d, op_stream s, kernel_call *c)
{
    log_put(d, s, c->o);
    log_finish(d, s);
}

static void message(device *d, op_stream s, const op *o, void *const *in, void *const *out)
{
    (void)in, (void)out;
    log_put(d, s, o);
    log_finish(d, s);
}

static double stamp_origin(device *d)
{
    (void)d;
    return clock_seconds();
}

static double stamp_read(device *d, int stamp)
{
    (void)d, (void)stamp;
    return 0;
}

static void nothing(device *d)
{
    (void)d;
}

const device_table device_null = {.name = "null",
                                  .open = open_null,
                                  .close = host_close,
                                  .rows = kernels_cpu,
                                  .target = target_row_cpu,
                                  .take = host_take,
                                  .outside_arena = host_outside_arena,
                                  .pointer = host_pointer,
                                  .map = host_pointer,
                                  .read = host_read,
                                  .write = host_write,
                                  .fill = host_fill,
                                  .differ = host_differ,
                                  .copy = copy,
                                  .events = no_list,
                                  .record = in_stream,
                                  .wait = in_stream,
                                  .wait_here = on_host,
                                  .is_complete = is_over,
                                  .launch = launch,
                                  .message = message,
                                  .stamps = no_list,
                                  .stamp_origin = stamp_origin,
                                  .stamp = in_stream,
                                  .stamp_read = stamp_read,
                                  .sync = nothing,
                                  .settle = nothing};
