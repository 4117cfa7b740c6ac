/* delay.c - reads moefold.comm_delay. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "backend/comm/delay.h"

typedef struct unit {
    const char *name;
    double factor;
} unit;

static const unit times[] = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}, {"s", 1}};
static const unit rates[] = {
    {"B/s", 1}, {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}};

static const char *const level_names[LEVEL_COUNT] = {"", "node", "domain", "across"};

static status refuse(error *err, const char *text, const char *what, const char *part)
{
    return error_set(
        err, ERR_INPUT,
        "moefold.comm_delay=%s: %s '%s'; write a link as 5us+10GB/s, for all levels or "
        "after node=, domain= or across=, such as \"node=2us+100GB/s across=5us+10GB/s\"",
        text, what, part);
}

static bool has_unit(const unit *list, size_t n, const char *name, double number, double *out)
{
    for (size_t i = 0; i < n; i++) {
        if (!text_equal(list[i].name, name)) continue;
        *out = number * list[i].factor;
        return true;
    }
    return false;
}

/* "5us" or "10GB/s", ended by 0. */
static bool read_quantity(const char *word, comm_link *l)
{
    if (!strchr("0123456789.", word[0])) return false; /* strtod would take more, and blanks */
    char *end;
    double number = strtod(word, &end);
    if (end == word || !isfinite(number) || number < 0) return false;
    if (has_unit(times, sizeof times / sizeof times[0], end, number, &l->latency))
        return l->latency <= 3600;
    return has_unit(rates, sizeof rates / sizeof rates[0], end, number, &l->bandwidth) &&
           l->bandwidth > 0;
}

/* "5us+10GB/s", in place. */
static bool read_link(char *word, comm_link *l)
{
    *l = (comm_link){0, 0};
    char *plus = strchr(word, '+');
    if (plus) *plus = 0;
    if (!read_quantity(word, l)) return false;
    if (!plus) return true;
    bool was_time = l->bandwidth == 0;
    comm_link second = {0, 0};
    if (!read_quantity(plus + 1, &second) || was_time == (second.bandwidth == 0)) return false;
    if (was_time)
        l->bandwidth = second.bandwidth;
    else
        l->latency = second.latency;
    return true;
}

/* "node=..." or a link for all levels. Returns what is wrong, or NULL. */
static const char *read_part(char *word, comm_delay *d)
{
    char *equal = strchr(word, '=');
    int first = LEVEL_NODE, last = LEVEL_ACROSS;
    if (equal) {
        *equal = 0;
        for (first = LEVEL_NODE; first <= LEVEL_ACROSS; first++)
            if (text_equal(level_names[first], word)) break;
        if (first > LEVEL_ACROSS) return "there is no level";
        last = first;
        word = equal + 1;
    }
    comm_link l;
    if (!read_link(word, &l)) return "cannot read the link";
    for (int k = first; k <= last; k++) d->link[k] = l;
    d->on = true;
    return NULL;
}

status comm_delay_parse(const char *text, comm_delay *out, error *err)
{
    comm_delay d = {0};
    char word[64], shown[64];
    for (const char *p = text ? text : ""; *(p += strspn(p, " \t"));) {
        size_t n = strcspn(p, " \t");
        size_t kept = n < sizeof word ? n : sizeof word - 1;
        memcpy(word, p, kept);
        word[kept] = 0;
        memcpy(shown, word, sizeof word);
        const char *wrong = n == kept ? read_part(word, &d) : "the word is too long:";
        if (wrong) return refuse(err, text, wrong, shown);
        p += n;
    }
    *out = d;
    return OK;
}
