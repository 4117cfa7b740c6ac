/* muon.h - what Muon's orthogonalisation adds to a step. */
#ifndef PRICE_MUON_H
#define PRICE_MUON_H

#include "layout/state.h"
#include "price/cost.h"

/* Seconds of a pipeline rank whose state this is; 0 where the optimizer is another. */
double cost_of_muon(const cost_model *c, const state_bytes *s);

#endif
