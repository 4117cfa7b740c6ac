/* messages.h - segments of messages: between stages, and between replicas.
 *
 * Their operations complete in other items than they start in; what binds the two is an event of
 * the program. */
#ifndef IR_BUILD_MESSAGES_H
#define IR_BUILD_MESSAGES_H

#include "ir/program.h"

/* Events of the program: those of messages for each turn, then two for each bucket. `turns` is how
 * many buffers each direction between stages has. */
typedef enum message_event {
    EVENT_SEND_FORWARD,
    EVENT_SEND_BACKWARD,
    EVENT_RECV_FORWARD,
    EVENT_RECV_BACKWARD,
    MESSAGE_EVENTS
} message_event;

int event_of_message(message_event e, int turn, int ring_depth);
int event_of_reduce(int bucket_id, int ring_depth);
int event_of_gather(int bucket_id, int ring_depth);
int events_of_program(int n_buckets, int ring_depth);

/* First of a stage: forward receives the hidden state, backward sends its gradient. With `early`
 * the receive was posted before, and forward waits for it. */
typedef struct message_shape {
    int64_t elements;
    int turn, ring_depth;
    bool early;
} message_shape;
void build_receive(builder *b, segment *seg, message_shape m);
/* Last of a stage: forward sends, backward receives. */
void build_send(builder *b, segment *seg, message_shape m);
/* Posts what those wait for: forward the receive of the hidden state, backward that of the
 * gradient. */
void build_post(builder *b, segment *seg, message_shape m);
/* Waits for one event of the program. */
void build_wait(builder *b, segment *seg, int event);

/* A bucket of gradients becomes the sum over its replicas, in this rank's slice; a bucket of
 * weights is gathered from all slices. `across`: complete at the WAIT for the bucket's event, else
 * where they stand. */
void build_reduce(builder *b, segment *seg, const program *p, int bucket_id, bool across);
void build_gather(builder *b, segment *seg, const program *p, int bucket_id, bool across);
bool bucket_has_replicas(const program *p, int bucket_id);

/* What must still be summed of the slices: weights without cut over TP, copies of the word table
 * over stages. The list is empty where there is nothing. */
void build_sums(builder *b, segment *seg, const program *p);

#endif
