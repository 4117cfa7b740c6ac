/* calls.h - the functions of backend/comm that a device calls when it moves messages between ranks
 * itself instead of leaving that to src/backend/comm. */
#ifndef BACKEND_DEVICE_CALLS_H
#define BACKEND_DEVICE_CALLS_H

#include "backend/device/issue.h"

extern const device_calls device_comm_calls;

#endif
