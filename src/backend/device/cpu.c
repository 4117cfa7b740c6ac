/* cpu.c - the CPU: an operation of the compute stream is done when its call returns, and a wait of
 * that stream holds up the host. Messages run beside; copies and messages that wait for a message
 * stand in queues, which move between operations. */
#include "backend/device/host.h"
#include "ir/target.h"

static status open_cpu(device *d, const char *word, const device_options *o, error *err)
{
    (void)o;
    if (*word)
        return error_set(err, ERR_MACHINE, "device cpu:%s: it takes no words after the name", word);
    return host_open(d, NULL, err);
}

const device_table device_cpu = {.name = "cpu",
                                 .open = open_cpu,
                                 .close = host_close,
                                 .outside_arena = host_outside_arena,
                                 .wait = host_wait,
                                 HOST_DEVICE};
