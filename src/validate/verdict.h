// SPDX-License-Identifier: Apache-2.0
// The closed sets of outcomes (shared by CLI, store, MCP and web).
#pragma once
#include "base/json.h"

namespace klab::validate {

/// Correctness. `failed` carries the typed outcome of the run.
enum class Correctness { correct, incorrect, not_verified, failed };
KLAB_JSON_ENUM(Correctness, correct, incorrect, not_verified, failed)

/// Speed; only a `correct` variant gets one. `none`: no claim was asked for or is possible.
enum class Speed { none, identical, faster, slower, equivalent, inconclusive, unstable, clock_dependent };
KLAB_JSON_ENUM(Speed, none, identical, faster, slower, equivalent, inconclusive, unstable, clock_dependent)

}  // namespace klab::validate
