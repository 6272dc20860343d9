// SPDX-License-Identifier: Apache-2.0
// The verbs of a session: a laboratory from open to close, with its history, caps and allowed folders.
#pragma once
#include <span>

#include "ops/api.h"

namespace klab::ops {

/// session.open, .list, .status, .trace, .search, .select, .capture, .build, .run, .compare, .save, .approve,
/// .approvals, .report, .close.
std::span<const Verb> session_verbs();

}  // namespace klab::ops
