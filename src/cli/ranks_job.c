/* ranks_job.c - see ranks_job.h. */
#define _GNU_SOURCE
#include "cli/ranks_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/stop.h"

enum { RANKS_MAX = 4096, LOOK_MS = 200, END_SECONDS = 5, LEAVE_SECONDS = 60 };

typedef struct job {
    pid_t mpirun;
    int n; /* ranks that it is to start */
    bool saves;
    uint64_t pending; /* signals that mpirun has not taken: bit number - 1 */
    int of_mpirun;    /* requests that came to it */
    pid_t ranks[RANKS_MAX], told[RANKS_MAX];
    int n_ranks, n_told, most; /* alive; told to stop; alive at most */
    bool ended;                /* the second request was heard */
    double first_left;         /* when fewer than n were first seen; 0: all are there */
    double alone_since;        /* when none of those that were seen was left; 0: some are */
} job;

static atomic_int asked;
static atomic_llong first_term;
static int wake[2] = {-1, -1};

bool job_was_told(void)
{
    return atomic_load(&asked) > 0;
}

static void on_signal(int number)
{
    int kept = errno;
    if (number != SIGCHLD && !stop_is_repeat(&first_term, number)) atomic_fetch_add(&asked, 1);
    ssize_t written = write(wake[1], "", 1);
    (void)written; /* a full pipe wakes as well */
    errno = kept;
}

/* ---- what the kernel says of processes */

/* A line of /proc/PID/status, read as a hexadecimal number; 0: none. */
static uint64_t status_mask(pid_t pid, const char *name)
{
    char path[64], line[256];
    uint64_t mask = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0) mask = strtoull(line + strlen(name), NULL, 16);
    if (f) fclose(f);
    return mask;
}

static uint64_t bit(int number)
{
    return (uint64_t)1 << (number - 1);
}

static bool is_alive(pid_t pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] && !strchr("ZX", name_end[2]);
}

static void add_children(job *j, const char *task)
{
    char path[64];
    int pid;
    snprintf(path, sizeof path, "/proc/%d/task/%.16s/children", (int)j->mpirun, task);
    FILE *f = fopen(path, "re");
    while (f && j->n_ranks < RANKS_MAX && fscanf(f, "%d", &pid) == 1)
        if (is_alive((pid_t)pid)) j->ranks[j->n_ranks++] = (pid_t)pid;
    if (f) fclose(f);
}

static void find_ranks(job *j)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)j->mpirun);
    DIR *d = opendir(path);
    j->n_ranks = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.') add_children(j, e->d_name);
    if (d) closedir(d);
    if (j->n_ranks > j->most) j->most = j->n_ranks;
}

/* ---- requests */

static void look_at_mpirun(job *j)
{
    uint64_t now = status_mask(j->mpirun, "SigPnd:") | status_mask(j->mpirun, "ShdPnd:");
    for (const int *s = stop_signals; *s; s++)
        if (now & ~j->pending & bit(*s)) j->of_mpirun++;
    j->pending |= now;
}

static bool was_told(const job *j, pid_t pid)
{
    for (int i = 0; i < j->n_told; i++)
        if (j->told[i] == pid) return true;
    return false;
}

/* I2 */
static void tell(job *j)
{
    for (int i = 0; i < j->n_ranks && j->n_told < RANKS_MAX; i++) {
        pid_t pid = j->ranks[i];
        if (was_told(j, pid) || !(status_mask(pid, "SigCgt:") & bit(SIGUSR1))) continue;
        kill(pid, SIGUSR1);
        j->told[j->n_told++] = pid;
    }
}

/* I3 */
static void end(job *j, const char *why)
{
    if (!j->ended) fprintf(stderr, "moefold: %s\n", why);
    j->ended = true;
    for (int i = 0; i < j->n_ranks; i++) kill(j->ranks[i], SIGKILL);
    if (!j->most || atomic_load(&asked) > 2) kill(j->mpirun, SIGKILL);
}

/* I5. The time is that of messages by default: ranks leave MPI together. */
static void look_for_stragglers(job *j)
{
    const char *word = getenv("MOEFOLD_TIMEOUT_SECONDS");
    double limit = word && atof(word) > 0 ? atof(word) : 600;
    if (!j->n_ranks || j->n_ranks >= j->n) j->first_left = 0;
    if (!j->n_ranks || j->n_ranks >= j->n) return;
    if (j->first_left == 0) j->first_left = clock_seconds();
    if (clock_seconds() - j->first_left <= limit) return;
    char text[160];
    snprintf(text, sizeof text,
             "process %d of %d rank%s has not ended %.0f s after another one; the job ends",
             (int)j->ranks[0], j->n_ranks, j->n_ranks > 1 ? "s that are left" : "", limit);
    end(j, text);
}

