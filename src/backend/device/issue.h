/* issue.h - streams of a device on which ranks move their messages by themselves.
 *
 * The host puts operations into streams (device.h) and runs ahead. A message can be given to the
 * device only when its partners have come to it, too; what stands behind it, or waits for it, comes
 * later still. So each stream has a queue in front of it.
 *
 * I1  What the device has been given waits only for what it was given before, on this rank or
 *     another: whatever is issued comes to its end, and nothing on the device waits for a host.
 *     So streams may share a queue of the hardware, and no kernel ever spins.
 * I2  A queue is issued in order. A wait is issued once the record that it is for has been. If its
 *     event is recorded again meanwhile, that record is kept in another event of the device: a wait
 *     that stood in a queue would else wait for the later one, and what runs beside would be hidden
 *     behind it. (Where the device has no more events it does wait for more, which I1 allows.)
 * I3  Queues move in every call here, and whoever waits for one moves all of them.
 * I4  A message is at the head of its queue while its members meet (rendezvous.h).
 *
 * The program and the CUDA object have copies of this code; comm is called through a table. */
#ifndef BACKEND_DEVICE_ISSUE_H
#define BACKEND_DEVICE_ISSUE_H

#include "backend/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is called of the program. */
typedef struct device_calls {
    const members *(*group)(const comm *c, comm_group g);
    const char *(*group_name)(comm_group g);
    int64_t (*rank)(const comm *c);
    int64_t (*size)(const comm *c);
    bool (*shares_process)(const comm *c);
    bool (*is_delayed)(const comm *c);
    void (*count)(comm *c, const op *o, const int32_t *table);
    int (*meet)(comm *c, const op *o, const comm_note *n);
    bool (*test)(comm *c, int request);
    void (*wait)(comm *c, int request);
    int (*wait_any)(comm *c, const int *requests, int n);
    void (*collect)(comm *c, comm_group g, const void *mine, size_t n, void *all);
    void (*barrier)(comm *c, comm_group g);
    void (*fail)(comm *c, const char *why); /* ends the job; does not return */
    const kernel *(*host_rows)(int *n);     /* kernels_cpu: for what the host computes */
} device_calls;

enum { PEERS_MAX = 64 }; /* members of a group whose data is moved here */

/* Addresses of messages beside those of spaces: the window of a stream, whose number the offset is
 * (see staged), and none. */
enum { SPACE_WINDOW = SPACE_COUNT, SPACE_NONE };

typedef struct issue_copy {
    void *to;
    const void *from;
    int64_t bytes;
} issue_copy;

/* to[k][i] = from[0][i] + from[1][i] + ..., in that order, as backend/comm/adder.h says. */
typedef struct issue_sum {
    dtype type;
    int64_t n;
    int n_from, n_to;
    const void *from[PEERS_MAX];
    void *to[PEERS_MAX];
} issue_sum;

/* Points in a stream that other ranks wait for: its data may be read; it has moved its share.
 *
 * Each group has points of its own in a stream. A member that has met the others for the second
 * time goes on; they may come to the wait for its DONE much later, when it has had messages of
 * other groups in this stream, but always before the next one of theirs (rendezvous.c). So nobody
 * records a point while another rank may still call a wait for the record before. Between processes
 * that must not be: CUDA says nothing of an event that one process records while another puts a
 * wait for it. */
typedef enum issue_point_kind { POINT_READY, POINT_DONE, POINT_COUNT } issue_point_kind;

typedef struct issue_point {
    op_stream stream;
    comm_group group;
    issue_point_kind kind;
} issue_point;

/* What a device does with what is issued: at the end of a stream, without waiting. */
typedef struct issue_hooks {
    void (*wait)(device *d, op_stream s, int slot);
    void (*record)(device *d, op_stream s, int slot);
    void (*launch)(device *d, op_stream s, kernel_call *c, uint32_t number);
    void (*replay)(device *d, int graph, const op *o, uint32_t number); /* compute stream */
    void (*copy)(device *d, op_stream s, device_address to, device_address from, int64_t bytes);
    void (*stamp)(device *d, op_stream s, int stamp);

    /* Where ranks cannot reach each other's memory data goes through windows, which they can: each
     * stream of a rank has one, with room for the largest message that it sends. What goes out is
     * staged there, others read it there, and since no event reaches another process either, hosts
     * meet when their streams have come to the place. */
    bool (*staged)(const device *d);
    void (*stage)(device *d, op_stream s, const void *from, int64_t bytes);

    /* Does a library move messages, NCCL? Then `move_by` puts one into the stream as it is, and
     * nobody meets; `table` is that of EXCHANGE, on the host. */
    bool (*by_library)(const device *d);
    void (*move_by)(device *d, op_stream s, const op *o, const int32_t *table, void *const *in,
                    void *const *out);

    /* Messages. `fetch`: n numbers to memory of the host, one place a stream, to be read when the
     * stream has passed a mark behind it. */
    const int32_t *(*fetch)(device *d, op_stream s, const void *from, int64_t n);
    void (*mark)(device *d, op_stream s);
    bool (*passed)(device *d, op_stream s);
    void (*point)(device *d, issue_point p);
    void (*await)(device *d, op_stream s, int64_t rank, issue_point theirs);
    device_address (*locate)(const device *d, const void *at);
    void *(*peer)(const device *d, int64_t rank, device_address at);
    void (*move)(device *d, op_stream s, const issue_copy *list, int n);
    void (*sum)(device *d, op_stream s, const issue_sum *x);
    void (*end)(device *d, op_stream s, const op *o, uint32_t number); /* of a message */
} issue_hooks;

typedef struct issue issue;

status issue_open(device *d, const issue_hooks *h, const device_calls *calls, error *err);
void issue_close(device *d);

/* Events 0 .. n-1, none recorded. The device has issue_slots(n) of its own, which hooks are told of
 * by number; issue_slot is the one that keeps the last record of an event. */
status issue_events(device *d, int n, error *err);
int issue_slots(int n);
int issue_slot(const device *d, int event);

void issue_wait(device *d, op_stream s, int event);
void issue_record(device *d, op_stream s, int event);
void issue_launch(device *d, op_stream s, kernel_call *c);
void issue_replay(device *d, int graph, const op *o);
void issue_message(device *d, op_stream s, const op *o, void *const *in, void *const *out);
void issue_copying(device *d, op_stream s, device_address to, device_address from, int64_t bytes);
void issue_stamp(device *d, op_stream s, int stamp);

/* Has the record of this event been issued? Moves. */
bool issue_recorded(device *d, int event);

/* The host waits until it is; until all of a stream is; until everything is. */
void issue_until_recorded(device *d, int event);
void issue_until_stream(device *d, op_stream s);
void issue_all(device *d);

#ifdef __cplusplus
}
#endif

#endif
