/* cpu.c - the CPU: an operation of the compute stream is done when its call returns, and a wait of
 * that stream holds up the host. Messages run beside; copies and messages that wait for a message
 * stand in queues, which move between operations. */
#include "device/host.h"
#include "program/target.h"

static status open_cpu(device *d, const char *words, error *err)
{
    if (*words)
        return error_set(err, ERR_MACHINE, "device cpu:%s: it takes no words after the name",
                         words);
    return host_open(d, false, 0, -1, err);
}

const device_table device_cpu = {.name = "cpu",
                                 .open = open_cpu,
                                 .close = host_close,
                                 .rows = kernels_cpu,
                                 .target = target_row_cpu,
                                 .take = host_take,
                                 .pointer = host_pointer,
                                 .map = host_pointer,
                                 .read = host_read,
                                 .write = host_write,
                                 .fill = host_fill,
                                 .copy = host_copy,
                                 .events = host_events,
                                 .record = host_record,
                                 .wait = host_wait,
                                 .wait_here = host_wait_here,
                                 .is_complete = host_is_complete,
                                 .launch = host_launch,
                                 .message = host_message,
                                 .sync = queues_finish,
                                 .settle = queues_begin_all};
