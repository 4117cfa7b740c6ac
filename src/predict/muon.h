/* muon.h - what Muon's orthogonalisation adds to a step. */
#ifndef PREDICT_MUON_H
#define PREDICT_MUON_H

#include "layout/state.h"
#include "predict/cost.h"

/* Seconds of a pipeline rank whose state this is; 0 where the optimizer is another. */
double cost_of_muon(const cost_model *c, const state_bytes *s);

#endif
