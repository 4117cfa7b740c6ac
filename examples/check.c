/* check.c - is a recipe valid, does it fit, and what repairs it?
 *
 *     ./check RECIPE [key=value ...] [--gpus NxGPU] */
#include <moefold.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    moefold_answer *x;
    moefold_status st = moefold_check(&x, (const char *const *)argv + 1, argc - 1, NULL);
    if (*moefold_why(x)) fprintf(stderr, "%s\n", moefold_why(x));
    for (int64_t i = 0; i < moefold_count(x, "violations"); i++) {
        char rule[64], message[64];
        snprintf(rule, sizeof rule, "violations.%d.rule", (int)i);
        snprintf(message, sizeof message, "violations.%d.message", (int)i);
        printf("%s: %s\n", moefold_text(x, rule), moefold_text(x, message));
    }
    int64_t peak, usable;
    if (moefold_integer(x, "peak_bytes", &peak) && moefold_integer(x, "usable_bytes", &usable))
        printf("%.2f of %.2f GiB\n", (double)peak / (1 << 30), (double)usable / (1 << 30));
    for (int64_t i = 0; i < moefold_count(x, "fix"); i++) {
        char fix[64];
        snprintf(fix, sizeof fix, "fix.%d", (int)i);
        printf("repair: %s\n", moefold_text(x, fix));
    }
    moefold_free(x);
    return (int)st;
}
