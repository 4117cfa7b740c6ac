/* choices.c - choices of cuBLASLt's algorithms are kept with a run; needs no GPU. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cases.h"
#include "kernels/cuda/lt_choices.h"

static int bad;

static void must(bool is, const char *what)
{
    if (is) return;
    printf("choices of cuBLASLt: %s\n", what);
    bad++;
}

static lt_choice choice_of(int64_t m, bool add, uint64_t first)
{
    return (lt_choice){{m, 64, 4096, false, true, DTYPE_BF16, DTYPE_F32, add}, {first, 2, 3}};
}

static bool finds(int64_t m, bool add, uint64_t first)
{
    lt_choice c = choice_of(m, add, 0), want = choice_of(m, add, first);
    return lt_choices_find(&c) && memcmp(c.algo, want.algo, sizeof c.algo) == 0;
}

static bool knows(int64_t m)
{
    lt_choice c = choice_of(m, false, 0);
    return lt_choices_find(&c);
}

static void append(const char *file, const char *text)
{
    FILE *f = fopen(file, "a");
    if (!f) exit(1);
    fputs(text, f);
    fclose(f);
}

int wrong_choices(void)
{
    char folder[] = "/tmp/moefold-choices-XXXXXX", first[64], other[80];
    if (!mkdtemp(folder)) exit(1);
    snprintf(first, sizeof first, "%s/a.txt", folder);
    snprintf(other, sizeof other, "%s/new/b.txt", folder);
    lt_choices_use(first, NULL, 130100);
    must(!knows(7), "something is known at the start");
    lt_choices_keep(&(lt_choice){choice_of(7, false, 11).shape, {11, 2, 3}});
    lt_choices_keep(&(lt_choice){choice_of(7, true, 12).shape, {~(uint64_t)0, 2, 3}});
    lt_choices_use(NULL, NULL, 130100);
    must(!knows(7), "a run without a folder knows another one's");
    append(first, "9 64 4096 0 1 2"); /* killed while it was written */
    lt_choices_use(first, NULL, 130100);
    must(finds(7, false, 11) && finds(7, true, ~(uint64_t)0), "a run that goes on has lost them");
    must(!knows(9), "half a line is taken for a choice");
    lt_choices_use(other, first, 130100);
    must(finds(7, false, 11), "those of the run that this one goes on from are not used");
    lt_choices_use(other, NULL, 130100);
    must(finds(7, false, 11), "and are not kept in the new folder");
    const int was = dup(2), nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 2); /* it says that they are chosen again */
    lt_choices_use(other, NULL, 130200);
    dup2(was, 2);
    close(was);
    close(nowhere);
    must(!knows(7), "choices of another version are used");
    lt_choices_use(other, NULL, 130200);
    lt_choices_keep(&(lt_choice){choice_of(8, false, 5).shape, {5, 2, 3}});
    lt_choices_use(other, first, 130200);
    must(finds(8, false, 5), "after another version nothing is kept");
    lt_choices_use(NULL, NULL, 0);
    unlink(first);
    unlink(other);
    snprintf(other, sizeof other, "%s/new", folder);
    rmdir(other);
    rmdir(folder);
    return bad;
}
