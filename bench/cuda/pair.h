/* pair.h - two processes and a socket between them, for probes of what they can share.
 *
 * The fork comes before any CUDA call: a context does not survive it. */
#ifndef BENCH_CUDA_PAIR_H
#define BENCH_CUDA_PAIR_H

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "common.h"

typedef struct {
    int socket;
    int second; /* whether this is the forked one */
    pid_t pid;  /* of the forked one, in the first */
} pair;

static inline pair pair_start(void)
{
    int ends[2];
    pair p = {0, 0, 0};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(3);
    p.pid = fork();
    p.second = p.pid == 0;
    p.socket = ends[p.second];
    close(ends[!p.second]);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return p;
}

static inline void pair_send(pair p, const void *data, size_t n)
{
    if (send(p.socket, data, n, 0) != (ssize_t)n) exit(3);
}

static inline void pair_receive(pair p, void *data, size_t n)
{
    if (recv(p.socket, data, n, MSG_WAITALL) != (ssize_t)n) exit(3);
}

/* Both have come here. */
static inline void pair_meet(pair p)
{
    char c = 0;
    pair_send(p, &c, 1);
    pair_receive(p, &c, 1);
}

/* An open file goes over, as handles of memory are. */
static inline void pair_send_file(pair p, int fd)
{
    char c = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {&c, 1};
    struct msghdr m = {};
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = space;
    m.msg_controllen = sizeof space;
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    h->cmsg_level = SOL_SOCKET;
    h->cmsg_type = SCM_RIGHTS;
    h->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(h), &fd, sizeof fd);
    if (sendmsg(p.socket, &m, 0) != 1) exit(3);
}

static inline int pair_receive_file(pair p)
{
    char c = 0, space[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec io = {&c, 1};
    struct msghdr m = {};
    int fd = -1;
    m.msg_iov = &io;
    m.msg_iovlen = 1;
    m.msg_control = space;
    m.msg_controllen = sizeof space;
    if (recvmsg(p.socket, &m, 0) != 1) exit(3);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (h) memcpy(&fd, CMSG_DATA(h), sizeof fd);
    return fd;
}

static inline int pair_end(pair p)
{
    int status = 0;
    if (p.second) exit(0);
    waitpid(p.pid, &status, 0);
    return status;
}

#endif
