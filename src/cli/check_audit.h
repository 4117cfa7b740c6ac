/* check_audit.h - what `moefold check --all-ranks` says. */
#ifndef CLI_CHECK_AUDIT_H
#define CLI_CHECK_AUDIT_H

#include "answer/audit.h"
#include "cli/verdict.h"

/* `f` is the fit of the setup. `rank` below 0: no rank was asked for. */
void cli_print_audit(const setup *s, const audit_result *r, const fit *f, double seconds, bool all,
                     arena *a);
void cli_print_audit_rank(const setup *s, const audit_result *r, int64_t rank, arena *a);

#endif
