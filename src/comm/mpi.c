/* mpi.c - finds the MPI backend beside the program, and opens it.
 *
 * The program links no MPI. The shared object lies in the folder of the program, in ../lib/moefold
 * where it was installed, or in $MOEFOLD_BACKENDS; for a test (tests/FOLDER) two folders up. Other
 * folders above are not looked into: whoever may write there is not whoever installed us. Open MPI
 * loads parts of its own that look for its symbols among all, hence RTLD_GLOBAL. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/board.h"
#include "comm/state.h"

#define OBJECT "moefold-mpi.so"

static bool number_above_one(const char *name)
{
    const char *word = getenv(name);
    return word && atol(word) > 1;
}

bool comm_launched(void)
{
    if (getenv("OMPI_COMM_WORLD_SIZE")) return number_above_one("OMPI_COMM_WORLD_SIZE");
    if (getenv("PMI_SIZE")) return number_above_one("PMI_SIZE");
    /* The shell of a batch script has the number of tasks too, but is in no step of srun. */
    if (getenv("SLURM_STEP_ID") && getenv("SLURM_PROCID"))
        return number_above_one("SLURM_STEP_NUM_TASKS") || number_above_one("SLURM_NTASKS");
    return getenv("PMIX_RANK") != NULL;
}

/* The folder of the program, without a final slash. */
static bool program_folder(char *out, size_t room)
{
    ssize_t n = readlink("/proc/self/exe", out, room - 1);
    if (n <= 0) return false;
    out[n] = 0;
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
    return slash != NULL;
}

static bool there(char *path, size_t room, const char *folder, const char *below)
{
    int n = snprintf(path, room, "%s%s/" OBJECT, folder, below);
    return n > 0 && (size_t)n < room && file_exists(path);
}

static bool find_object(char *path, size_t room)
{
    char folder[PATH_MAX];
    const char *given = getenv("MOEFOLD_BACKENDS");
    if (given) return there(path, room, given, "");
    if (!program_folder(folder, sizeof folder)) return false;
    if (there(path, room, folder, "/../lib/moefold")) return true;
    if (there(path, room, folder, "")) return true;
    char *own = strrchr(folder, '/');
    if (!own) return false;
    *own = 0;
    char *parent = strrchr(folder, '/');
    if (!parent || strcmp(parent, "/tests") != 0) return false;
    *parent = 0;
    return there(path, room, folder, "");
}

static status load(mpi_open_function *open_mpi, error *err)
{
    char path[PATH_MAX + 64];
    if (!find_object(path, sizeof path))
        return error_set(err, ERR_MACHINE,
                         "MPI: " OBJECT " is not beside the program%s; install Open MPI (Debian, "
                         "Ubuntu: apt-get install libopenmpi-dev openmpi-bin) and run `make`",
                         getenv("MOEFOLD_BACKENDS") ? " (MOEFOLD_BACKENDS says where to look)"
                                                    : "");
    void *object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!object)
        return error_set(
            err, ERR_MACHINE,
            "MPI: %s; install Open MPI (Debian, Ubuntu: apt-get install openmpi-bin), or "
            "run `make` again if it was replaced by another version",
            dlerror());
    void *symbol = dlsym(object, MPI_OPEN_NAME);
    if (!symbol)
        return error_set(err, ERR_MACHINE, "MPI: %s is not ours: it has no " MPI_OPEN_NAME, path);
    memcpy(open_mpi, &symbol, sizeof symbol);
    return OK;
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
    seat *alone;
    double timeout;
    status st = load(&open_mpi, err);
    if (!st) st = comm_timeout(MPI_SECONDS, &timeout, err);
    if (st) return st;
    loaded = true;
    watch_call("MPI_Init", timeout);
    st = open_mpi(MPI_ENTRY_VERSION, sizeof(message), &entry, err);
    watch_call(NULL, 0);
    if (st) return st;
    if (!board_open(&alone, 1)) return error_set(err, ERR_MACHINE, "no memory for messages");
    board_rename(alone, entry.rank, entry.size);
    comm *c = comm_make(entry.table, entry.state, entry.rank, entry.size);
    c->alone = (plane){&board_backend, alone};
    watch_signals(c);
    *out = c;
    return OK;
}
