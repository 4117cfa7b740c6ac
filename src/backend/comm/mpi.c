/* mpi.c - opens the MPI backend, a shared object beside the program, which links no MPI. Open MPI
 * loads parts of its own that look for its symbols among all: it is opened globally. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/object.h"
#include "backend/comm/shm.h"
#include "backend/comm/state.h"

/* 0: not said, or one alone. */
static int ranks_in(const char *name)
{
    const char *word = getenv(name);
    long n = word ? atol(word) : 0;
    return n > 1 && n <= INT_MAX ? (int)n : 0;
}

int comm_launched_ranks(void)
{
    if (getenv("OMPI_COMM_WORLD_SIZE")) return ranks_in("OMPI_COMM_WORLD_SIZE");
    if (getenv("PMI_SIZE")) return ranks_in("PMI_SIZE");
    /* The shell of a batch script has the number of tasks too, but is in no step of srun. */
    if (getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID")) {
        int n = ranks_in("SLURM_STEP_NUM_TASKS");
        return n ? n : ranks_in("SLURM_NTASKS");
    }
    return getenv("PMIX_RANK") ? LAUNCHED_UNCOUNTED : 0;
}

bool comm_launched(void)
{
    return comm_launched_ranks() != 0;
}

static status load(mpi_open_function *open_mpi, error *err)
{
    static const object_name mpi = {
        .what = "MPI",
        .file = "moefold-mpi.so",
        .symbol = MPI_OPEN_NAME,
        .repair = "install Open MPI (Debian, Ubuntu: apt-get install libopenmpi-dev openmpi-bin)",
        .global = true};
    void *symbol;
    status s = object_open(&mpi, &symbol, err);
    if (!s) memcpy(open_mpi, &symbol, sizeof symbol);
    return s;
}

static bool loaded; /* Open MPI is, or was */

/* Open MPI keeps memory until the process ends, and unloads the parts that took it. The leaks that
 * the address sanitizer finds there have no name, and hide ours: runs of one rank are looked at. */
#if defined(__SANITIZE_ADDRESS__)
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return loaded;
}
#endif

status comm_open_mpi(comm **out, error *err)
{
    mpi_open_function open_mpi;
    mpi_entry entry;
    shm_slot *alone;
    double timeout;
    int64_t most = 1 << 30; /* counts of MPI are ints */
    status st = load(&open_mpi, err);
    if (!st && planted_mpi) st = planted_mpi(&most, err);
    if (!st) st = comm_timeout(MPI_SECONDS, &timeout, err);
    if (st) return st;
    loaded = true;
    watch_call("MPI_Init", timeout);
    st = open_mpi(MPI_ENTRY_VERSION, sizeof(message), most, &entry, err);
    watch_call(NULL, 0);
    if (st) return st;
    if (!shm_transport_open(&alone, 1))
        return error_set(err, ERR_MACHINE, "no memory for messages");
    shm_transport_rename(alone, entry.rank, entry.size);
    comm *c = comm_make(entry.table, entry.state, entry.rank, entry.size);
    c->alone = (plane){&shm_backend, alone};
    c->local = entry.local;
    watch_signals(c);
    *out = c;
    return OK;
}
