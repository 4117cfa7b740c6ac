/* shm.h - messages between threads of one process, and of a rank with itself.
 *
 * Every rank has a seat, and every communicator has a room, where messages wait for their partners.
 * The rank that completes a message (the last member to begin a collective, the second of a send
 * and a receive) moves all of its data and notifies the others. So no rank blocks when it begins a
 * message, and a rank that computes delays only messages in its own queues.
 *
 * I1  Rooms and seats are changed under the board's lock; data is moved outside it.
 * I2  Sums run over the members in the order of their places (adder.h): all get the same bits. */
#ifndef BACKEND_COMM_SHM_H
#define BACKEND_COMM_SHM_H

#include "backend/comm/message.h"

typedef struct shm_slot shm_slot;

extern const backend shm_backend; /* its state is a seat */

/* Seats 0 .. n-1 of one board; the last to be closed removes it. False: no memory. */
bool shm_transport_open(shm_slot **out, int n);

/* For a seat of its own in a larger job: how messages to people name it. */
void shm_transport_rename(shm_slot *s, int64_t rank, int64_t size);

/* shm_copy.c: moves the data of a collective; all[p] is the message of place p. Returns NULL, or
 * what the members do not agree on, in `text`. */
const char *shm_transport_move(message *const *all, int64_t n, char *text, size_t room);

#endif
