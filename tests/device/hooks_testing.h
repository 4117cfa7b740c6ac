/* hooks_testing.h - what a device without memory does for its queues (issue.h): nothing. */
#ifndef TESTS_DEVICE_HOOKS_TESTING_H
#define TESTS_DEVICE_HOOKS_TESTING_H

#include "backend/device/issue.h"

static inline bool no(const device *d)
{
    (void)d;
    return false;
}

static inline device_address hook_locate(const device *d, const void *at)
{
    (void)d, (void)at;
    return (device_address){SPACE_WORK, 0};
}

static inline void *hook_peer(const device *d, int64_t rank, device_address at)
{
    enum { RANKS_MOST = 8 };
    static char memory[RANKS_MOST][4096];
    (void)d, (void)at;
    return memory[rank];
}

static inline void hook_move(device *d, op_stream s, const issue_copy *list, int n)
{
    (void)d, (void)s, (void)list, (void)n;
}

static inline void hook_end(device *d, op_stream s, const op *o, uint32_t number)
{
    (void)d, (void)s, (void)o, (void)number;
}

#define HOOKS_THAT_DO_NOTHING                                                                      \
    .staged = no, .by_library = no, .locate = hook_locate, .peer = hook_peer, .move = hook_move,   \
    .end = hook_end

#endif
