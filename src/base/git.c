/* git.c - `git show`, without a shell in between. */
#include "base/git.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"

enum { NOT_RUN = 127 };

const char *git_path(const char *word)
{
    return strchr(word, ':') + 1;
}

bool git_is_revision(const char *word)
{
    const char *colon = strchr(word, ':');
    return colon && colon != word && colon[1] && word[0] != '-' && !file_exists(word);
}

/* In the child: git's output goes to the pipe, its complaints to the other. */
static void run_git(const char *word, const int out[2], const int said[2])
{
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, 0);
    dup2(out[1], 1);
    dup2(said[1], 2);
    for (int i = 0; i < 2; i++) close(out[i]), close(said[i]);
    execlp("git", "git", "--no-pager", "show", word, (char *)NULL);
    _exit(NOT_RUN);
}

/* All of it, so that git is never held up; what is over the limit is dropped. */
static char *read_all(int fd, arena *a, size_t limit, size_t *n)
{
    size_t room = 1 << 16, used = 0;
    char *data = arena_take_raw(a, room + 1), rest[4096];
    for (;;) {
        if (used == room && room < limit + 1) {
            char *larger = arena_take_raw(a, room * 2 + 1);
            memcpy(larger, data, used);
            data = larger;
            room *= 2;
        }
        bool over = used > limit;
        ssize_t got = over ? read(fd, rest, sizeof rest) : read(fd, data + used, room - used);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        if (!over) used += (size_t)got;
    }
    data[used] = 0;
    *n = used;
    return data;
}

static status judge(const char *word, int code, const char *said, error *err)
{
    if (WIFEXITED(code) && WEXITSTATUS(code) == 0) return OK;
    if (WIFEXITED(code) && WEXITSTATUS(code) == NOT_RUN)
        return error_set(err, ERR_MACHINE,
                         "%s: git cannot be run; install it, or name a file instead of a revision",
                         word);
    int length = (int)strcspn(said, "\n");
    return error_set(err, ERR_INPUT,
                     "%s: there is no file of this name, and git does not know it as "
                     "REVISION:path: %.*s; repair: name a revision that `git log` shows and a path "
                     "from the repository's root, as in main:recipes/a.yaml",
                     word, length, said);
}

status git_show(arena *a, const char *word, size_t limit, char **data, size_t *n, error *err)
{
    int out[2], said[2], code = 0;
    if (pipe(out)) return error_set(err, ERR_MACHINE, "%s: no pipe: %s", word, strerror(errno));
    FILE *complaints = tmpfile(); /* a file: two pipes could hold each other up */
    if (!complaints) {
        close(out[0]), close(out[1]);
        return error_set(err, ERR_MACHINE, "%s: no temporary file: %s", word, strerror(errno));
    }
    said[0] = said[1] = fileno(complaints);
    pid_t child = fork();
    if (child == 0) run_git(word, out, said);
    close(out[1]);
    status s = OK;
    if (child < 0) {
        s = error_set(err, ERR_MACHINE, "%s: git cannot be started: %s", word, strerror(errno));
    } else {
        *data = read_all(out[0], a, limit, n);
        while (waitpid(child, &code, 0) < 0 && errno == EINTR) continue;
        char text[512] = "";
        rewind(complaints);
        size_t length = fread(text, 1, sizeof text - 1, complaints);
        text[length] = 0;
        s = judge(word, code, text, err);
    }
    close(out[0]);
    fclose(complaints);
    if (!s && *n > limit)
        s = error_set(err, ERR_INPUT, "%s: larger than the %zu bytes that such a file may have",
                      word, limit);
    return s;
}
