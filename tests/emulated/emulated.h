/* emulated.h - devices that only test builds have; words.c lists them. */
#ifndef TESTS_EMULATED_EMULATED_H
#define TESTS_EMULATED_EMULATED_H

#include "backend/device/device.h"

extern const device_table device_deferred, device_peers, device_null;

#endif
