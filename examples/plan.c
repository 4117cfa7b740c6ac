/* plan.c - the best layouts of a model on a cluster, within a number of seconds.
 *
 *     ./plan SECONDS MODEL --gpus NxGPU --seq TOKENS */
#include <moefold.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool in_time(void *with, const char *what, double part)
{
    const double *until = with;
    (void)what, (void)part;
    return now() < *until;
}

int main(int argc, char **argv)
{
    double until = now() + (argc > 1 ? strtod(argv[1], NULL) : 0);
    const moefold_watch watch = {.goes_on = in_time, .with = &until};
    moefold_answer *x;
    moefold_status st = moefold_plan(&x, (const char *const *)argv + 2, argc - 2, &watch);
    if (st == MOEFOLD_CANCELLED) puts("no plan in time");
    if (*moefold_why(x) && st != MOEFOLD_CANCELLED) fprintf(stderr, "%s\n", moefold_why(x));
    for (int i = 0; i < moefold_count(x, "best"); i++) {
        static const char *const sizes[] = {"tp", "cp", "ep", "pp", "dp"};
        char path[64];
        double step = 0;
        snprintf(path, sizeof path, "best.%d.step_s", i);
        moefold_real(x, path, &step);
        printf("%.3f s", step);
        for (int k = 0; k < 5; k++) {
            int64_t n = 0;
            snprintf(path, sizeof path, "best.%d.%s", i, sizes[k]);
            moefold_integer(x, path, &n);
            printf("  %s %d", sizes[k], (int)n);
        }
        printf("\n");
    }
    moefold_free(x);
    return (int)st;
}
