/* calls.h - the functions of the program that a device calls: those of backend/comm, when it moves
 * messages between ranks itself instead of leaving that to src/backend/comm, and the host's
 * kernels. */
#ifndef BACKEND_DEVICE_CALLS_H
#define BACKEND_DEVICE_CALLS_H

#include "backend/device/issue.h"

extern const device_calls device_comm_calls;

#endif
