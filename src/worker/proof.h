// SPDX-License-Identifier: Apache-2.0
// The proof replay: is the capture self-contained, so that its baseline gives the captured outcome again?
#pragma once
#include "worker/variant.h"

namespace klab::worker {

/// Runs the baseline from the pre-state and compares every region with the post-state, up to 32 times when it
/// does not agree at once. Errors: those of running.
Result<bundle::Proof> prove(Loaded& loaded, const Variant& baseline, const Deadline& deadline);

}  // namespace klab::worker
