/* calls.h - the functions of src/comm that a device calls when it moves messages between ranks
 * itself instead of leaving that to src/comm. */
#ifndef DEVICE_CALLS_H
#define DEVICE_CALLS_H

#include "device/issue.h"

extern const device_calls device_comm_calls;

#endif
