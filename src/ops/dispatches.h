// SPDX-License-Identifier: Apache-2.0
// dispatches.kernels, .rows, .timeline: a dispatch list of any length, a page at a time, for who looks at it.
// It is `session` (its last trace) or `list` (a file); read once and kept while it is looked at.
#pragma once
#include "ops/lab.h"

namespace klab::ops {

Result<Json> dispatches_kernels(Lab& lab, const Json& arguments);
Result<Json> dispatches_rows(Lab& lab, const Json& arguments);
Result<Json> dispatches_timeline(Lab& lab, const Json& arguments);

}  // namespace klab::ops
