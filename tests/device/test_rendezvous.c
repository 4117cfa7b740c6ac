/* test_rendezvous.c - ranks that move their messages by themselves and do not agree end the job,
 * and say on what; see backend/device/rendezvous.h. What they move is tests/train/test_peers.c. */
#include "comm/running.h"

#include <string.h>
#include <unistd.h>

#include "backend/device/device.h"

enum { ROOM = 4096 };

typedef struct odd {
    op o[2];             /* of each rank */
    int32_t table[2][8]; /* of each rank, for an exchange */
} odd;

static const odd *now;

static void disagree(comm *c, const setup *s, result *r)
{
    (void)s;
    error err = {{0}};
    device *d = NULL;
    const device_traffic none = {.sent = {0}};
    const int64_t rank = comm_rank(c);
    if (device_open(&d, &(device_options){.name = "peers"}, c, &err) ||
        d->table->events(d, 1, &err) || d->table->take(d, SPACE_WORK, ROOM, &err) ||
        d->table->join(d, &none, &err)) {
        snprintf(r->text, sizeof r->text, "%.200s", err.text);
        return;
    }
    char *at = d->table->pointer(d, (device_address){SPACE_WORK, 0});
    memcpy(at, now->table[rank], sizeof now->table[rank]);
    void *in[OP_IN_MAX] = {at + 1024, at}, *out[OP_OUT_MAX] = {at + 2048};
    const op *o = &now->o[rank];
    d->table->message(d, o->stream, o, in, out);
    d->table->sync(d);
    device_close(d);
}

/* In a process of its own, which is to end with 3 and these words. */
static void ends_with(const odd *x, const char *words)
{
    int to[2], code = 0;
    char said[4096] = "";
    assert_int_equal(pipe(to), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(to[1], STDERR_FILENO);
        now = x;
        on_threads(2, "cluster.n_gpus=2", disagree);
        _exit(0);
    }
    close(to[1]);
    for (size_t n = 0; n + 1 < sizeof said;) {
        ssize_t got = read(to[0], said + n, sizeof said - 1 - n);
        if (got <= 0) break;
        n += (size_t)got;
    }
    close(to[0]);
    assert_int_equal(waitpid(child, &code, 0), child);
    if (!WIFEXITED(code) || WEXITSTATUS(code) != 3 || !strstr(said, words))
        fail_msg("code %d, and not '%s' but: %s", WEXITSTATUS(code), words, said);
}

static op gather_of(int64_t n)
{
    return (op){.kind = OP_ALL_GATHER,
                .group = GROUP_WORLD,
                .stream = STREAM_DP,
                .name = "weights",
                .dim = {n}};
}

static void sizes_that_differ_are_named(void **state)
{
    (void)state;
    odd x = {.o = {gather_of(8), gather_of(9)}};
    ends_with(&x, "operation weights (ALL_GATHER, group world)");
}

static void kinds_that_differ_are_named(void **state)
{
    (void)state;
    odd x = {.o = {gather_of(8), gather_of(8)}};
    x.o[1].kind = OP_ALL_TO_ALL;
    ends_with(&x, " of the group runs ALL_"); /* whichever rank says it first */
}

static void counts_that_differ_are_named(void **state)
{
    (void)state;
    op o = {.kind = OP_EXCHANGE, .group = GROUP_WORLD, .stream = STREAM_DP, .name = "dispatch"};
    o.dim[DIM_EXCHANGE_ROOM] = 4;
    o.dim[DIM_EXCHANGE_W] = 2;
    odd x = {.o = {o, o}, /* rank 0 sends 1 row to itself and 2 to rank 1, which expects 3 */
             .table = {{0, 1, 1, 2, 0, 1, 1, 1}, {0, 1, 1, 1, 0, 3, 3, 1}}};
    ends_with(&x, "rank 0 of the group sends 2 rows; rank 1 expects 3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_differ_are_named),
        cmocka_unit_test(kinds_that_differ_are_named),
        cmocka_unit_test(counts_that_differ_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
