/* calls.h - comm, for devices whose ranks move messages by themselves. */
#ifndef DEVICE_CALLS_H
#define DEVICE_CALLS_H

#include "device/issue.h"

extern const device_calls device_comm_calls;

#endif
