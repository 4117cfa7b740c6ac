/* status.h - how a function says that it failed, and how the reason reaches a person.
 *
 * A function that can fail returns a `status` and takes an `error *` as its last parameter. Who
 * first knows of the failure writes the message, with the file or knob, the value and the repair;
 * callers pass status and message on unchanged. The values are the exit codes of the program. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum status {
    OK = 0,
    ERR_RULE = 1,    /* the recipe can be read but breaks a rule */
    ERR_INPUT = 2,   /* what the user gave cannot be read */
    ERR_MACHINE = 3, /* the machine failed: disk, memory, a rank */
} status;

enum { ERROR_TEXT_MAX = 2048 };

typedef struct error {
    char text[ERROR_TEXT_MAX]; /* empty while nothing failed */
} error;

/* Writes the message (cut to fit, what is no text escaped) and returns `code`, so that a caller can
 * `return error_set(err, ERR_INPUT, ...)`. */
status error_set(error *err, status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Passes a failure on at once. Where something is to be released first, or ranks must meet, the
 * first failure is carried there instead: `if (!s) s = ...`. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        status try_ = (call);                                                                      \
        if (try_) return try_;                                                                     \
    } while (0)

/* Puts "PREFIX: " before the message that is already there. */
status error_prefix(error *err, status code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#ifdef __cplusplus
}
#endif

#endif