/* I6 */
static void look_at_an_end(job *j)
{
    if (!j->most || j->n_ranks) j->alone_since = 0;
    if (!j->most || j->n_ranks) return;
    if (j->alone_since == 0) j->alone_since = clock_seconds();
    if (clock_seconds() - j->alone_since <= (j->ended ? END_SECONDS : LEAVE_SECONDS)) return;
    if (!j->ended)
        fprintf(stderr, "moefold: mpirun has not ended %d s after its last rank; killing it\n",
                LEAVE_SECONDS);
    j->ended = true;
    kill(j->mpirun, SIGKILL);
}

static void look(job *j)
{
    look_at_mpirun(j);
    find_ranks(j);
    int own = atomic_load(&asked), theirs = j->of_mpirun;
    bool once = own + theirs > 0, again = own > 1 || theirs > 1;
    if (j->ended || again || (once && !j->saves))
        end(j, again && j->saves
                   ? "told to stop a second time: the job ends now; unsaved steps are lost"
                   : "told to stop: the job ends");
    else if (once)
        tell(j);
    look_for_stragglers(j);
    look_at_an_end(j);
}

/* ---- the process */

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}, old;
    sigemptyset(&action.sa_mask);
    sigaction(SIGCHLD, &action, NULL);
    for (const int *s = stop_signals; *s; s++) {
        sigaction(*s, NULL, &old);
        if (*s != SIGHUP || old.sa_handler != SIG_IGN) sigaction(*s, &action, NULL);
    }
}

static void release_signals(void)
{
    signal(SIGCHLD, SIG_DFL);
    for (const int *s = stop_signals; *s; s++) {
        struct sigaction old;
        sigaction(*s, NULL, &old);
        if (old.sa_handler == on_signal) signal(*s, SIG_DFL);
    }
    close(wake[0]);
    close(wake[1]);
}

static int code_of(const job *j, int how)
{
    if (WIFEXITED(how) && WEXITSTATUS(how) <= 128) return WEXITSTATUS(how);
    int number = WIFEXITED(how) ? WEXITSTATUS(how) - 128 : WTERMSIG(how);
    if (!j->ended)
        fprintf(stderr, "moefold: the job ended by signal %d (%s)\n", number, strsignal(number));
    return ERR_MACHINE;
}

static int wait_for(job *j)
{
    for (;;) {
        int how = 0;
        pid_t got = waitpid(j->mpirun, &how, WNOHANG);
        if (got == j->mpirun) return code_of(j, how);
        if (got < 0 && errno != EINTR) return ERR_MACHINE;
        look(j);
        struct pollfd p = {.fd = wake[0], .events = POLLIN};
        char bytes[64];
        if (poll(&p, 1, LOOK_MS) > 0 && read(wake[0], bytes, sizeof bytes) < 0) continue;
    }
}

/* A group of its own, for a terminal sends ^C to all of a group. A group in the background cannot
 * read from a terminal. */
static void be_mpirun(char *const *words)
{
    sigset_t kept; /* I1 */
    sigemptyset(&kept);
    sigaddset(&kept, SIGTERM);
    sigaddset(&kept, SIGINT);
    sigaddset(&kept, SIGHUP);
    sigprocmask(SIG_BLOCK, &kept, NULL);
    setpgid(0, 0);
    if (!freopen("/dev/null", "r", stdin)) _exit(ERR_MACHINE);
    execvp(words[0], words);
    fprintf(stderr, "moefold: mpirun cannot be started: %s\n", strerror(errno));
    _exit(ERR_MACHINE);
}

int job_run(char *const *words, int n, bool saves)
{
    static job j;
    char self[32];
    j = (job){.n = n, .saves = saves};
    snprintf(self, sizeof self, "%d", (int)getpid());
    setenv(STOP_PARENT, self, 1);
    fflush(NULL);
    if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) < 0) {
        fprintf(stderr, "moefold: mpirun cannot be started: %s\n", strerror(errno));
        return ERR_MACHINE;
    }
    catch_signals();
    j.mpirun = fork();
    if (j.mpirun == 0) be_mpirun(words);
    if (j.mpirun < 0) fprintf(stderr, "moefold: mpirun cannot be started: %s\n", strerror(errno));
    int code = j.mpirun < 0 ? ERR_MACHINE : wait_for(&j);
    release_signals();
    return code;
}

/* ---- I4, in a rank */

static void *guard(void *parent)
{
    pid_t pid = *(pid_t *)parent;
    for (;;) {
        if (kill(pid, 0) < 0 && errno == ESRCH) {
            static const char text[] =
                "moefold: the process that started --ranks is gone: this rank exits\n";
            ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
            (void)written;
            _exit(ERR_MACHINE);
        }
        nanosleep(&(struct timespec){0, LOOK_MS * 1000000L}, NULL);
    }
    return NULL;
}

void job_guard(void)
{
    static pid_t parent;
    const char *word = getenv(STOP_PARENT);
    parent = word ? (pid_t)atol(word) : 0;
    if (parent <= 0 || !getenv("OMPI_COMM_WORLD_SIZE")) return;
    pid_t mpirun = getppid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != mpirun) _exit(ERR_MACHINE); /* it was gone before the kernel knew */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread;
    if (pthread_create(&thread, NULL, guard, &parent) == 0) pthread_detach(thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
