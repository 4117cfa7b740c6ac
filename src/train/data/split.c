/* split.c - split texts to ranges. */
#include "train/data/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/data/numpy_sum.h"

enum { NUMBER_MAX = 64 }; /* letters of one number */

const char *const data_split_names[DATA_SPLITS] = {"train", "valid", "test"};

static const char digits[] = "0123456789.";

/* One number of `n` letters, all digits and dots. */
static bool number_of(const char *text, size_t n, double *v)
{
    char copy[NUMBER_MAX], *end;
    if (n >= sizeof copy) return false;
    memcpy(copy, text, n);
    copy[n] = 0;
    *v = strtod(copy, &end);
    return end == copy + n && isfinite(*v); /* "1.2.3" and "." are none */
}

static status read_numbers(double *v, const char *text, error *err)
{
    int n_numbers = 0;
    for (const char *p = text + strcspn(text, digits); *p; p += strcspn(p, digits)) {
        size_t n = strspn(p, digits);
        if (n_numbers == DATA_SPLITS)
            return error_set(
                err, ERR_INPUT,
                "dataset.split '%.100s' has more than three numbers; it names the parts "
                "for training, validation and test",
                text);
        if (!number_of(p, n, &v[n_numbers++]))
            return error_set(err, ERR_INPUT,
                             "dataset.split '%.100s' has '%.*s', which is not a number", text,
                             (int)(n < 60 ? n : 60), p);
        p += n;
    }
    return OK;
}

status split_parse(split_ends *ends, const char *text, error *err)
{
    double part[DATA_SPLITS] = {0};
    status s = read_numbers(part, text, err);
    if (s) return s;
    double sum = numpy_sum(part, DATA_SPLITS);
    if (!(sum > 0) || !isfinite(sum))
        return error_set(
            err, ERR_INPUT,
            "dataset.split '%.100s' gives nothing to any part; write three numbers such "
            "as '969, 30, 1'",
            text);
    numpy_normalize(part, DATA_SPLITS);
    double at = 0;
    for (int i = 0; i < DATA_SPLITS; i++) {
        ends->begin[i] = at;
        at += part[i];
        ends->end[i] = at;
        ends->present[i] = ends->begin[i] < at;
    }
    return OK;
}

split_range split_of(const split_ends *ends, data_split which, int64_t n_sequences)
{
    double n = (double)n_sequences;
    if (!ends->present[which]) return (split_range){0, 0};
    return (split_range){(int64_t)rint(ends->begin[which] * n),
                         (int64_t)rint(ends->end[which] * n)};
}
