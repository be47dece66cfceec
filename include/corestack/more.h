/* The whole public interface: corestack/corestack.h and what may still change. */
#ifndef CORESTACK_MORE_H
#define CORESTACK_MORE_H

#include <corestack/adapt.h>
#include <corestack/adapter.h>
#include <corestack/bound.h>
#include <corestack/cascade.h>
#include <corestack/collectives.h>
#include <corestack/compare.h>
#include <corestack/context.h>
#include <corestack/detection.h>
#include <corestack/fit.h>
#include <corestack/folds.h>
#include <corestack/formats.h>
#include <corestack/guard.h>
#include <corestack/label_shift.h>
#include <corestack/metrics.h>
#include <corestack/model.h>
#include <corestack/monitor.h>
#include <corestack/options.h>
#include <corestack/pool.h>
#include <corestack/profile.h>
#include <corestack/regression.h>
#include <corestack/report.h>
#include <corestack/safetensors.h>
#include <corestack/segmentation.h>
#include <corestack/soup.h>
#include <corestack/topk.h>
#include <corestack/weights.h>

#endif
